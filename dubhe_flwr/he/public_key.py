"""The Paillier public key: checks ciphertexts and adds them up.

Ciphertexts travel as fixed-length big-endian bytes. phe validates nothing, so everything that
arrives is checked here. A *vector* is one or more ciphertexts put end to end.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import gmpy2

from dubhe_flwr.errors import InvalidCiphertextError, MalformedMessageError, SettingsError

MIN_KEY_BITS: Final = 512
HEADROOM_BITS: Final = 3
"""Bits of a plaintext that carry no slots, so that phe could read it, too: phe takes the upper two
thirds of the plaintexts for negative numbers and overflow."""


def check_key_bits(key_bits: int) -> None:
    """Raise `SettingsError` for a key size below 512, or not a multiple of 16.

    If the size is not a multiple of 16, the primes do not fill whole bytes.
    """
    if key_bits < MIN_KEY_BITS or key_bits % 16:
        raise SettingsError(
            f"key_bits={key_bits} must be a multiple of 16 and at least {MIN_KEY_BITS}: use 2048 "
            "or 3072."
        )


def ciphertext_bytes(key_bits: int) -> int:
    """Size in bytes of one ciphertext, an integer modulo n^2."""
    return 2 * key_bits // 8


@dataclass(frozen=True)
class PublicKey:
    """The Paillier modulus: enough to check ciphertexts and to add them.

    Parameters
    ----------
    n : int
        The modulus; `from_bytes` reads and checks one.

    Examples
    --------
    >>> from dubhe_flwr.he.secret_key import generate_secret_key
    >>> public_key = generate_secret_key(512).public_key
    >>> public_key.bits, public_key.ciphertext_bytes
    (512, 128)
    >>> PublicKey.from_bytes(public_key.to_bytes(), key_bits=512) == public_key
    True
    """

    n: int

    @property
    def bits(self) -> int:
        """Size of the modulus in bits."""
        return self.n.bit_length()

    @cached_property
    def ciphertext_bytes(self) -> int:
        """Size of one ciphertext in bytes."""
        return ciphertext_bytes(self.bits)

    @cached_property
    def n_square(self) -> gmpy2.mpz:
        """The modulus of the ciphertexts, cached because gmpy2 would convert it on every use."""
        return gmpy2.mpz(self.n) ** 2

    def to_bytes(self) -> bytes:
        """Return the modulus as `bits / 8` big-endian bytes."""
        return self.n.to_bytes(self.bits // 8, "big")

    @classmethod
    def from_bytes(cls, data: bytes, key_bits: int) -> Self:
        """Read a modulus; raises `MalformedMessageError` unless it is odd, of `key_bits` bits."""
        n = int.from_bytes(data, "big")
        if len(data) * 8 != key_bits or n.bit_length() != key_bits or n % 2 == 0:
            raise MalformedMessageError(f"The modulus is not an odd number of {key_bits} bits.")
        return cls(n)

    def parse(self, vector: bytes, num_ciphertexts: int = 1) -> list[gmpy2.mpz]:
        """Read a vector of ciphertexts, checking length and range but not invertibility.

        Raises `InvalidCiphertextError` unless each number lies strictly between 0 and n^2.
        """
        size = self.ciphertext_bytes
        if not vector or len(vector) != num_ciphertexts * size:
            raise InvalidCiphertextError(
                f"A vector has {len(vector)} bytes instead of {num_ciphertexts} x {size}."
            )
        starts = range(0, len(vector), size)
        ciphertexts = [gmpy2.mpz.from_bytes(vector[at : at + size], "big") for at in starts]
        if not 0 < min(ciphertexts) <= max(ciphertexts) < self.n_square:
            raise InvalidCiphertextError("A ciphertext lies outside 1..n^2-1.")
        return ciphertexts

    def add_up(self, vectors: Iterable[bytes], num_ciphertexts: int = 1) -> bytes:
        """Return the encrypted sum of encrypted vectors, slot by slot: their product modulo n^2.

        Each vector consists of `num_ciphertexts` ciphertexts, and so does the sum. Raises
        `SettingsError` if there is no vector, and `InvalidCiphertextError` if one has the wrong
        length, is out of range, or is not a unit.

        >>> from dubhe_flwr.he.secret_key import generate_secret_key
        >>> secret_key = generate_secret_key(512)
        >>> vectors = (secret_key.encrypt([count, 1]) for count in range(5))
        >>> secret_key.decrypt(secret_key.public_key.add_up(vectors, num_ciphertexts=2))
        [10, 5]
        """
        modulus, products = self.n_square, [gmpy2.mpz(1)] * num_ciphertexts
        num_addends = 0
        for vector in vectors:
            for place, factor in enumerate(self.parse(vector, num_ciphertexts)):
                products[place] = products[place] * factor % modulus
            num_addends += 1
        if num_addends == 0:
            raise SettingsError("No vectors to add up: pass at least one.")
        # A product is a unit only if every factor is: one check covers them all.
        if not self.are_units(products):
            raise InvalidCiphertextError("An addend is not a unit; to find it, add up each alone.")
        size = self.ciphertext_bytes
        return b"".join(int(product).to_bytes(size, "big") for product in products)

    def are_units(self, numbers: Iterable[gmpy2.mpz]) -> bool:
        """Return whether each number has an inverse modulo n^2."""
        return all(gmpy2.gcd(number, self.n) == 1 for number in numbers)
