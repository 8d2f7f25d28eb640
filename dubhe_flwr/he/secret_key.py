"""The Paillier secret key, which every client owns: fast encryption and guarded decryption.

The owner of the primes obfuscates modulo the square of each prime on its own, two exponentiations
of half the size, which costs a quarter of what the holder of the public key pays for the very same
distribution. Decryption is phe's, except that a key is ready for it at once.
"""

import secrets
from collections.abc import Sequence
from typing import NoReturn, Self

import gmpy2
import phe
from phe.util import invert, mulmod, powmod

from dubhe_flwr.errors import DecryptionError, SealError, SettingsError
from dubhe_flwr.he.public_key import PublicKey, check_key_bits


class SecretKey:
    """The primes p and q of a Paillier key.

    `generate_secret_key` makes one and `from_bytes` reads and checks one. It cannot be pickled or
    copied, shows no prime in its repr, and two keys are equal only if they are one object.

    Parameters
    ----------
    public_key : PublicKey
        The modulus n, also an attribute.
    p : int
        A prime factor of n, taken on trust.

    Examples
    --------
    >>> secret_key = generate_secret_key(512)
    >>> vector = secret_key.encrypt([12, 34])
    >>> len(vector), secret_key.decrypt(vector)
    (256, [12, 34])
    """

    __slots__ = (
        "_factors",
        "_p",
        "_p_inverse",
        "_p_square",
        "_p_square_inverse",
        "_phe_public",
        "_q",
        "_q_square",
        "public_key",
    )

    def __init__(self, public_key: PublicKey, p: int) -> None:
        self.public_key = public_key
        self._p, self._q = p, public_key.n // p
        self._p_square, self._q_square = self._p**2, self._q**2
        self._p_square_inverse: int = invert(self._p_square, self._q_square)
        self._phe_public = phe.PaillierPublicKey(public_key.n)
        p, q = self._p, self._q
        self._p_inverse: int = invert(p, q)
        # phe exponentiates for 1 / L(g^(p-1) mod p^2); with g = n + 1 that is 1 / -q modulo p.
        self._factors: tuple[int, int] = invert(p - q % p, p), invert(q - p % q, q)

    def __repr__(self) -> str:
        return f"SecretKey(<hidden>, {self.public_key})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret key is never pickled or copied: keep its to_bytes() locally.")

    def to_bytes(self) -> bytes:
        """Return p alone, as `bits / 16` big-endian bytes; with n it is the whole key."""
        return self._p.to_bytes(self.public_key.bits // 16, "big")

    @classmethod
    def from_bytes(cls, data: bytes, public_key: PublicKey) -> Self:
        """Read p and check that n is the product of two different primes of half its size.

        If any check fails, it is a `SealError`, which carries no detail.

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
        """Encrypt integers, each with fresh randomness of the operating system, as one vector.

        An integer outside 0..n-1 is a `SettingsError`, which does not name it.
        """
        size = self.public_key.ciphertext_bytes
        # Let go of the interpreter lock during exponentiations: gmpy2 wants that in each thread.
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

        The result for 0, n or n^2 would factor n. A wrong length, and a number out of range or no
        unit, are a `DecryptionError`, which carries no detail.
        """
        num_ciphertexts = len(vector) // self.public_key.ciphertext_bytes
        if not self.public_key.is_valid(vector, num_ciphertexts):
            raise DecryptionError
        ciphertexts = self.public_key.parse(vector, num_ciphertexts)
        return [self._decrypt_valid(ciphertext) for ciphertext in ciphertexts]

    def _decrypt_valid(self, ciphertext: int) -> int:
        """Decrypt modulo each prime, and combine the two."""
        p, q = self._p, self._q
        by_p, by_q = self._factors
        modulo_p = (powmod(ciphertext, p - 1, self._p_square) - 1) // p * by_p % p
        modulo_q = (powmod(ciphertext, q - 1, self._q_square) - 1) // q * by_q % q
        plaintext: int = modulo_p + p * ((modulo_q - modulo_p) * self._p_inverse % q)
        return plaintext

    def _encrypt_with(self, plaintext: int, x: int, y: int) -> int:
        """Encrypt with the obfuscator r^n mod n^2 of the r with r^q = x mod p, r^p = y mod q.

        If r is uniform over the units modulo n, then x and y are uniform over those modulo p and
        q, for p does not divide q - 1 nor q divide p - 1. And a = b mod p makes a^p = b^p mod p^2,
        so that (r^q)^p needs no more of r^q than x.
        """
        if not 0 <= plaintext < self.public_key.n:
            raise SettingsError("A plaintext lies outside 0..n-1: pack the values by a layout.")
        modulo_p_square = powmod(x, self._p, self._p_square)
        modulo_q_square = powmod(y, self._q, self._q_square)
        difference = modulo_q_square - modulo_p_square
        lift = mulmod(difference, self._p_square_inverse, self._q_square)
        obfuscator = modulo_p_square + self._p_square * lift
        bare = self._phe_public.raw_encrypt(plaintext, r_value=1)  # the plaintext for all to see
        ciphertext: int = mulmod(bare, obfuscator, self.public_key.n_square)
        return ciphertext


def generate_secret_key(key_bits: int = 2048) -> SecretKey:
    """Draw a new key from the randomness of the operating system.

    The modulus has `key_bits` bits, a multiple of 16 from 512 on. Below 2048 is for tests only.

    >>> generate_secret_key(512).public_key.bits
    512
    """
    check_key_bits(key_bits)
    public_key, private_key = phe.generate_paillier_keypair(n_length=key_bits)
    return SecretKey(PublicKey(public_key.n), private_key.p)


def _is_prime(odd: int) -> bool:
    """Run one Miller-Rabin test, with a base of the caller's own, at a sixth of a full one's time.

    A random composite passes with a negligible chance, the worst one with 1/4, and so not at many
    nodes. Whoever makes such a key gains nothing: its maker reads what is encrypted in any case.
    """
    base = 2 + secrets.randbelow(odd - 3)
    return bool(gmpy2.gcd(base, odd) == 1 and gmpy2.is_strong_prp(odd, base))
