"""The vault of the committee: only its three members together open a sum, and only with noise.

Theory of operation. Every node agrees on a secret with each member (X25519), from which both derive
pads. It sends its numbers plus its pads from all three members, modulo a prime, so the server
receives numbers that look random. The server adds up the vectors and shows the total to the
members. A member opens each sum once: with the sum of its pads for the nodes in the
sum, minus its own noise, sealed to a key that all nodes share (the group key). A node subtracts
all three answers from the total, and is left with the sum plus the noise of all three members. A
server that colludes with any nodes and two members still lacks the third member's pads.

Each vector carries one more number, its *tag*: the inner product with factors derived from the
group key. A server that changes a total does not know the factors, so the tag exposes the change.
Pads depend on the group key, too: if nodes were given different keys, no member's pads can open the
sum of their vectors. Colluding nodes do know the factors, so each member also proves to each node
which total it opened, with the secret that only these two share. A lying member could still show
each node another sum, and so choose who volunteers in the next one. So a node derives a new group
key from each sum that it reads: nodes that read different sums share no pads afterwards.

The members are three of the first six trusted keys, in their order. Without trusted keys the server
draws them, and has to be trusted to follow the protocol.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import gaussian
from dubhe_flwr.errors import (
    DecryptionError,
    InvalidCiphertextError,
    MalformedMessageError,
    RefusedError,
    SealError,
    UnprovenError,
)
from dubhe_flwr.he import pads
from dubhe_flwr.he.sealing import ENCAPSULATED_KEY_BYTES, TAG_BYTES, RecipientKey, prefixed
from dubhe_flwr.protocol.vaults.keyed import KeyedVault
from dubhe_flwr.protocol.vaults.vault import Member, Numbers, Seat, SumName
from dubhe_flwr.protocol.wire.codec import require
from dubhe_flwr.protocol.wire.envelope import PROTOCOL_TAG
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE_SIZE,
    AppointReply,
    AppointRequest,
    OpenReply,
    OpenRequest,
    RegisterRequest,
)
from dubhe_flwr.protocol.wire.roster import DIGEST_BYTES, PUBLIC_KEY_BYTES, split
from dubhe_flwr.protocol.wire.statements import parameters_digest

CANDIDATES: Final = 2 * COMMITTEE_SIZE
"""The members of a committee are among this many trusted keys at the top of the list."""

UNPROVEN: Final = tuple(
    f"Member {place + 1} of the committee has not proved the sum to this node."
    for place in range(COMMITTEE_SIZE)
)
"""A node's complaints about each member, which the server recognizes, too."""


