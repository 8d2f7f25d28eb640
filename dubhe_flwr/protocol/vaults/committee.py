"""The vault of the committee: only its three members together open a sum, and only with noise.

Theory of operation. Every node agrees on a secret with each member (X25519). It sends its numbers
plus a pad of each member, modulo a prime, so what arrives at the server looks random. The server
adds up what came and shows the total to the members. Each of them answers a single time for each
exchange: with the sum of its pads of the nodes in the sum, less noise of its own, sealed to a key
of the whole group. Who holds that key takes all three answers from the total and is left with the
sum and the noise of three. A server with any nodes and two members lacks the pads of the third.

A further number, the *tag*, goes with each vector: its product with factors that follow from the
group key. A server that changes a total does not know them, and the tag gives it away. Pads depend
on the group key, too, so that nodes that were given two keys add up to nothing.

Who is a member follows from the order of the trusted keys: three of the first six. Without such
keys the server draws them, and then has to be trusted to follow the protocol.
"""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    UntrustedError,
)
from dubhe_flwr.he import pads
from dubhe_flwr.he.sealing import (
    ENCAPSULATED_KEY_BYTES,
    TAG_BYTES,
    RecipientKey,
    prefixed,
    seal_bytes,
)
from dubhe_flwr.he.signing import SIGNATURE_BYTES, SIGNER_BYTES, PinnedKeys, is_signed_by
from dubhe_flwr.protocol.hidden import Hidden
from dubhe_flwr.protocol.vaults.vault import Adder, Label, Numbers, Seat, Vault
from dubhe_flwr.protocol.wire.envelope import EPOCH_ID_BYTES, PROTOCOL_TAG
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE,
    PUBLIC_KEY_BYTES,
    AppointReply,
    AppointRequest,
    OpenReply,
    OpenRequest,
    RegisterRequest,
)
from dubhe_flwr.protocol.wire.messages import Committee as Appointed
from dubhe_flwr.protocol.wire.statements import (
    appointment_statement,
    check_roster,
    parameters_digest,
    release_statement,
    split,
)

CANDIDATES: Final = 2 * COMMITTEE
"""Nodes at the top of the trusted keys among which the members are."""

SEALED_GROUP_KEY_BYTES: Final = ENCAPSULATED_KEY_BYTES + pads.KEY_BYTES + TAG_BYTES
_DIGEST_BYTES: Final = 32
_UNSIGNED: Final = bytes(SIGNATURE_BYTES)
_NO_SIGNERS: Final = bytes(COMMITTEE * SIGNER_BYTES)


@dataclass(frozen=True, slots=True, repr=False)
class Member(Hidden):
    """What a member of the committee keeps in an epoch."""

    place: int  # among the members
    roster: bytes  # digest of the keys of all who joined
    pad_keys: bytes  # of all who joined, end to end
    noise_key: bytes
    covered: bytes = b""  # a bit for each node in the last sum that it opened
    opened: bytes = b""  # digests of these sums and of who is in them, end to end
    num_registered: int = 0  # nodes in the first of them

    @property
    def num_joined(self) -> int:
        """How many nodes joined."""
        return len(self.pad_keys) // pads.KEY_BYTES

    @property
    def num_opened(self) -> int:
        """How many sums the member has opened."""
        return len(self.opened) // _DIGEST_BYTES


@dataclass(frozen=True, slots=True, repr=False)
class _Keys(Hidden):
    """A node's keys, which it keeps as bytes."""

    epoch: bytes
    group: bytes
    signers: bytes  # public halves of the members' pinned keys; zeros without such keys
    pad_keys: bytes  # one with each member

    def to_bytes(self) -> bytes:
        return self.epoch + self.group + self.signers + self.pad_keys

    @classmethod
    def from_bytes(cls, keys: bytes) -> "_Keys":
        group = EPOCH_ID_BYTES + pads.KEY_BYTES
        signers = group + len(_NO_SIGNERS)
        return cls(
            keys[:EPOCH_ID_BYTES], keys[EPOCH_ID_BYTES:group], keys[group:signers], keys[signers:]
        )

    @property
    def pinned(self) -> bool:
        """Whether members sign what they open."""
        return self.signers != _NO_SIGNERS


