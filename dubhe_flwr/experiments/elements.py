"""The paper's way of encrypting a vector: `phe`, one ciphertext for each element."""

from collections.abc import Sequence

import phe

from dubhe_flwr.he import SecretKey

__all__ = ["ElementByElement"]


class ElementByElement:
    """A vector that is encrypted and decrypted element by element, by the public key.

    Parameters
    ----------
    key : SecretKey
        Its modulus and primes are taken.
    values : sequence of int
        The vector.

    Examples
    --------
    >>> from dubhe_flwr.he import generate_secret_key
    >>> vector = ElementByElement(generate_secret_key(512), [0, 1, 0])
    >>> vector.decrypt(), vector.num_bytes
    ([0, 1, 0], 384)
    """

    def __init__(self, key: SecretKey, values: Sequence[int]) -> None:
        self._public = phe.PaillierPublicKey(key.public_key.n)
        p = int.from_bytes(key.to_bytes(), "big")
        self._secret = phe.PaillierPrivateKey(self._public, p, key.public_key.n // p)
        self._values = list(values)
        self._encrypted = self.encrypt()
        self.num_bytes = len(values) * key.public_key.ciphertext_bytes

    def encrypt(self) -> list[phe.EncryptedNumber]:
        """Encrypt the vector."""
        return [self._public.encrypt(value) for value in self._values]

    def decrypt(self) -> list[int]:
        """Decrypt the vector."""
        return [self._secret.decrypt(number) for number in self._encrypted]
