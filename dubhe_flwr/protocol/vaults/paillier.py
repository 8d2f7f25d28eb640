"""The paper's vault: numbers encrypted under a Paillier key that an agent makes for all nodes.

The server adds up ciphertexts but cannot open them. A node's keys are the modulus and one of its
primes; the server knows only the modulus.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Final

from dubhe_flwr.errors import RefusedError, SettingsError, UntrustedError
from dubhe_flwr.he.layout import Layout, Slots
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import prefixed, seal
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_flwr.protocol.vaults.vault import Numbers, Seat, SumName, Vault
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.envelope import PROTOCOL_TAG
from dubhe_flwr.protocol.wire.messages import KeygenReply, KeygenRequest, RegisterRequest
from dubhe_flwr.protocol.wire.statements import check_roster, key_statement

_MAX_CIPHERTEXTS: Final = 256


class Paillier(Vault):
    """Hides numbers from the server; anyone with a node's key can open what any node sent."""

    def __init__(self, announced: JoinRequest, fields: Mapping[str, Slots]) -> None:
        super().__init__(announced, fields)
        self.layout = Layout(announced.key_bits, announced.max_clients, fields)
        most = max(map(self.layout.num_ciphertexts, fields))
        if most > _MAX_CIPHERTEXTS:
            raise SettingsError(
                f"The rule takes {most} ciphertexts from each node at once, above "
                f"{_MAX_CIPHERTEXTS}; choose a rule with fewer numbers."
            )

    def make_key(self, seat: Seat, request: KeygenRequest) -> KeygenReply:
        """Make a new key pair and seal its secret half to each node, including this one."""
        announced, own = self.announced, seat.delivery_key.public_bytes
        roster = request.roster
        self.check_nodes(roster, least=announced.min_cohort)
        recipients, mean_examples = roster.keys, roster.mean_examples
        if own not in recipients:
            raise RefusedError("The recipients lack the agent itself.")
        if seat.pinned is not None:
            check_roster(seat.pinned, seat.epoch, announced, roster)
        secret_key = generate_secret_key(announced.key_bits)
        public_key, prime = secret_key.public_key, secret_key.to_bytes()
        info = partial(sealing_info, seat.epoch, own, public_key, self.layout.digest())
        sealed = b"".join(seal(prime, each, info(each)) for each in recipients)
        signatures, state = None, self.sealed_state(seat, prime)
        if seat.pinned is not None:
            statement = partial(key_statement, seat.epoch, announced, self.layout, own, public_key)
            told = len(recipients), mean_examples, state
            signatures = b"".join(seat.pinned.sign(statement(each, *told)) for each in recipients)
        return KeygenReply(public_key.to_bytes(), sealed, signatures, state)

    def accept(self, seat: Seat, request: RegisterRequest) -> tuple[bytes, bytes]:
        """Open the sealed key; with pinned keys, only if a trusted agent made it for this node."""
        delivered = request.key
        if delivered is None or request.committee is not None:
            raise RefusedError(
                "A request to register in this registration period needs a key, not a committee."
            )
        public_key = PublicKey.from_bytes(delivered.modulus, self.announced.key_bits)
        agent = delivered.agent_public_key
        if seat.pinned is not None:
            statement = key_statement(
                seat.epoch,
                self.announced,
                self.layout,
                agent,
                public_key,
                seat.delivery_key.public_bytes,
                request.num_joined,
                request.mean_examples,
                request.state,
            )
            try:
                seat.pinned.trusted.rank(statement, delivered.signature)
            except UntrustedError as error:
                raise UntrustedError(
                    f"No trusted agent made this key for this node, registration period and "
                    f"parameters: {error}"
                ) from None
        own, digest = seat.delivery_key, self.layout.digest()
        info = sealing_info(seat.epoch, agent, public_key, digest, own.public_bytes)
        prime = own.decrypt(delivered.sealed_key, info)
        SecretKey.from_bytes(prime, public_key)  # check that it is a prime of the modulus
        return delivered.modulus + prime, self.opened_state(request, prime)

    def hide(self, keys: bytes, sum_name: SumName, numbers: Numbers) -> bytes:
        """Return the numbers, packed and encrypted."""
        return self.secret_key(keys).encrypt(self.layout.pack(sum_name.field, numbers))

    def vector_bytes(self, field: str) -> int:
        """Return the size of all ciphertexts of a field in bytes."""
        return self.layout.field_bytes(field)

    def add_up(self, public: bytes, fields: Iterable[str], vectors: Iterable[bytes]) -> bytes:
        """Multiply the ciphertexts under the public modulus."""
        public_key = PublicKey.from_bytes(public, self.announced.key_bits)
        return public_key.add_up(vectors, sum(map(self.layout.num_ciphertexts, fields)))

    def read(self, keys: bytes, sum_name: SumName, total: bytes, num_clients: int) -> Numbers:
        """Decrypt and unpack a sum."""
        return self.layout.unpack(sum_name.field, self.secret_key(keys).decrypt(total), num_clients)

    def secret_key(self, keys: bytes) -> SecretKey:
        """Return the epoch's secret key."""
        return _secret_key(keys, self.announced.key_bits)


def sealing_info(
    epoch: bytes, agent: bytes, public_key: PublicKey, layout_digest: bytes, recipient: bytes
) -> bytes:
    """Return what a sealed key is bound to; agent and recipient are public delivery keys."""
    digests = public_key.digest(), layout_digest
    return prefixed(PROTOCOL_TAG.encode(), epoch, agent, recipient, *digests)


@lru_cache(maxsize=1)
def _secret_key(keys: bytes, key_bits: int) -> SecretKey:
    """Return a node's secret key; the cache shares it between the nodes of a simulation."""
    size = key_bits // 8
    public_key = PublicKey.from_bytes(keys[:size], key_bits)
    return SecretKey(public_key, int.from_bytes(keys[size:], "big"))