class Committee(Vault):
    """Hides numbers from everybody but all members together."""

    num_members = COMMITTEE

    # --- a member ---------------------------------------------------------------------------------

    def appoint(
        self, seat: Seat, request: AppointRequest, before: Member | None
    ) -> tuple[AppointReply, Member]:
        """Check who joined and who opens sums, and agree on pads with every node.

        It may be asked once more, if its reply was lost.
        """
        announced, own = self.announced, seat.delivery_key
        keys = list(split(request.public_keys, PUBLIC_KEY_BYTES))
        least = max(announced.min_cohort, COMMITTEE)
        if len(set(keys)) < len(keys) or not least <= len(keys) <= announced.max_clients:
            raise RefusedError("The keys of those who joined are not distinct, too few or many.")
        places = request.members
        fits = len(set(places)) == len(places) == COMMITTEE
        if not fits or min(places) < 0 or max(places) >= len(keys):
            raise RefusedError("A committee has three members among those who joined.")
        member_keys = [keys[place] for place in places]
        if own.public_bytes not in member_keys:
            raise RefusedError("This node is no member of that committee.")
        if seat.pinned is not None:
            signers = check_roster(
                seat.pinned, seat.epoch, announced, request.public_keys, request.signatures or b""
            )
            _check_ranks(seat.pinned, [signers[place] for place in places])
        roster, place = _digest(request.public_keys), member_keys.index(own.public_bytes)
        if before is not None and (
            before.opened or (before.roster, before.place) != (roster, place)
        ):
            raise RefusedError("This node is a member of another committee in that epoch.")
        scope = self._scope(seat.epoch, roster)
        pad_keys = b"".join(_pad_key(own, key, scope, own.public_bytes, key) for key in keys)
        member = Member(place, roster, pad_keys, secrets.token_bytes(pads.KEY_BYTES))
        digest, sealed = b"", b""
        if place == 0:
            group = secrets.token_bytes(pads.KEY_BYTES)
            digest = _digest(group)
            sealed = b"".join(_sealed(group, key, scope) for key in keys)
        signature = None
        if seat.pinned is not None:
            joined = b"".join(member_keys)
            signature = seat.pinned.sign(
                appointment_statement(
                    seat.epoch, announced, roster, len(keys), joined, place, digest
                )
            )
        return AppointReply(digest, sealed, signature), member

    def release(  # noqa: PLR0917 - who opens which sum, and with what noise
        self,
        member: Member,
        keys: bytes,
        pinned: PinnedKeys | None,
        label: Label,
        request: OpenRequest,
        noise: Numbers | None,
    ) -> OpenReply:
        """Return the member's part of a sum that `check_open` let pass.

        Its noise is the given one in a simulation, and else follows from a secret of the member
        and from the request, so that a repeated request gets the same answer.
        """
        own, number = _Keys.from_bytes(keys), self.fields[label.field].number
        bits = np.unpackbits(np.frombuffer(request.covered, np.uint8), count=member.num_joined)
        name = _pad_name(own.group, label)
        padding = pads.total(
            [
                pads.pad(key, name, number + 1)
                for key, is_in in zip(split(member.pad_keys, pads.KEY_BYTES), bits, strict=True)
                if is_in
            ]
        )
        factors = _factors(own.group, label, number)
        added = np.zeros(number, dtype=np.int64) if noise is None else noise
        part = pads.written(pads.difference(padding, pads.tagged(added.tolist(), factors)))
        covered, num_clients = _digest(request.covered), int(bits.sum())
        key = _release_key(own.group, label, member.place, covered, request.total)
        sealed = AESGCM(key).encrypt(bytes(12), part, None)
        signature = None
        if pinned is not None:
            signature = pinned.sign(
                release_statement(
                    own.epoch,
                    self.announced,
                    label.exchange,
                    covered,
                    num_clients,
                    request.total,
                    sealed,
                )
            )
        return OpenReply(sealed, signature)

    def check_open(self, member: Member, label: Label, request: OpenRequest) -> Member:
        """Return the member once it has opened a sum.

        There is one sum of each exchange, over at least half of the nodes that joined and nobody
        who was not in the sum before. Two sums over different nodes would tell their difference.
        """
        size = -(-member.num_joined // 8)
        if len(request.covered) != size or len(request.total) != self.vector_bytes(label.field):
            raise RefusedError("The sum, or the list of nodes in it, is of a wrong size.")
        digest = _digest(prefixed(request.covered, request.total))
        start = label.exchange * _DIGEST_BYTES
        if label.exchange < member.num_opened:
            if member.opened[start : start + _DIGEST_BYTES] != digest:
                raise RefusedError("This node has opened another sum for that exchange.")
            return member
        if label.exchange > member.num_opened:
            raise RefusedError("A sum before this one did not reach this node.")
        bits = np.unpackbits(np.frombuffer(request.covered, np.uint8))
        if bits[member.num_joined :].any():
            raise RefusedError("The sum covers nodes that did not join.")
        number = int(bits.sum())
        if number < max(self.announced.min_cohort, -(-member.num_joined // 2)):
            raise RefusedError(f"A sum over {number} of {member.num_joined} nodes is refused.")
        if member.covered:
            before = np.unpackbits(np.frombuffer(member.covered, np.uint8))
            if (bits > before).any():
                raise RefusedError("The sum covers nodes that were not in the one before.")
        return replace(
            member,
            covered=request.covered,
            opened=member.opened + digest,
            num_registered=member.num_registered or number,
        )

    def own_noise(
        self, member: Member, request: OpenRequest, deviations: NDArray[np.float64]
    ) -> Numbers:
        """Return a real member's noise of a sum: the same one for the same request."""
        info = prefixed(b"noise", request.exchange.to_bytes(8), request.covered, request.total)
        stream = pads.pad(member.noise_key, info, 2 * deviations.size)
        uniform = (stream >> np.uint64(8)).astype(np.float64) * 2.0**-53
        return gaussian(deviations, uniform.reshape(2, -1))

    # --- a node -----------------------------------------------------------------------------------

    def accept(self, seat: Seat, request: RegisterRequest, before: bytes | None) -> bytes:
        """Open the group key, and agree on pads with the members.

        With pinned keys each member has signed who joined and who opens the sums.
        """
        appointed = request.committee
        if appointed is None or request.key is not None:
            raise RefusedError("A committee opens the sums of this epoch.")
        if before is not None:
            raise RefusedError("This node has registered in that epoch before.")
        signers = _NO_SIGNERS
        if seat.pinned is not None:
            signers = self._signers(seat, seat.pinned, appointed, request.num_joined)
        own, scope = seat.delivery_key, self._scope(seat.epoch, appointed.roster)
        member_keys = list(split(appointed.member_keys, PUBLIC_KEY_BYTES))
        if len(set(member_keys)) < COMMITTEE:
            raise RefusedError("A committee has three members.")
        info = prefixed(b"group", scope, own.public_bytes)
        group = own.decrypt(appointed.sealed_key, info)
        if len(group) != pads.KEY_BYTES or _digest(group) != appointed.group_digest:
            raise RefusedError("The group key is not what the first member made.")
        pad_keys = b"".join(
            _pad_key(own, member, scope, member, own.public_bytes) for member in member_keys
        )
        return _Keys(seat.epoch, group, signers, pad_keys).to_bytes()

    def hide(self, keys: bytes, label: Label, numbers: Numbers) -> bytes:
        """Return the numbers and their tag under a pad of each member."""
        own = _Keys.from_bytes(keys)
        values = self.fields[label.field].check(label.field, numbers)
        factors, name = _factors(own.group, label, len(values)), _pad_name(own.group, label)
        vectors = [
            pads.pad(key, name, len(values) + 1) for key in split(own.pad_keys, pads.KEY_BYTES)
        ]
        return pads.written(pads.total([pads.tagged(values, factors), *vectors]))

    def vector_bytes(self, field: str) -> int:
        """Return the size of the numbers of a field and their tag."""
        return pads.NUMBER_BYTES * (self.fields[field].number + 1)

    def read(self, keys: bytes, label: Label, total: bytes, num_clients: int) -> Numbers:
        """Take the members' parts from a total; its tag shows whether somebody changed it."""
        own, number = _Keys.from_bytes(keys), self.fields[label.field].number
        size, sealed_size = self.vector_bytes(label.field), self._sealed_bytes(label.field)
        part_size = sealed_size + SIGNATURE_BYTES
        if len(total) != size + _DIGEST_BYTES + COMMITTEE * part_size:
            raise DecryptionError
        summed, covered = total[:size], total[size : size + _DIGEST_BYTES]
        vector = pads.read(summed, number + 1)
        signers = list(split(own.signers, SIGNER_BYTES))
        for place, part in enumerate(split(total[size + _DIGEST_BYTES :], part_size)):
            sealed, signature = part[:sealed_size], part[sealed_size:]
            statement = release_statement(
                own.epoch, self.announced, label.exchange, covered, num_clients, summed, sealed
            )
            if own.pinned and not is_signed_by(signers[place], statement, signature):
                raise DecryptionError
            key = _release_key(own.group, label, place, covered, summed)
            try:
                opened = AESGCM(key).decrypt(bytes(12), sealed, None)
            except InvalidTag:
                raise DecryptionError from None
            vector = pads.difference(vector, pads.read(opened, number + 1))
        sums = pads.untagged(vector, _factors(own.group, label, number))
        return self.fields[label.field].check_sum(sums, num_clients)

    def _signers(
        self, seat: Seat, pinned: PinnedKeys, appointed: Appointed, num_joined: int
    ) -> bytes:
        """Return the pinned keys of the members, who have all signed the same committee."""
        signatures = list(split(appointed.signatures or b"", SIGNATURE_BYTES))
        if len(signatures) != COMMITTEE:
            raise UntrustedError("The members of the committee have not signed.")
        signers = []
        for place, signature in enumerate(signatures):
            statement = appointment_statement(
                seat.epoch,
                self.announced,
                appointed.roster,
                num_joined,
                appointed.member_keys,
                place,
                b"" if place else appointed.group_digest,
            )
            try:
                signers.append(pinned.trusted.signer(statement, signature))
            except UntrustedError as error:
                raise UntrustedError(
                    f"Member {place + 1} of the committee is not a trusted node that was "
                    f"appointed under these parameters: {error}"
                ) from None
        _check_ranks(pinned, signers)
        return b"".join(signers)

    # --- the server -------------------------------------------------------------------------------

    def adder(self, public: bytes, *fields: str) -> Adder:
        """Return what adds up modulo the prime."""
        del public
        return _PadAdder(sum(self.fields[field].number + 1 for field in fields))

    def is_release(self, field: str, reply: OpenReply) -> bool:
        """Return whether a member's answer has the right size."""
        return len(reply.sealed) == self._sealed_bytes(field)

    @staticmethod
    def opened(total: bytes, covered: bytes, replies: Sequence[OpenReply]) -> bytes:
        """Return what nodes are given: the total, who is in it, and the members' parts in order."""
        parts = (reply.sealed + (reply.signature or _UNSIGNED) for reply in replies)
        return b"".join([total, _digest(covered), *parts])

    def _sealed_bytes(self, field: str) -> int:
        return self.vector_bytes(field) + TAG_BYTES

    def _scope(self, epoch: bytes, roster: bytes) -> bytes:
        """Return what all keys of the epoch are bound to."""
        return prefixed(PROTOCOL_TAG.encode(), epoch, parameters_digest(self.announced), roster)


@dataclass(frozen=True, slots=True)
class _PadAdder(Adder):
    number: int

    def add_up(self, vectors: Iterable[bytes]) -> bytes:
        """Return the sum modulo the prime."""
        try:
            return pads.written(pads.total([pads.read(each, self.number) for each in vectors]))
        except DecryptionError:
            raise InvalidCiphertextError(
                "A vector is of a wrong length, or out of range."
            ) from None

    def is_valid(self, vector: bytes) -> bool:
        """Return whether there are as many numbers, all below the prime."""
        try:
            pads.read(vector, self.number)
        except DecryptionError:
            return False
        return True


def roster_digest(public_keys: bytes) -> bytes:
    """Return the digest of the keys of all who joined."""
    return _digest(public_keys)


def _check_ranks(pinned: PinnedKeys, signers: Sequence[bytes]) -> None:
    """Check that members are among the first trusted keys, in their order."""
    ranks = [pinned.trusted.rank(signer) for signer in signers]
    if ranks != sorted(set(ranks)) or ranks[-1] >= CANDIDATES:
        raise UntrustedError(
            f"The committee is not three of the first {CANDIDATES} trusted keys, in their order."
        )


def _pad_key(own: RecipientKey, other: bytes, scope: bytes, member: bytes, node: bytes) -> bytes:
    """Agree on a key for pads; with an unusable public key on one that nobody else has."""
    try:
        return pads.agreed_key(own, other, prefixed(b"pads", scope, member, node))
    except MalformedMessageError:
        return secrets.token_bytes(pads.KEY_BYTES)


def _sealed(group: bytes, recipient: bytes, scope: bytes) -> bytes:
    """Seal the group key; who sent an unusable public key gets what never opens."""
    try:
        return seal_bytes(group, recipient, prefixed(b"group", scope, recipient))
    except MalformedMessageError:
        return secrets.token_bytes(SEALED_GROUP_KEY_BYTES)


def _factors(group: bytes, label: Label, number: int) -> pads.Residues:
    """Return the factors of a tag, which follow from the group key."""
    return pads.pad(pads.derived_key(group, b"tag"), _name(label), number)


def _release_key(group: bytes, label: Label, place: int, covered: bytes, total: bytes) -> bytes:
    """Return the key under which one member's part of one sum is sealed."""
    info = prefixed(b"release", _name(label), bytes([place]), covered, _digest(total))
    return pads.derived_key(group, info)


def _pad_name(group: bytes, label: Label) -> bytes:
    """Return the name of the pads of a sum, which differ where nodes were given two group keys.

    With the same pads a member's noise, tagged under one key, would drop out of a tag under the
    other one and leave an exact number.
    """
    return prefixed(_name(label), _digest(group))


def _name(label: Label) -> bytes:
    return prefixed(label.field.encode(), label.exchange.to_bytes(8))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
