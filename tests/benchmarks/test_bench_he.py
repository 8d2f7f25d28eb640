"""What packed encryption costs, beside its floor and beside the element-by-element way."""

import secrets
from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter

import gmpy2
import numpy as np
import phe
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dubhe_flwr.he import (
    Field,
    Layout,
    RecipientKey,
    SealingContext,
    SecretKey,
    generate_secret_key,
    homomorphic_sum,
    open_sealed,
    seal,
)

pytestmark = pytest.mark.benchmark_only

LAYOUT = Layout(2048, 1000, (Field("registry", 56, 1),))
REGISTRY = np.eye(56, dtype=np.int64)[3]
NUM_SUMMED = 1000


@pytest.fixture(scope="module")
def key() -> SecretKey:
    """Return a key of 2048 bits."""
    return generate_secret_key(2048)


def interleaved_medians(
    actions: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, float]:
    """Time the actions in turn, so that a change of the machine's speed meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            start = perf_counter()
            action()
            seconds[name].append(perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def half_size_exponentiations(key: SecretKey) -> Callable[[], object]:
    """Return the two exponentiations below which no encryption of this kind can go."""
    p, q = gmpy2.mpz(key._p), gmpy2.mpz(key._q)
    x, y = gmpy2.mpz(secrets.randbelow(key._p)), gmpy2.mpz(secrets.randbelow(key._q))
    p_square, q_square = p * p, q * q
    return lambda: (gmpy2.powmod(x, p, p_square), gmpy2.powmod(y, q, q_square))


def encrypt_registry(key: SecretKey) -> bytes:
    """Pack and encrypt a registry."""
    return key.encrypt(LAYOUT.pack("registry", REGISTRY))


def encrypt_elements(key: SecretKey) -> bytes:
    """Encrypt a registry element by element, as the paper does."""
    public = phe.PaillierPublicKey(key.public_key.n)
    size = LAYOUT.ciphertext_bytes
    return b"".join(
        public.encrypt(int(element)).ciphertext(be_secure=False).to_bytes(size, "big")
        for element in REGISTRY
    )


def test_encryption_is_near_its_floor(benchmark: BenchmarkFixture, key: SecretKey) -> None:
    """Packing and encrypting takes at most 1.15 times two half-size exponentiations."""
    medians = interleaved_medians(
        {"packed": lambda: encrypt_registry(key), "floor": half_size_exponentiations(key)}, 100
    )
    ratio = medians["packed"] / medians["floor"]
    benchmark.extra_info.update(medians, ratio=ratio)
    benchmark(encrypt_registry, key)
    assert ratio <= 1.15


def test_floor(benchmark: BenchmarkFixture, key: SecretKey) -> None:
    """Two exponentiations with 1024-bit exponent and 2048-bit modulus, for comparison."""
    benchmark(half_size_exponentiations(key))


def test_packing_beats_element_by_element(benchmark: BenchmarkFixture, key: SecretKey) -> None:
    """Packed, a registry of 56 takes a 56th of the bytes and a 50th of the time at most."""
    medians = interleaved_medians(
        {"packed": lambda: encrypt_registry(key), "elements": lambda: encrypt_elements(key)}, 3
    )
    size, elements_size = len(encrypt_registry(key)), len(encrypt_elements(key))
    benchmark.extra_info.update(medians, bytes=size, elements_bytes=elements_size)
    benchmark(encrypt_elements, key)
    assert elements_size >= 50 * size
    assert medians["elements"] >= 50 * medians["packed"]


def test_decryption(benchmark: BenchmarkFixture, key: SecretKey) -> None:
    """Decrypting and unpacking gives the registry back."""
    vector = encrypt_registry(key)
    registry = benchmark(lambda: LAYOUT.unpack("registry", key.decrypt(vector), num_addends=1))
    np.testing.assert_array_equal(registry, REGISTRY)


def test_sum(benchmark: BenchmarkFixture, key: SecretKey) -> None:
    """A thousand registries are added with every check."""
    vectors = key.encrypt(LAYOUT.pack("registry", REGISTRY) * NUM_SUMMED)
    size = LAYOUT.ciphertext_bytes
    parts = [vectors[start : start + size] for start in range(0, len(vectors), size)]
    total = benchmark(homomorphic_sum, key.public_key, parts)
    benchmark.extra_info["ciphertexts"] = NUM_SUMMED
    registries = LAYOUT.unpack("registry", key.decrypt(total), NUM_SUMMED)
    np.testing.assert_array_equal(registries, NUM_SUMMED * REGISTRY)


@pytest.mark.parametrize("side", ["seal", "open"])
def test_sealed_delivery(benchmark: BenchmarkFixture, key: SecretKey, side: str) -> None:
    """A key is sealed for one recipient, and opened with every check."""
    recipient = RecipientKey.generate()
    context = SealingContext(
        "dubhe/1", bytes(16), bytes(32), key.public_key.digest(), LAYOUT.digest()
    )
    sealed = seal(key, recipient.public_bytes, context)
    if side == "seal":
        benchmark(seal, key, recipient.public_bytes, context)
    else:
        benchmark(open_sealed, sealed, recipient, context, key.public_key)
    assert len(sealed) == 176