class Committee(KeyedVault):
    """Hides numbers from everyone except all three members together."""

    num_openers = COMMITTEE_SIZE
    num_candidates = CANDIDATES
    sealed_key_bytes = ENCAPSULATED_KEY_BYTES + pads.KEY_BYTES + TAG_BYTES

    # --- a member ---------------------------------------------------------------------------------

    def appoint(self, seat: Seat, request: AppointRequest) -> tuple[AppointReply, Member]:
        """Check who joined and who opens sums, and agree on pads with every node."""
        reply, _ = super().appoint(seat, request)
        own, roster, keys = seat.delivery_key, request.roster.digest, request.roster.keys
        scope, node = self._scope(seat.epoch, roster), own.public_bytes
        place = [keys[each] for each in request.openers].index(node)
        pad_keys = b"".join(_pad_key(own, key, scope, node, key) for key in keys)
        return reply, Member(place, roster, pad_keys, secrets.token_bytes(pads.KEY_BYTES))

    def make_key(self, state: bytes) -> tuple[bytes, bytes]:
        """Return the digest of the group key, and the bytes from which nodes derive it."""
        made = secrets.token_bytes(pads.KEY_BYTES)
        return _digest(_bound(made, state)), made

    def release(
        self,
        member: Member,
        keys: bytes,
        sum_name: SumName,
        request: OpenRequest,
        noise: Numbers | None,
    ) -> OpenReply:
        """Return the member's part of a sum that `check_open` accepted, and a proof for each node.

        `noise` comes from `own_noise`, or in a simulation from the seed.
        """
        group, num_slots = keys[: pads.KEY_BYTES], self.fields[sum_name.field].number
        bits = np.unpackbits(np.frombuffer(request.covered, np.uint8), count=member.num_joined)
        name = _pad_name(group, sum_name, num_slots)
        pad_keys = list(split(member.pad_keys, pads.KEY_BYTES))
        padding = pads.total(pads.pads(compress(pad_keys, bits), name, num_slots + 1))
        factors = _factors(group, sum_name, num_slots)
        added = np.zeros(num_slots, dtype=np.int64) if noise is None else noise
        part = pads.written(pads.difference(padding, pads.tagged(added.tolist(), factors)))
        covered, total = _digest(request.covered), request.total
        key = _release_key(group, sum_name, covered, total)
        sealed = AESGCM(key).encrypt(_nonce(member.place), part, None)
        statement = _opened_statement(sum_name, covered, int(bits.sum()), total, sealed)
        return OpenReply(sealed, b"".join(pads.proof(each, statement) for each in pad_keys))

    def check_open(
        self, member: Member, keys: bytes, sum_name: SumName, request: OpenRequest
    ) -> Member:
        """Check a request to open a sum, and return the member's state afterwards.

        A member opens one sum under each number, in order: two sums over different nodes would
        reveal their difference. A sum covers at least half of the nodes that joined, and no node
        that was missing from the previous one.
        """
        size = -(-member.num_joined // 8)
        if len(request.covered) != size or len(request.total) != self.vector_bytes(sum_name.field):
            raise RefusedError("The sum, or the list of nodes in it, has the wrong size.")
        if sum_name.number != member.num_opened:
            raise RefusedError("A member opens each sum once, in order.")
        bits = int.from_bytes(request.covered)
        if bits & ((1 << (8 * size - member.num_joined)) - 1):
            raise RefusedError("The sum covers nodes that did not join.")
        num_clients = bits.bit_count()
        if num_clients < self.announced.least_clients(member.num_joined):
            raise RefusedError(f"A sum over {num_clients} of {member.num_joined} nodes is refused.")
        if member.covered and bits & ~int.from_bytes(member.covered):
            raise RefusedError("The sum covers nodes that were not in the previous one.")
        group = keys[: pads.KEY_BYTES]  # it has read no sum before it opens the first one
        if sum_name.number:
            group = _bound(member.group, request.previous)
        return replace(
            member,
            group=group,
            covered=request.covered,
            num_opened=member.num_opened + 1,
            num_registered=member.num_registered or num_clients,
        )

    def own_noise(
        self, member: Member, request: OpenRequest, deviations: NDArray[np.float64]
    ) -> Numbers:
        """Return a real member's noise on a sum, derived from its secret and the request.

        A member whose process died before Flower stored its memory may be asked again. It then adds
        the same noise, so that repeated answers do not average it out.

        The noise reaches 12 deviations, much further than a client can shift a sum: a number that
        only one of two federations can have tells them apart for certain.
        """
        info = prefixed(b"noise", request.number.to_bytes(8), request.covered, request.total)
        stream = pads.pad(member.noise_key, info, 3 * deviations.size)
        high, low, angle = ((stream >> np.uint64(8)) * 2.0**-53).reshape(3, -1)
        radius = 1.0 - high - low * 2.0**-53  # at least 2^-106
        return gaussian(deviations, np.stack([radius, angle]))

    # --- a node -----------------------------------------------------------------------------------

    def keys(self, seat: Seat, request: RegisterRequest, secret: bytes, state: bytes) -> bytes:
        """Return the group key and a key for pads with each member, concatenated."""
        group = _bound(secret, state)
        if len(secret) != pads.KEY_BYTES or _digest(group) != request.public:
            raise SealError
        own, scope = seat.delivery_key, self._scope(seat.epoch, request.roster)
        return group + b"".join(
            _pad_key(own, member, scope, member, own.public_bytes)
            for member in split(request.opener_keys, PUBLIC_KEY_BYTES)
        )

    def check_public(self, public: bytes) -> None:
        """Raise `MalformedMessageError` unless this can be the digest of a group key."""
        require(len(public) == DIGEST_BYTES, "A digest must have 32 bytes.")

    def hide(self, keys: bytes, sum_name: SumName, numbers: Numbers) -> bytes:
        """Return the numbers and their tag, plus the pads from all members."""
        group, *pad_keys = split(keys, pads.KEY_BYTES)
        values = self.fields[sum_name.field].check(sum_name.field, numbers)
        num_slots = len(values)
        factors = _factors(group, sum_name, num_slots)
        padding = pads.pads(pad_keys, _pad_name(group, sum_name, num_slots), num_slots + 1)
        return pads.written(pads.total([pads.tagged(values, factors), *padding]))

    def vector_bytes(self, field: str) -> int:
        """Return the size of a field's numbers and their tag in bytes."""
        return pads.NUMBER_BYTES * (self.fields[field].number + 1)

    def read(self, keys: bytes, sum_name: SumName, total: bytes, num_clients: int) -> Numbers:
        """Check the members' proofs, subtract their parts from a total, and check its tag.

        Also raises `UnprovenError`, with a complaint, if a member has not proved the sum.
        """
        group, *pad_keys = split(keys, pads.KEY_BYTES)
        num_slots = self.fields[sum_name.field].number
        size, sealed_size = self.vector_bytes(sum_name.field), self._sealed_bytes(sum_name.field)
        parts_end = size + DIGEST_BYTES + COMMITTEE_SIZE * sealed_size
        if len(total) != parts_end + COMMITTEE_SIZE * pads.PROOF_BYTES:
            raise DecryptionError
        summed, covered = total[:size], total[size : size + DIGEST_BYTES]
        cipher = AESGCM(_release_key(group, sum_name, covered, summed))
        parts = []
        told = zip(
            pad_keys,
            split(total[size + DIGEST_BYTES : parts_end], sealed_size),
            split(total[parts_end:], pads.PROOF_BYTES),
            strict=True,
        )
        for place, (pad_key, part, proof) in enumerate(told):
            statement = _opened_statement(sum_name, covered, num_clients, summed, part)
            if not hmac.compare_digest(pads.proof(pad_key, statement), proof):
                raise UnprovenError(UNPROVEN[place])
            try:
                parts.append(cipher.decrypt(_nonce(place), part, None))
            except InvalidTag:
                raise DecryptionError from None
        read = pads.read(b"".join([summed, *parts]), (1 + COMMITTEE_SIZE) * (num_slots + 1))
        vectors = read.reshape(1 + COMMITTEE_SIZE, -1)
        vector = pads.difference(vectors[0], pads.total(vectors[1:]))
        sums = pads.untagged(vector, _factors(group, sum_name, num_slots))
        return self.fields[sum_name.field].check_sum(sums, num_clients)

    def keys_after(self, keys: bytes, opened: bytes) -> bytes:
        """Bind the group key to the sum: nodes that read another one share no further pads."""
        return _bound(keys[: pads.KEY_BYTES], opened) + keys[pads.KEY_BYTES :]

    # --- the server -------------------------------------------------------------------------------

    def add_up(self, public: bytes, fields: Iterable[str], vectors: Iterable[bytes]) -> bytes:
        """Return the sum modulo the prime."""
        del public
        num_slots = sum(self.fields[field].number + 1 for field in fields)
        try:
            return pads.written(pads.total([pads.read(each, num_slots) for each in vectors]))
        except DecryptionError:
            sentence = "A vector has the wrong length, or is out of range."
            raise InvalidCiphertextError(sentence) from None

    def is_release(self, field: str, num_joined: int, reply: OpenReply) -> bool:
        """Return whether a member's answer has the right size."""
        sizes = len(reply.sealed), len(reply.proofs)
        return sizes == (self._sealed_bytes(field), num_joined * pads.PROOF_BYTES)

    @staticmethod
    def opened(total: bytes, covered: bytes, replies: Sequence[OpenReply]) -> bytes:
        """Return what all nodes receive: the total, the digest of `covered`, the parts in order."""
        return b"".join([total, _digest(covered), *(reply.sealed for reply in replies)])

    @staticmethod
    def proofs(replies: Sequence[OpenReply]) -> list[bytes]:
        """Return what each node that joined receives in addition: the members' proofs."""
        of_members = (split(reply.proofs, pads.PROOF_BYTES) for reply in replies)
        return [b"".join(proofs) for proofs in zip(*of_members, strict=True)]

    def _sealed_bytes(self, field: str) -> int:
        return self.vector_bytes(field) + TAG_BYTES

    def _scope(self, epoch: bytes, roster: bytes) -> bytes:
        """Return the epoch and terms that all keys of the committee are bound to."""
        return prefixed(PROTOCOL_TAG.encode(), epoch, parameters_digest(self.announced), roster)


def _pad_key(own: RecipientKey, other: bytes, scope: bytes, member: bytes, node: bytes) -> bytes:
    """Agree on a key for pads; return a random key if the other public key is unusable."""
    try:
        return pads.agreed_key(own, other, prefixed(b"pads", scope, member, node))
    except MalformedMessageError:
        return secrets.token_bytes(pads.KEY_BYTES)


def _bound(group: bytes, known: bytes) -> bytes:
    """Bind the group key to a state or sum: nodes that know another one can read no further sum."""
    return pads.derived_key(group, prefixed(b"group", known))


def _factors(group: bytes, sum_name: SumName, num_slots: int) -> pads.Residues:
    """Return the factors of a tag, derived from the group key."""
    return pads.pad(group, prefixed(b"tag", _name(sum_name)), num_slots)


def _release_key(group: bytes, sum_name: SumName, covered: bytes, total: bytes) -> bytes:
    """Return the key that seals the members' parts of one sum."""
    info = prefixed(b"release", _name(sum_name), covered, _digest(total))
    return pads.derived_key(group, info)


def _opened_statement(
    sum_name: SumName, covered: bytes, num_clients: int, total: bytes, sealed: bytes
) -> bytes:
    """Return what a member proves to each node: which sum it opened, and its own part.

    The key of a proof belongs to one epoch and its terms.
    """
    opened = prefixed(_name(sum_name), covered, num_clients.to_bytes(8), total, sealed)
    return prefixed(b"opened", _digest(opened))


def _nonce(place: int) -> bytes:
    """Return the nonce of a member's part: no two parts of a sum share it."""
    return place.to_bytes(12)


def _pad_name(group: bytes, sum_name: SumName, num_slots: int) -> bytes:
    """Return the name of the pads of a sum.

    Pads differ between nodes that were given different group keys, or that expect vectors of
    different lengths. With equal pads, the nodes' numbers would be tagged under one key, and a
    member's noise under another. An attacker who knows both keys could then compute a number from
    which the noise cancels out.
    """
    return prefixed(_name(sum_name), num_slots.to_bytes(8), _digest(group))


def _name(sum_name: SumName) -> bytes:
    return prefixed(sum_name.field.encode(), sum_name.number.to_bytes(8))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
