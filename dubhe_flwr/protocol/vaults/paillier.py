"""The paper's vault: numbers encrypted under a Paillier key that an agent makes for all nodes.

The server adds up ciphertexts but cannot open them. A node's keys are the modulus and one of its
primes; the server knows only the modulus.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.he.layout import Layout, Slots
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import sealed_bytes
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_flwr.protocol.vaults.keyed import KeyedVault
from dubhe_flwr.protocol.vaults.vault import Numbers, Seat, SumName
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.messages import RegisterRequest

_MAX_CIPHERTEXTS: Final = 256


class Paillier(KeyedVault):
    """Hides numbers from the server; anyone with a node's key can open what any node sent."""

    def __init__(self, announced: JoinRequest, fields: Mapping[str, Slots]) -> None:
        super().__init__(announced, fields)
        self.layout = Layout(announced.key_bits, announced.max_clients, fields)
        self.sealed_key_bytes = sealed_bytes(announced.key_bits)
        most = max(map(self.layout.num_ciphertexts, fields))
        if most > _MAX_CIPHERTEXTS:
            raise SettingsError(
                f"The rule takes {most} ciphertexts from each node at once, above "
                f"{_MAX_CIPHERTEXTS}; choose a rule with fewer numbers."
            )

    def make_key(self, state: bytes) -> tuple[bytes, bytes]:
        """Return a new modulus and one of its primes."""
        del state
        secret_key = generate_secret_key(self.announced.key_bits)
        return secret_key.public_key.to_bytes(), secret_key.to_bytes()

    def keys(self, seat: Seat, request: RegisterRequest, secret: bytes, state: bytes) -> bytes:
        """Return the modulus and its prime."""
        del seat, state
        public_key = PublicKey.from_bytes(request.public, self.announced.key_bits)
        SecretKey.from_bytes(secret, public_key)  # check that it is a prime of the modulus
        return request.public + secret

    def check_public(self, public: bytes) -> None:
        """Raise `MalformedMessageError` unless this can be a modulus."""
        PublicKey.from_bytes(public, self.announced.key_bits)

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


@lru_cache(maxsize=1)
def _secret_key(keys: bytes, key_bits: int) -> SecretKey:
    """Return a node's secret key; the cache shares it between the nodes of a simulation."""
    size = key_bits // 8
    public_key = PublicKey.from_bytes(keys[:size], key_bits)
    return SecretKey(public_key, int.from_bytes(keys[size:], "big"))
