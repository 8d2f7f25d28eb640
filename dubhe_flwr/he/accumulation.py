"""Homomorphic sums of encrypted vectors: products of their ciphertexts modulo n^2."""

from collections.abc import Iterable
from typing import Final, Self

import gmpy2

from dubhe_flwr.errors import InvalidCiphertextError, MalformedMessageError, SettingsError
from dubhe_flwr.he.public_key import PublicKey

__all__ = ["Accumulator", "homomorphic_sum"]

_VERSION: Final = 1
_HEADER_BYTES: Final = 1 + 8 + 32


class Accumulator:
    """A homomorphic sum in the making, of constant size however many vectors it holds.

    Order does not matter, and partial sums made elsewhere can be merged: `to_bytes` and
    `from_bytes` carry them from one machine to another.

    Parameters
    ----------
    public_key : PublicKey
        The key under which all vectors are encrypted.
    num_ciphertexts : int, default=1
        Number of ciphertexts in each vector.

    Attributes
    ----------
    num_addends : int
        Number of vectors added so far.

    Examples
    --------
    >>> from dubhe_flwr.he import generate_secret_key
    >>> secret_key = generate_secret_key(512)
    >>> total = Accumulator(secret_key.public_key)
    >>> for plaintext in (1, 20, 300):
    ...     total.add(secret_key.encrypt([plaintext]))
    >>> secret_key.decrypt(total.value()), total.num_addends
    ([321], 3)
    """

    def __init__(self, public_key: PublicKey, num_ciphertexts: int = 1) -> None:
        if num_ciphertexts < 1:
            raise SettingsError(f"num_ciphertexts={num_ciphertexts}: give it at least 1.")
        self.public_key = public_key
        self.num_ciphertexts = num_ciphertexts
        self.num_addends = 0
        self._modulus = gmpy2.mpz(public_key.n_square)
        self._products = [gmpy2.mpz(1)] * num_ciphertexts

    def add(self, vector: bytes) -> None:
        """Add one vector; one that is refused leaves the sum as it was.

        Raises
        ------
        InvalidCiphertextError
            If the length is wrong or a number is out of range.
        """
        self._multiply(self.public_key.parse(vector, self.num_ciphertexts))
        self.num_addends += 1

    def merge(self, other: "Accumulator") -> None:
        """Add the partial sum that another accumulator holds.

        Raises
        ------
        SettingsError
            If the other one is of another key or length.
        """
        if (other.public_key, other.num_ciphertexts) != (self.public_key, self.num_ciphertexts):
            raise SettingsError(
                "Two partial sums differ in key or length: merge sums of one field and epoch."
            )
        self._multiply(other._products)  # noqa: SLF001
        self.num_addends += other.num_addends

    def to_bytes(self) -> bytes:
        """Return the partial sum as bytes: 41 of a header, and its ciphertexts."""
        size = self.public_key.ciphertext_bytes
        header = bytes([_VERSION]) + self.num_addends.to_bytes(8, "big") + self.public_key.digest()
        return header + b"".join(int(product).to_bytes(size, "big") for product in self._products)

    @classmethod
    def from_bytes(cls, data: bytes, public_key: PublicKey, num_ciphertexts: int = 1) -> Self:
        """Read a partial sum that another machine made.

        Parameters
        ----------
        data : bytes
            What `to_bytes` gave.
        public_key : PublicKey
            The key under which all vectors are encrypted.
        num_ciphertexts : int, default=1
            Number of ciphertexts in each vector.

        Raises
        ------
        MalformedMessageError
            If the bytes are no partial sum of such vectors under this key.
        InvalidCiphertextError
            If its ciphertexts are out of range or no units.

        Examples
        --------
        >>> from dubhe_flwr.he import generate_secret_key
        >>> secret_key = generate_secret_key(512)
        >>> part = Accumulator(secret_key.public_key)
        >>> part.add(secret_key.encrypt([7]))
        >>> again = Accumulator.from_bytes(part.to_bytes(), secret_key.public_key)
        >>> secret_key.decrypt(again.value()), again.num_addends
        ([7], 1)
        """
        partial = cls(public_key, num_ciphertexts)
        body = data[_HEADER_BYTES:]
        if len(body) != num_ciphertexts * public_key.ciphertext_bytes or data[0] != _VERSION:
            raise MalformedMessageError(
                "The bytes are no partial sum of this length; take those of to_bytes."
            )
        if data[9:_HEADER_BYTES] != public_key.digest():
            raise MalformedMessageError(
                "The partial sum is under another key; merge sums of one epoch only."
            )
        num_addends = int.from_bytes(data[1:9], "big")
        products = public_key.parse(body, num_ciphertexts)
        if num_addends == 0 and set(products) != {1}:
            raise MalformedMessageError("A partial sum of no vectors has a value; it was changed.")
        partial.num_addends = num_addends
        partial._multiply(products)
        if not partial.is_valid():
            raise InvalidCiphertextError("A partial sum is no unit: make it anew from its addends.")
        return partial

    def value(self) -> bytes:
        """Return the encrypted sum.

        Raises
        ------
        InvalidCiphertextError
            If an addend was no unit modulo n; `PublicKey.is_valid` finds out which.
        SettingsError
            If nothing was added.
        """
        if self.num_addends == 0:
            raise SettingsError("A sum of no vectors has no value: add at least one.")
        if not self.is_valid():
            raise InvalidCiphertextError("An addend is no unit: look for it with is_valid.")
        size = self.public_key.ciphertext_bytes
        return b"".join(int(product).to_bytes(size, "big") for product in self._products)

    def is_valid(self) -> bool:
        """Tell whether all addends were ciphertexts, at the cost of a single check."""
        # A product is a unit only if every factor is one.
        return all(self.public_key.is_unit(product) for product in self._products)

    def _multiply(self, factors: Iterable[int]) -> None:
        modulus, products = self._modulus, self._products
        for place, factor in enumerate(factors):
            products[place] = products[place] * factor % modulus


def homomorphic_sum(
    public_key: PublicKey, vectors: Iterable[bytes], num_ciphertexts: int = 1
) -> bytes:
    """Add encrypted vectors slot by slot, streaming over any iterable.

    Parameters
    ----------
    public_key : PublicKey
        The key under which all vectors are encrypted.
    vectors : iterable of bytes
        Vectors of `num_ciphertexts` ciphertexts each.
    num_ciphertexts : int, default=1
        Number of ciphertexts in each vector.

    Returns
    -------
    bytes
        The encrypted sum, a vector of the same length.

    Raises
    ------
    InvalidCiphertextError
        If a vector is of a wrong length, out of range, or no unit.
    SettingsError
        If there are no vectors.

    Examples
    --------
    >>> from dubhe_flwr.he import generate_secret_key
    >>> secret_key = generate_secret_key(512)
    >>> vectors = (secret_key.encrypt([count, 1]) for count in range(5))
    >>> secret_key.decrypt(homomorphic_sum(secret_key.public_key, vectors, num_ciphertexts=2))
    [10, 5]
    """
    total = Accumulator(public_key, num_ciphertexts)
    for vector in vectors:
        total.add(vector)
    return total.value()
