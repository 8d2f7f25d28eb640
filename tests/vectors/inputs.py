"""The vectors' fixed inputs, with throw-away keys, and how values are written as JSON."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gmpy2
from vectors import reference as ref

EPOCH: Final = bytes(range(16))
OTHER_EPOCH: Final = bytes(range(1, 17))

Case = dict[str, Any]
FOLDER: Final = Path(__file__).parent


def typed(value: Any) -> Any:
    """Return a value with its type, as JSON."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return {"ints" if value and isinstance(value[0], int) else "floats": value}
    return {type(value).__name__: value}


def all_typed(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return named values with their types."""
    return {str(name): typed(value) for name, value in values.items()}


def untyped(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return named values without their types."""
    found: dict[str, Any] = dict.fromkeys(named)
    for name, each in present(named).items():
        ((kind, what),) = each.items()
        found[name] = bytes.fromhex(what) if kind == "bytes" else what
    return found


def present(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those that are None, which stands for no value."""
    return {name: each for name, each in named.items() if each is not None}


def bytes_of(case: Case, *names: str) -> list[bytes]:
    """Return the values of a case that are written in hex."""
    return [bytes.fromhex(case[name]) for name in names]


def cases_of(topic: str) -> list[Case]:
    """Return the vectors in a file."""
    content = json.loads((FOLDER / f"{topic}.json").read_text(encoding="utf-8"))
    cases: list[Case] = content["cases"]
    return cases


def paper(reference_set: Sequence[float], thresholds: object) -> dict[str, str]:
    """Return the name and settings of the paper's rule."""
    settings = {"reference_set": reference_set, "thresholds": thresholds}
    return {"rule": "paper", "rule-settings": json.dumps(settings)}


EXAMPLES: Final = {case["name"]: case for case in cases_of("messages")}
"""The example messages, by name."""
ANNOUNCED: Final = untyped(EXAMPLES["join request"]["values"]) | {"min-cohort": 3}
SEARCHED: Final = ANNOUNCED | paper([1, 4], "search")
CLEAR: Final = ANNOUNCED | {"vault": "plain"}
WITHOUT_AGENT: Final = ANNOUNCED | {"has-agent": False}
WEIGHTED: Final = ANNOUNCED | {"weighted": True}
COUNTS: Final = [
    [50, 3, 2, 1], [20, 30, 0, 5], [10, 10, 10, 10], [0, 0, 40, 2], [30, 31, 1, 0],
    [7, 0, 0, 0], [25, 20, 2, 1], [1, 2, 3, 40], [16, 15, 1, 1],
]  # fmt: skip
"""Samples per class of the nine example nodes."""


def secret(name: str) -> bytes:
    """Return 32 bytes that stand for a private key."""
    return hashlib.sha256(f"dubhe test vector: {name}".encode()).digest()


def prime(name: str) -> int:
    """Return a prime of 256 bits, the two highest ones set."""
    return int(gmpy2.next_prime(int.from_bytes(secret(name), "big") | 3 << 254))


P, OTHER_P = prime("p"), prime("r")
N, OTHER_N = P * prime("q"), OTHER_P * prime("s")
MODULUS, OTHER_MODULUS = (n.to_bytes(64, "big") for n in (N, OTHER_N))
AGENT, NODE, STRANGER = secret("agent"), secret("node"), secret("stranger")
SIGNER, OTHER_SIGNER = secret("signing"), secret("signing too")
TRUSTED: Final = [ref.sign(key, b"")[:32].hex() for key in (SIGNER, OTHER_SIGNER)]


def added_by(index: int) -> list[int]:
    """Return the contribution of one of the nine nodes to a sum."""
    return ref.with_square(ref.fixed_point(COUNTS[index]))


def sums_of(*tries: Sequence[int]) -> list[list[int]]:
    """Return the sums of the distributions of some of the nine nodes."""
    return [ref.added(map(added_by, each)) for each in tries]


def overall(announced: Mapping[str, Any]) -> list[int]:
    """Return the sum of the nine nodes' registries, candidate by candidate."""
    return ref.overall_registry(announced, COUNTS)


def expected(announced: Mapping[str, Any]) -> list[int]:
    """Return the sum of the nine nodes' expected data, candidate by candidate."""
    return ref.added(ref.expectations(announced, row, overall(announced)) for row in COUNTS)


def encrypted(announced: Mapping[str, Any], field: str, values: Sequence[int]) -> bytes:
    """Return a vector as it travels over the wire."""
    if announced["vault"] == "plain":
        return ref.in_the_clear(values)
    return ref.encrypt(N, ref.pack(announced, field, values), 77)
