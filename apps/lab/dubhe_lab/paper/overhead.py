"""Encryption and the time of selection (paper, 6.1 and 6.4)."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np

from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.he.layout import Layout, Slots
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_lab.bench.crypto import as_phe
from dubhe_lab.bench.measuring import seconds_of
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.cells import Advance, Cell, Measured
from dubhe_lab.paper.experiment import (
    SKEW,
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
)
from dubhe_lab.paper.studies import LETTERS, study_cell
from dubhe_lab.report.table import Table

_PAPER: Final[dict[str, tuple[str, str, str]]] = {
    "registry of 56": ("29.6-31.28 KB", "6.9 s", "1.9 s"),
    "registry of 53": ("29.6-31.28 KB", "", ""),
    "p_l of 10 classes": ("", "", ""),
    "p_l of 52 classes": ("29.1 KB", "6.8 s", "1.7 s"),
}
"""Section 6.4: ciphertext, encryption, decryption; keys of 2048 bits."""

_GREEDY_IN_PAPER: Final[dict[int, float]] = {1000: 0.13, 8962: 1.69}
"""Section 6.1: time of greedy selection relative to everything else, by number of clients."""

_VECTORS: Final = {
    "registry of 56": (1000, Slots(56, 1)),
    "registry of 53": (8962, Slots(53, 1)),
    "p_l of 10 classes": (1000, Slots(10, FIXED_POINT_SCALE)),
    "p_l of 52 classes": (8962, Slots(52, FIXED_POINT_SCALE)),
}
"""Vectors that a client encrypts, and the number of clients whose sum they must hold."""

_FIELD: Final = "registry"
_REPETITIONS: Final = {"full": 30, "small": 5}
_KEY_BITS: Final = 2048
_TIMED: Final = (Method("dubhe-paper", 10), Method("dubhe"), Method("greedy"))


def encryption_cell(repetitions: int, key_bits: int = _KEY_BITS) -> Cell:
    """Return the cell of the ciphertexts' times and sizes, as medians over repetitions."""
    return Cell(
        "encryption",
        f"encryption with {key_bits} bits",
        {"key_bits": key_bits, "repetitions": repetitions},
        partial(_measure_encryption, key_bits, repetitions),
    )


def _measure_encryption(
    key_bits: int, repetitions: int, _machine: MachineSettings, advance: Advance
) -> Measured:
    """Time encryption and decryption, packed and element by element."""
    began = time.perf_counter()
    key = generate_secret_key(key_bits)
    result: dict[str, Any] = {"key_generation_seconds": time.perf_counter() - began}
    for name, (num_clients, slots) in _VECTORS.items():
        layout = Layout(key_bits, num_clients, {_FIELD: slots})
        values = np.zeros(slots.number, dtype=np.int64)
        values[3] = slots.largest
        result[name] = {
            "packed": _packed(key, layout, values, repetitions),
            "by_element": _by_element(key, values.tolist(), max(1, repetitions // 10)),
        }
        advance(1 / len(_VECTORS))
    return Measured(result)


def _packed(
    key: SecretKey, layout: Layout, values: np.ndarray[Any, Any], repetitions: int
) -> dict[str, Any]:
    vector = key.encrypt(layout.pack(_FIELD, values))
    encrypt = partial(_seconds, lambda: key.encrypt(layout.pack(_FIELD, values)))
    return {
        "bytes": len(vector),
        "encrypt_seconds": encrypt(repetitions),
        "decrypt_seconds": _seconds(lambda: key.decrypt(vector), repetitions),
    }


def _by_element(key: SecretKey, values: list[int], repetitions: int) -> dict[str, Any]:
    """Encrypt and decrypt as in the paper, with `phe` and one ciphertext per element."""
    public, secret = as_phe(key)
    vector = [public.encrypt(value) for value in values]
    return {
        "bytes": len(values) * key.public_key.ciphertext_bytes,
        "encrypt_seconds": _seconds(lambda: [public.encrypt(v) for v in values], repetitions),
        "decrypt_seconds": _seconds(lambda: [secret.decrypt(c) for c in vector], repetitions),
    }


def _seconds(action: Callable[[], object], repetitions: int) -> float:
    return median(seconds_of(action, on_the_clock=True) for _ in range(repetitions))


def _grid(options: PaperSettings) -> Grid:
    sizes = {1000: SKEW} | ({8962: LETTERS} if options.is_full else {})
    return {
        "encryption": {"": [encryption_cell(_REPETITIONS[options.scale])]},
        **{
            num_clients: {str(m): [study_cell(m, num_rounds=20, **given)] for m in _TIMED}
            for num_clients, given in sizes.items()
        },
    }


def _report(_options: PaperSettings, results: Results) -> Section:
    encryption = results["encryption"][""][0]
    return Section(
        "Overhead",
        [
            (
                f"Paillier keys of {_KEY_BITS} bits. The paper encrypts a vector element by "
                "element; here one ciphertext packs many elements. All times are for one thread. "
                "phe uses gmpy2, which makes it several times faster."
            )
        ],
        [_ciphertexts(encryption), _times(results)],
    )


def _ciphertexts(encryption: dict[str, Any]) -> Table:
    rows = []
    for name, (size, encrypt, decrypt) in _PAPER.items():
        packed, by_element = encryption[name]["packed"], encryption[name]["by_element"]
        rows.append(
            [
                name,
                *(size, f"{by_element['bytes'] / 1000:.1f} KB", f"{packed['bytes'] / 1000:.2f} KB"),
                *(encrypt, *(_milliseconds(w["encrypt_seconds"]) for w in (by_element, packed))),
                *(decrypt, *(_milliseconds(w["decrypt_seconds"]) for w in (by_element, packed))),
            ]
        )
    columns = (
        heading
        for what in ("size", "encrypt", "decrypt")
        for heading in (f"{what}, paper", "by element", "packed")
    )
    return Table("A client's ciphertexts: sizes and median times", ("", *columns), rows)


def _times(results: Results) -> Table:
    rows = []
    for num_clients, in_paper in _GREEDY_IN_PAPER.items():
        for name, of_seeds in results.get(num_clients, {}).items():
            seconds = of_seeds[0]["seconds"] / len(of_seeds[0]["emd"])
            paper = f"{in_paper} x the rest" if name == "greedy" else ""
            rows.append([f"N = {num_clients}: {name}", paper, _milliseconds(seconds)])
    return Table(
        "Time to select K = 20 clients, without encryption, summed over server and clients",
        ("", "paper", "a round"),
        rows,
    )


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


EXPERIMENT: Final = Experiment(
    "Time and size of encryption, time of selection.", _grid, _report, needs_all=True
)
