"""Tests of encryption and decryption by the owner of the primes."""

from collections.abc import Callable

import gmpy2
import phe
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phe.util import powmod

from dubhe_flwr.errors import DecryptionError, SealError, SettingsError
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import sealed_bytes
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key


@given(data=st.data())
def test_both_directions_agree_with_phe(secret_key: SecretKey, data: st.DataObject) -> None:
    """With the same r, the ciphertext is phe's r^n mod n^2, bit for bit, and it decrypts."""
    n, p, q = secret_key.public_key.n, secret_key._p, secret_key._q
    plaintext = data.draw(st.integers(0, n - 1))
    r = data.draw(st.integers(1, n - 1).filter(lambda r: gmpy2.gcd(r, n) == 1))
    expected = phe.PaillierPublicKey(n).raw_encrypt(plaintext, r_value=r)
    assert secret_key._encrypt_with(plaintext, pow(r, q, p), pow(r, p, q)) == expected
    assert secret_key.decrypt(expected.to_bytes(128, "big")) == [plaintext]


def test_randomness_is_drawn_from_every_unit(
    secret_key: SecretKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both numbers come from the operating system and lie between 1 and the prime less 1."""
    drawn: list[tuple[int, int]] = []

    def recorded(_: SecretKey, __: int, x: int, y: int) -> int:
        drawn.append((x, y))
        return 1

    monkeypatch.setattr(SecretKey, "_encrypt_with", recorded)
    for extreme in (lambda bound: 0, lambda bound: bound - 1):
        monkeypatch.setattr("dubhe_flwr.he.secret_key.secrets.randbelow", extreme)
        secret_key.encrypt([0])
    assert drawn == [(1, 1), (secret_key._p - 1, secret_key._q - 1)]


def test_interpreter_lock_is_released_for_exponentiations_only(
    secret_key: SecretKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads run during exponentiations, and afterwards the thread's setting is restored."""
    released: list[bool] = []

    def recorded(base: int, exponent: int, modulus: int) -> int:
        released.append(gmpy2.get_context().allow_release_gil)
        result: int = powmod(base, exponent, modulus)
        return result

    monkeypatch.setattr("dubhe_flwr.he.secret_key.powmod", recorded)
    vector = secret_key.encrypt([1])
    assert released == [True, True]
    secret_key.decrypt(vector)
    assert gmpy2.get_context().allow_release_gil is False


def test_plaintext_out_of_range_is_not_quoted(secret_key: SecretKey) -> None:
    """A plaintext outside 0..n-1 is refused, and no error quotes it."""
    n = secret_key.public_key.n
    sentence = r"^A plaintext lies outside 0\.\.n-1: pack the values with a layout\.$"
    for plaintext in (-1, n):
        with pytest.raises(SettingsError, match=sentence):
            secret_key.encrypt([0, plaintext])


def test_invalid_ciphertext_is_not_decrypted(
    secret_key: SecretKey, bad_vectors: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad bytes are refused before any decryption, without detail, cause or context."""

    def never(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr(phe.PaillierPrivateKey, "raw_decrypt", never)
    good = secret_key.encrypt([3])
    wrong = [vector for vector in bad_vectors.values() if len(vector) == len(good)]
    wrong += [*(good + vector for vector in wrong), *(vector + good for vector in wrong)]
    for vector in (*wrong, b"", good[:-1], b"\x00" + good):
        with pytest.raises(DecryptionError) as refusal:
            secret_key.decrypt(vector)
        error = refusal.value
        assert (error.args, error.__cause__, error.__context__) == ((), None, None)


def test_bytes_other_than_a_prime_factor_are_refused(secret_key: SecretKey) -> None:
    """Only a prime factor of the modulus, at full length, is a key."""
    n, p = secret_key.public_key.n, secret_key._p
    close = next_prime(p)  # leaves a remainder, although the rounded quotient is also a prime
    while not gmpy2.is_prime(n // close):
        close = next_prime(close)
    candidates = [number.to_bytes(32, "big") for number in (0, 1, p + 2, p - 1, close)]
    good = p.to_bytes(32, "big")
    candidates += [b"", good[:-1], b"\x00" + good, secret_key.public_key.to_bytes()]
    for candidate in candidates:
        with pytest.raises(SealError) as refusal:
            SecretKey.from_bytes(candidate, secret_key.public_key)
        assert refusal.value.args == ()


def next_prime(number: int) -> int:
    """Return the smallest prime above a number."""
    return int(gmpy2.next_prime(number))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (next_prime(3 << 254), next_prime(3 << 254)),
        (next_prime(7 << 125) * next_prime(7 << 125), next_prime(3 << 254)),
        (next_prime(3 << 254), next_prime(7 << 125) * next_prime(7 << 125)),
        (next_prime(3 << 246), next_prime(3 << 262)),
        (3 * next_prime(1 << 254), next_prime(3 << 254)),
    ],
    ids=["equal", "p composite", "q composite", "sizes differ", "p divisible by 3"],
)
def test_unfit_modulus_has_no_secret_key(p: int, q: int) -> None:
    """Equal, composite or unbalanced factors are refused, though they divide n."""
    public_key = PublicKey(p * q)
    assert public_key.bits == 512
    for _ in range(20):  # the base of the primality test is random
        with pytest.raises(SealError):
            SecretKey.from_bytes(p.to_bytes(32, "big"), public_key)


def test_base_of_the_primality_test_is_random() -> None:
    """Most nodes refuse a composite that passes with base 2 and with every fifth base."""
    factor = 0x9F0BD4843D1452480F4D2E33E3127FC5
    p, q = factor * (2 * factor - 1), next_prime(3 << 254)
    assert gmpy2.is_strong_prp(p, 2)
    refused = 0
    for _ in range(40):
        try:
            SecretKey.from_bytes(p.to_bytes(32, "big"), PublicKey(p * q))
        except SealError:
            refused += 1
    assert refused >= 16  # at least 30 of 40 are expected; fewer than 16 come once in a million


@pytest.mark.parametrize("takes_key_bits", [generate_secret_key, sealed_bytes])
@pytest.mark.parametrize("key_bits", [496, 520])
def test_unfit_key_size_is_refused(key_bits: int, takes_key_bits: Callable[[int], object]) -> None:
    """A key size must be a multiple of 16 and at least 512."""
    with pytest.raises(SettingsError, match=f"key_bits={key_bits}"):
        takes_key_bits(key_bits)
