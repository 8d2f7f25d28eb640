"""Plaintexts in the place of ciphertexts, for simulations, which have nobody to hide from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dubhe_flwr.errors import DecryptionError, InvalidCiphertextError, SettingsError
from dubhe_flwr.he.layout import HEADROOM_BITS
from dubhe_flwr.he.public_key import ciphertext_bytes

__all__ = ["Unencrypted"]


@dataclass(frozen=True, slots=True)
class Unencrypted:
    """Packs and adds as Paillier encryption does, without encrypting.

    A vector has as many bytes as an encrypted one, so that nothing else has to know.

    Parameters
    ----------
    key_bits : int
        Size of the modulus in whose place it stands.

    Examples
    --------
    >>> plain = Unencrypted(512)
    >>> vectors = (plain.encrypt([count, 1]) for count in range(5))
    >>> plain.decrypt(plain.add_up(vectors, num_ciphertexts=2))
    [10, 5]
    """

    key_bits: int

    def encrypt(self, plaintexts: Sequence[int]) -> bytes:
        """Return the plaintexts as bytes."""
        size = ciphertext_bytes(self.key_bits)
        return b"".join(plaintext.to_bytes(size, "big") for plaintext in plaintexts)

    def decrypt(self, vector: bytes) -> list[int]:
        """Return the plaintexts.

        Raises
        ------
        DecryptionError
            If it is not a vector of plaintexts.
        """
        size = ciphertext_bytes(self.key_bits)
        if not self.is_valid(vector, max(1, len(vector) // size)):
            raise DecryptionError
        starts = range(0, len(vector), size)
        return [int.from_bytes(vector[start : start + size], "big") for start in starts]

    def is_valid(self, vector: bytes, num_ciphertexts: int = 1) -> bool:
        """Return whether these are so many plaintexts."""
        size = ciphertext_bytes(self.key_bits)
        if len(vector) != size * num_ciphertexts:
            return False
        most = 1 << (self.key_bits - HEADROOM_BITS)
        starts = range(0, len(vector), size)
        return all(int.from_bytes(vector[at : at + size], "big") < most for at in starts)

    def add_up(self, vectors: Iterable[bytes], num_ciphertexts: int = 1) -> bytes:
        """Return the sum of vectors, slot by slot.

        Raises
        ------
        InvalidCiphertextError
            If one is not a vector of so many plaintexts.
        SettingsError
            If there are no vectors.
        """
        size = ciphertext_bytes(self.key_bits)
        totals = [0] * num_ciphertexts
        num_addends = 0
        for vector in vectors:
            if not self.is_valid(vector, num_ciphertexts):
                raise InvalidCiphertextError("A vector is not of this length, or out of range.")
            for place in range(num_ciphertexts):
                totals[place] += int.from_bytes(vector[place * size : (place + 1) * size], "big")
            num_addends += 1
        if num_addends == 0:
            raise SettingsError("A sum of no vectors has no value: add at least one.")
        return b"".join(total.to_bytes(size, "big") for total in totals)
