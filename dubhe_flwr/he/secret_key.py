"""The Paillier secret key, which every client holds: fast encryption and guarded decryption.

Whoever owns the primes can obfuscate modulo the square of each prime separately. These two
exponentiations of half the size take a quarter of the time that encryption with the public key
takes, and the ciphertexts have the same distribution. phe generates the primes and decrypts.
"""

import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import gmpy2
import phe
from phe.util import invert, mulmod, powmod

from dubhe_flwr.errors import DecryptionError, InvalidCiphertextError, SealError, SettingsError
from dubhe_flwr.he.hidden import Hidden
from dubhe_flwr.he.public_key import PublicKey, check_key_bits


class SecretKey(Hidden):
    """The primes p and q of a Paillier key.

    `generate_secret_key` makes a key, and `from_bytes` reads and checks one. A key is equal only
    to itself.

    Parameters
    ----------
    public_key : PublicKey
        The modulus n, also an attribute.
    p : int
        A prime factor of n; it is not checked.

    Examples
    --------
    >>> secret_key = generate_secret_key(512)
    >>> vector = secret_key.encrypt([12, 34])
    >>> len(vector), secret_key.decrypt(vector)
    (256, [12, 34])
    """

    __slots__ = ("_p", "_p_square", "_p_square_inverse", "_q", "_q_square", "public_key")

    def __init__(self, public_key: PublicKey, p: int) -> None:
        self.public_key = public_key
        self._p, self._q = p, public_key.n // p
        self._p_square, self._q_square = self._p**2, self._q**2
        self._p_square_inverse: int = invert(self._p_square, self._q_square)

    def to_bytes(self) -> bytes:
        """Return p as `bits / 16` big-endian bytes; together with n it is the whole key."""
        return self._p.to_bytes(self.public_key.bits // 16, "big")

    @classmethod
    def from_bytes(cls, data: bytes, public_key: PublicKey) -> Self:
        """Read p and check that n is the product of two different primes of half its size.

        Raises `SealError`, without detail, if any check fails.

        >>> secret_key = generate_secret_key(512)
        >>> again = SecretKey.from_bytes(secret_key.to_bytes(), secret_key.public_key)
        >>> again.decrypt(secret_key.encrypt([5]))
        [5]
        """
        p = int.from_bytes(data, "big")
        if len(data) * 16 != public_key.bits or p == 0 or public_key.n % p:
            raise SealError
        q = public_key.n // p
        fit = all(
            prime.bit_length() * 2 == public_key.bits and _is_prime(prime) for prime in (p, q)
        )
        if not fit or p == q:
            raise SealError
        return cls(public_key, p)

    def encrypt(self, plaintexts: Sequence[int]) -> bytes:
        """Encrypt integers as one vector, each with fresh randomness from the operating system.

        Raises `SettingsError`, which does not quote the integer, if one lies outside 0..n-1.
        """
        size = self.public_key.ciphertext_bytes
        # Release the interpreter lock during exponentiations; gmpy2 has this setting per thread.
        with gmpy2.context(gmpy2.get_context(), allow_release_gil=True):
            return b"".join(
                self._encrypt_with(
                    plaintext,
                    1 + secrets.randbelow(self._p - 1),
                    1 + secrets.randbelow(self._q - 1),
                ).to_bytes(size, "big")
                for plaintext in plaintexts
            )

    def decrypt(self, vector: bytes) -> list[int]:
        """Decrypt a vector to integers in 0..n-1, after checking each of its ciphertexts.

        Raises `DecryptionError`, without detail, if the length is wrong or a number is out of range
        or not a unit: decrypting 0, n or n^2 would factor n.
        """
        public_key = self.public_key
        try:
            ciphertexts = public_key.parse(vector, len(vector) // public_key.ciphertext_bytes)
        except InvalidCiphertextError:
            ciphertexts = []  # the error is raised below, where it carries no detail with it
        if not ciphertexts or not public_key.are_units(ciphertexts):
            raise DecryptionError
        private_key = _private_key(self._p, self._q)
        return [int(private_key.raw_decrypt(int(ciphertext))) for ciphertext in ciphertexts]

    def _encrypt_with(self, plaintext: int, x: int, y: int) -> int:
        """Encrypt with the obfuscator r^n mod n^2, where r^q = x mod p and r^p = y mod q.

        If r is uniform over the units modulo n, then x and y are uniform over the units modulo p
        and q, since p does not divide q - 1, nor q divide p - 1. Since a = b mod p implies
        a^p = b^p mod p^2, (r^q)^p depends on r^q only through x.
        """
        if not 0 <= plaintext < self.public_key.n:
            raise SettingsError("A plaintext lies outside 0..n-1: pack the values with a layout.")
        modulo_p_square = powmod(x, self._p, self._p_square)
        modulo_q_square = powmod(y, self._q, self._q_square)
        difference = modulo_q_square - modulo_p_square
        lift = mulmod(difference, self._p_square_inverse, self._q_square)
        obfuscator = modulo_p_square + self._p_square * lift
        bare = 1 + self.public_key.n * plaintext  # (n + 1)^plaintext, not yet hidden
        ciphertext: int = mulmod(bare, obfuscator, self.public_key.n_square)
        return ciphertext


def generate_secret_key(key_bits: int) -> SecretKey:
    """Draw a new key with randomness from the operating system.

    The modulus has `key_bits` bits, a multiple of 16 and at least 512. Use less than 2048 in tests
    only.

    >>> generate_secret_key(512).public_key.bits
    512
    """
    check_key_bits(key_bits)
    public_key, private_key = phe.generate_paillier_keypair(n_length=key_bits)
    return SecretKey(PublicKey(public_key.n), private_key.p)


@lru_cache(maxsize=1)
def _private_key(p: int, q: int) -> Any:
    """Return phe's private key, kept because making it takes as long as a decryption."""
    return phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)


def _is_prime(odd: int) -> bool:
    """Run one Miller-Rabin test with a random base, in a sixth of a full test's time.

    A random composite passes with negligible probability. Even the worst one passes with
    probability 1/4 only, so most nodes refuse it. Whoever makes such a key gains nothing, since it
    can read everything that is encrypted under its own key anyway.
    """
    base = 2 + secrets.randbelow(odd - 3)
    return bool(gmpy2.gcd(base, odd) == 1 and gmpy2.is_strong_prp(odd, base))
