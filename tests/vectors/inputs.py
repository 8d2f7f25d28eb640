"""The vectors' fixed inputs, with throw-away keys, and how values are written as JSON."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import gmpy2
from vectors import reference as ref

EPOCH: Final = bytes(range(16))
OTHER_EPOCH: Final = bytes(range(1, 17))

Case = dict[str, Any]


def paper(reference_set: Sequence[float], thresholds: object) -> dict[str, str]:
    """Return the name and settings of the paper's rule."""
    settings = {"reference_set": reference_set, "thresholds": thresholds}
    return {"rule": "paper", "rule-settings": json.dumps(settings)}


ANNOUNCED: Final[dict[str, Any]] = paper([1, 2, 4], {"1": 0.6, "2": 0.3}) | {
    "num-participants": 4, "key-bits": 512, "max-clients": 20, "min-cohort": 3,
    "weighted": False, "has-agent": True, "vault": "paillier", "pool": 1, "simulation-seed": 7,
    "has-trusted-keys": False,
}  # fmt: skip
SEARCHED: Final = ANNOUNCED | paper([1, 4], "search")
POOLED: Final = ANNOUNCED | {"min-cohort": 2, "pool": 4}
CLEAR: Final = ANNOUNCED | {"vault": "plain"}
WITHOUT_AGENT: Final = ANNOUNCED | {"has-agent": False}
WEIGHTED: Final = ANNOUNCED | {"weighted": True}
MNIST: Final = {
    **{name: value for name, value in ANNOUNCED.items() if name != "simulation-seed"},
    **paper([1, 2, 10], {"1": 0.7, "2": 0.1}),
    "num-participants": 20,
    "key-bits": 2048,
    "max-clients": 1000,
}
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


P, Q = prime("p"), prime("q")
N, OTHER_N = P * Q, prime("r") * prime("s")
MODULUS, OTHER_MODULUS = (n.to_bytes(64, "big") for n in (N, OTHER_N))
AGENT, NODE, STRANGER = secret("agent"), secret("node"), secret("stranger")
SIGNER, OTHER_SIGNER = secret("signing"), secret("signing too")
TRUSTED: Final = [ref.sign(key, b"")[:32].hex() for key in (SIGNER, OTHER_SIGNER)]


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
    pairs = {name: next(iter(each.items())) for name, each in named.items()}
    return {
        name: bytes.fromhex(what) if kind == "bytes" else what
        for name, (kind, what) in pairs.items()
    }


def added_by(index: int) -> list[int]:
    """Return the contribution of one of the nine nodes to a sum."""
    return ref.with_square(ref.fixed_point(COUNTS[index]))


def sums_of(*tries: Sequence[int]) -> list[list[int]]:
    """Return the sums of the distributions of some of the nine nodes."""
    return [ref.added(map(added_by, each)) for each in tries]


def sealed_key_case(**changes: Any) -> Case:
    """Return one sealed key and everything that it is bound to."""
    case: Case = {
        "epoch": EPOCH, "agent": AGENT, "recipient": NODE, "announced": ANNOUNCED, "plaintext":
        P.to_bytes(32, "big"), "modulus": MODULUS, "ephemeral": secret("ephemeral"),
    } | changes  # fmt: skip
    digest, modulus = ref.layout_digest(case["announced"]), case["modulus"]
    recipient = ref.public_half(case["recipient"])
    info = ref.info(case["epoch"], ref.public_half(case["agent"]), recipient, modulus, digest)
    return {
        "epoch": case["epoch"].hex(),
        "agent-public-key": ref.public_half(case["agent"]).hex(),
        "recipient-private-key": case["recipient"].hex(),
        "recipient-public-key": recipient.hex(),
        "modulus": modulus.hex(),
        "layout-digest": digest.hex(),
        "info": info.hex(),
        "sealed": ref.seal(case["plaintext"], recipient, info, case["ephemeral"]).hex(),
    }


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
