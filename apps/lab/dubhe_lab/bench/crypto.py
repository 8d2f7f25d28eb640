"""The cost of encryption, next to one ciphertext per element and to lower bounds."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

import gmpy2
import numpy as np
import phe
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dubhe_flwr.he.layout import Layout, Slots
from dubhe_flwr.he.sealing import RecipientKey, seal
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_lab.bench.measuring import BenchResults, environment, interleaved, summed_up
from dubhe_lab.experiments.options import CommandSettings, option, same
from dubhe_lab.experiments.settings import SelectionSettings
from dubhe_lab.report.table import Table

_PACKAGES: Final = ("dubhe-flwr", "phe", "gmpy2", "cryptography")
_LENGTH: Final = 56
_NUM_CLIENTS: Final = 1000
_TIMES: Final = 10
_BOUNDS: Final = {
    "encrypt_ratio_vs_phe": ("at least", 150),
    "decrypt_ratio_vs_phe": ("at least", 45),
    "bytes_ratio_vs_phe": ("at least", _LENGTH),
    "encrypt_over_floor": ("at most", 1.10),
    "server_us_per_client": ("at most", 6),
}


@dataclass(frozen=True, kw_only=True)
class CryptoSettings(CommandSettings):
    """The settings of `bench_crypto`. Bounds apply to keys of 2048 bits."""

    key_bits: int = same(SelectionSettings, "key_bits", quick=512)
    rounds: int = option(10, "Passes over all measurements.", least=1, quick=2)


def bench_crypto(settings: CryptoSettings) -> BenchResults:
    """Time encryption, sums and sealed keys, and compare them with phe and lower bounds."""
    key_bits = settings.key_bits
    key = generate_secret_key(key_bits)
    layout = Layout(key_bits, _NUM_CLIENTS, {"registry": Slots(_LENGTH, 1)})
    registry = np.eye(_LENGTH, dtype=np.int64)[3]
    public, secret = as_phe(key)
    by_element = [public.encrypt(value) for value in registry.tolist()]
    encrypted = key.encrypt(layout.pack("registry", registry))
    of_clients = [key.encrypt(layout.pack("registry", registry)) for _ in range(50)]
    vectors = of_clients * (_NUM_CLIENTS // len(of_clients))
    num_ciphertexts = layout.num_ciphertexts("registry")
    recipient = RecipientKey.generate()
    prime, info = key.to_bytes(), b"what it is bound to"
    sealed = seal(prime, recipient.public_bytes, info)
    actions: dict[str, Callable[[], object]] = {
        "encrypt, element by element": lambda: [public.encrypt(v) for v in registry.tolist()],
        "encrypt": lambda: key.encrypt(layout.pack("registry", registry)),
        "floor": _half_size_exponentiations(key),
        "decrypt, element by element": lambda: [secret.decrypt(c) for c in by_element],
        "decrypt": lambda: layout.unpack("registry", key.decrypt(encrypted), 1),
        "sum": lambda: key.public_key.add_up(vectors, num_ciphertexts),
        "sum, products only": _products(key, vectors),
        "seal": lambda: seal(prime, recipient.public_bytes, info),
        "open": lambda: SecretKey.from_bytes(recipient.decrypt(sealed, info), key.public_key),
        "seal, key agreement only": _key_agreement(recipient),
    }
    fast = ("encrypt", "floor", "decrypt", "seal", "open", "seal, key agreement only")
    timings = interleaved(actions, settings.rounds, dict.fromkeys(fast, _TIMES))
    num_bytes = {
        "element by element": _LENGTH * key.public_key.ciphertext_bytes,
        "packed": len(encrypted),
    }
    return _results(settings, timings, num_bytes)


def as_phe(key: SecretKey) -> tuple[phe.PaillierPublicKey, phe.PaillierPrivateKey]:
    """Return the key pair for `phe`, which encrypts element by element, as the paper does."""
    public = phe.PaillierPublicKey(key.public_key.n)
    p = int.from_bytes(key.to_bytes(), "big")
    return public, phe.PaillierPrivateKey(public, p, key.public_key.n // p)


def _results(
    settings: CryptoSettings, timings: dict[str, list[float]], num_bytes: dict[str, int]
) -> BenchResults:
    of = {name: median(seconds) for name, seconds in timings.items()}
    return BenchResults(
        config={**settings.flat(), **environment(_PACKAGES)},
        figures={
            "encrypt_ratio_vs_phe": of["encrypt, element by element"] / of["encrypt"],
            "decrypt_ratio_vs_phe": of["decrypt, element by element"] / of["decrypt"],
            "bytes_ratio_vs_phe": num_bytes["element by element"] / num_bytes["packed"],
            "encrypt_over_floor": of["encrypt"] / of["floor"],
            "decrypt_over_floor": of["decrypt"] / of["floor"],
            "server_us_per_client": 1e6 * of["sum"] / _NUM_CLIENTS,
            "server_floor_us_per_client": 1e6 * of["sum, products only"] / _NUM_CLIENTS,
            "seal_us_per_client": 1e6 * of["seal"],
            "open_us": 1e6 * of["open"],
        },
        measured={**summed_up(timings), "bytes": num_bytes},
        tables=[_table(settings, timings)],
        bounds=_BOUNDS if settings.key_bits == 2048 else {},
    )


def _table(settings: CryptoSettings, timings: dict[str, list[float]]) -> Table:
    def row(name: str, of: str, elements: str, floor: str, number: int = 1) -> tuple[str, ...]:
        found = [[x / number for x in timings.get(each, ())] for each in (of, elements, floor)]
        cells = (f"{_short(median(s))} ({_short(min(s))})" if s else "" for s in found)
        return (name, *cells)

    return Table(
        f"A registry of {_LENGTH} slots under a key of {settings.key_bits} bits: median "
        "CPU time, and the minimum in brackets. Floors: two half-size exponentiations for "
        "encryption and decryption, the bare products modulo n^2 for a sum, and an X25519 key "
        "agreement for sealing.",
        ("", "packed", "element by element (phe, gmpy2)", "floor"),
        [
            row("encrypt", "encrypt", "encrypt, element by element", "floor"),
            row("decrypt", "decrypt", "decrypt, element by element", "floor"),
            row("sum, for each client", "sum", "", "sum, products only", _NUM_CLIENTS),
            row("seal the key, for each client", "seal", "", "seal, key agreement only"),
            row("open it", "open", "", ""),
        ],
    )


def _short(seconds: float) -> str:
    """Return a time in milliseconds or microseconds, whichever fits."""
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.2f} us"


def _half_size_exponentiations(key: SecretKey) -> Callable[[], object]:
    """Return the two exponentiations that every encryption or decryption needs."""
    prime = int.from_bytes(key.to_bytes(), "big")
    p, q = gmpy2.mpz(prime), gmpy2.mpz(key.public_key.n // prime)
    x, y = gmpy2.mpz(secrets.randbelow(prime)), gmpy2.mpz(secrets.randbelow(prime))
    p_square, q_square = p * p, q * q
    return lambda: (gmpy2.powmod(x, p, p_square), gmpy2.powmod(y, q, q_square))


def _products(key: SecretKey, vectors: list[bytes]) -> Callable[[], object]:
    """Return the bare multiplications of a sum, on numbers that are parsed and checked already."""
    modulus, size = gmpy2.mpz(key.public_key.n_square), key.public_key.ciphertext_bytes
    joined = b"".join(vectors)
    factors = [
        gmpy2.mpz(int.from_bytes(joined[start : start + size], "big"))
        for start in range(0, len(joined), size)
    ]

    def multiply() -> object:
        product = gmpy2.mpz(1)
        for factor in factors:
            product = product * factor % modulus
        return product

    return multiply


def _key_agreement(recipient: RecipientKey) -> Callable[[], object]:
    """Return the minimum work of sealing: making a fresh key and agreeing on a secret."""
    public = X25519PrivateKey.from_private_bytes(recipient.to_bytes()).public_key()
    return lambda: X25519PrivateKey.generate().exchange(public)
