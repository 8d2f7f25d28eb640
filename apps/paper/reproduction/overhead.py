"""Encryption, communication and the time of selection (paper, 6.1 and 6.4)."""

from typing import Any, Final

from dubhe_flwr.report.section import Section, Table
from reproduction.cell import Cell
from reproduction.encrypting import encryption_cell, exchange_cell
from reproduction.experiment import SKEW, Experiment, Found
from reproduction.methods import Method
from reproduction.options import Options
from reproduction.paper import GREEDY_EXTRA_TIME, OVERHEAD
from reproduction.selecting import study_cell

__all__ = ["EXPERIMENT"]

_REPETITIONS: Final = {"full": 30, "small": 5}
_CLIENTS: Final = {"full": 1000, "small": 100}
_KEY_BITS: Final = 2048
_TIMED: Final = (Method("dubhe-paper", 10), Method("dubhe"), Method("greedy"))
_LETTERS: Final = {
    "rho": 13.64,
    "emd": 0.554,
    "num_clients": 8962,
    "num_samples": 32,
    "reference_set": (1, 52),
    "thresholds": (0.06,),
}
_VARIANTS: Final = (Method("dubhe-paper", 10), Method("dubhe"))


def _exchange(options: Options, method: Method) -> Cell:
    return exchange_cell(
        method,
        **SKEW,
        num_clients=_CLIENTS[options.scale],
        num_participants=20,
        num_rounds=4,
        key_bits=_KEY_BITS,
    )


def _timed(options: Options) -> dict[int, dict[str, Cell]]:
    sizes: dict[int, dict[str, Any]] = {1000: {**SKEW}}
    if options.is_full:
        sizes[8962] = dict(_LETTERS)
    return {
        num_clients: {str(m): study_cell(m, num_rounds=20, **given) for m in _TIMED}
        for num_clients, given in sizes.items()
    }


def _cells(options: Options) -> list[Cell]:
    return [
        encryption_cell(_REPETITIONS[options.scale], _KEY_BITS),
        *(_exchange(options, method) for method in _VARIANTS),
        *(cell for of in _timed(options).values() for cell in of.values()),
    ]


def _report(options: Options, found: Found) -> Section:
    encryption = found[encryption_cell(_REPETITIONS[options.scale], _KEY_BITS).key]
    exchanges = {
        str(method): found[_exchange(options, method).key]["rounds"] for method in _VARIANTS
    }
    return Section(
        "overhead",
        "Overhead",
        [
            (
                f"Paillier keys of {_KEY_BITS} bits. The paper encrypts a vector element by "
                "element; here one ciphertext carries many. All times are of one thread, by "
                "element with gmpy2, by which phe is several times faster than without."
            ),
            (
                "The messages are those of the whole protocol between a server and "
                f"{_CLIENTS[options.scale]} clients with K = 20; H = 10, and 20 for `dubhe`. The "
                "paper counts N messages for a registration, and HK for the tries of a round."
            ),
        ],
        [
            _ciphertexts(encryption),
            *(_messages(name, rounds) for name, rounds in exchanges.items()),
            _times(options, found),
        ],
    )


def _ciphertexts(encryption: dict[str, Any]) -> Table:
    rows = []
    for name, ways in encryption.items():
        if name == "key_generation_seconds":
            continue
        _, size, encrypt, decrypt = OVERHEAD.get(name, ("", "", "", ""))
        packed, by_element = ways["packed"], ways["by_element"]
        rows.append(
            [
                name,
                size,
                f"{by_element['bytes'] / 1000:.1f} KB",
                f"{packed['bytes'] / 1000:.2f} KB",
                encrypt,
                _milliseconds(by_element["encrypt_seconds"]),
                _milliseconds(packed["encrypt_seconds"]),
                decrypt,
                _milliseconds(by_element["decrypt_seconds"]),
                _milliseconds(packed["decrypt_seconds"]),
            ]
        )
    return Table(
        "What a client encrypts: size of the ciphertexts, and median times",
        (
            "",
            "size, paper",
            "by element",
            "packed",
            "encrypt, paper",
            "by element",
            "packed",
            "decrypt, paper",
            "by element",
            "packed",
        ),
        rows,
    )


def _messages(name: str, rounds: list[dict[str, Any]]) -> Table:
    rows = [
        [
            f"round {number}: {stage['stage']}",
            str(stage["messages"]),
            f"{stage['bytes_down'] / 1000:.1f}",
            f"{stage['bytes_up'] / 1000:.1f}",
        ]
        for number, of in enumerate(rounds[:2], start=1)
        for stage in of["stages"]
    ]
    return Table(
        f"{name}: messages of the first round, which registers, and of the second",
        ("stage", "messages", "KB down", "KB up"),
        rows,
    )


def _times(options: Options, found: Found) -> Table:
    rows = []
    for num_clients, cells in _timed(options).items():
        for name, cell in cells.items():
            result = found[cell.key]
            seconds = result["seconds"] / len(result["emd"])
            paper = f"{GREEDY_EXTRA_TIME[num_clients]} x the rest" if name == "greedy" else ""
            rows.append([f"N = {num_clients}: {name}", paper, _milliseconds(seconds)])
    return Table(
        "Time to select K = 20 clients, without encryption, over server and all clients",
        ("", "paper", "a round"),
        rows,
    )


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


EXPERIMENT: Final = Experiment(_cells, _report)
