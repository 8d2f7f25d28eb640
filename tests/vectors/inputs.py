"""The fixed inputs of the test vectors, and how they are told.

The keys are throw-away keys that stand here in the open.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import gmpy2
from vectors import reference as ref

EPOCH: Final = bytes(range(16))
OTHER_EPOCH: Final = bytes(range(1, 17))

Case = dict[str, Any]

ANNOUNCED: Final[dict[str, Any]] = {
    "reference-set": [1, 2, 4],
    "thresholds": [0.6, 0.3],
    "num-participants": 4,
    "key-bits": 512,
    "max-clients": 20,
    "min-cohort": 3,
    "max-draws": 200,
    "max-sums": 100,
    "seed": 7,
    "volunteer-tries": 1,
    "group-size": 0,
    "calibrated": False,
    "coverage": 0.0,
    "floor": 0.0,
    "local-skew": 0.5,
    "block-size": 0,
}
CALIBRATED: Final = ANNOUNCED | {"calibrated": True, "coverage": 0.1, "floor": 0.1}
SEARCHED: Final = ANNOUNCED | {"thresholds": [0.5, 0.2, 0.6, 0.3, 0.9, 0.45]}
GROUPED: Final = ANNOUNCED | {"min-cohort": 2, "group-size": 2, "volunteer-tries": 4}
BLOCKS: Final = ANNOUNCED | {"block-size": 4}
MNIST: Final = ANNOUNCED | {
    "reference-set": [1, 2, 10],
    "thresholds": [0.7, 0.1],
    "num-participants": 20,
    "key-bits": 2048,
    "max-clients": 1000,
}
COUNTS: Final = [
    [50, 3, 2, 1], [20, 30, 0, 5], [10, 10, 10, 10], [0, 0, 40, 2], [30, 31, 1, 0],
    [7, 0, 0, 0], [25, 20, 2, 1], [1, 2, 3, 40], [16, 15, 1, 1],
]  # fmt: skip
"""Samples of the nine nodes of the examples."""


def secret(name: str) -> bytes:
    """Return 32 bytes that stand for a private key."""
    return hashlib.sha256(f"dubhe test vector: {name}".encode()).digest()


def prime(name: str, bits: int = 256) -> int:
    """Return a prime of so many bits, the two highest ones set."""
    number = int.from_bytes(secret(name), "big") >> (256 - bits)
    return int(gmpy2.next_prime(number | 3 << (bits - 2)))


P, Q = prime("p"), prime("q")
N = P * Q
MODULUS = N.to_bytes(64, "big")
AGENT, NODE, STRANGER = secret("agent"), secret("node"), secret("stranger")


def told(value: Any) -> Any:
    """Return a value with its type beside it, for JSON."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return {"floats" if any(isinstance(x, float) for x in value) else "ints": value}
    return {type(value).__name__: value}


def all_told(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return named values with their types."""
    return {str(name): told(value) for name, value in values.items()}


def sums_of(*groups: Sequence[int]) -> list[list[int]]:
    """Return the sums of the distributions of some of the nine nodes."""
    return [
        [sum(numbers) for numbers in zip(*(fixed(index) for index in group), strict=True)]
        for group in groups
    ]


def fixed(index: int) -> list[int]:
    """Return what one of the nine nodes adds to a sum."""
    return ref.with_square(ref.fixed_point(COUNTS[index]))


def sealing(**changes: Any) -> Case:
    """Return one sealed key and all that it is bound to."""
    case: Case = {
        "epoch": EPOCH, "agent": AGENT, "recipient": NODE, "announced": ANNOUNCED, "plaintext":
        P.to_bytes(32, "big"), "ephemeral": secret("ephemeral"),
    } | changes  # fmt: skip
    digest = ref.layout_digest(case["announced"])
    recipient = ref.public_half(case["recipient"])
    info = ref.info(case["epoch"], ref.public_half(case["agent"]), recipient, MODULUS, digest)
    return {
        "epoch": case["epoch"].hex(),
        "agent-public-key": ref.public_half(case["agent"]).hex(),
        "recipient-private-key": case["recipient"].hex(),
        "recipient-public-key": recipient.hex(),
        "modulus": MODULUS.hex(),
        "layout-digest": digest.hex(),
        "info": info.hex(),
        "sealed": ref.seal(case["plaintext"], recipient, info, case["ephemeral"]).hex(),
    }


def kept(announced: Mapping[str, Any], index: int = 1, **more: Any) -> Case:
    """Return what a node knows before a request."""
    return {
        "parameters": all_told(announced),
        "label-counts": COUNTS[index],
        "alias": str(index),
        "epoch": EPOCH.hex(),
        "sequence": 2,
        "recipient-private-key": NODE.hex(),
        **more,
    }


def registered(announced: Mapping[str, Any], index: int = 1, **more: Any) -> Case:
    """Return what a node knows after it registered."""
    return kept(announced, index, modulus=MODULUS.hex(), p=f"{P:064x}", **more)


def request(stage: str, values: Mapping[str, Any], **head: Any) -> dict[str, Any]:
    """Return a request as it travels."""
    return all_told(ref.header(EPOCH, stage, 3) | head | ref.fields_of(values))


def overall(announced: Mapping[str, Any]) -> list[int]:
    """Return the registries of the nine nodes, added up, candidate by candidate."""
    length = len(ref.codebook(announced["reference-set"]))
    table = []
    for thresholds in ref.candidates(announced):
        slots = [ref.slot(counts, announced["reference-set"], thresholds) for counts in COUNTS]
        table += [slots.count(place) for place in range(length)]
    return table


def encrypted(
    announced: Mapping[str, Any], field: str, values: Sequence[int], r: int = 77
) -> bytes:
    """Return an encrypted vector."""
    return ref.encrypt(N, ref.pack(announced, field, values), 77)


def asked(announced: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the overall registry as nodes are given it."""
    vector = encrypted(announced, "registry", overall(announced))
    return {"overall-registry": vector, "num-registered": len(COUNTS), **more}


def draw_of(**more: Any) -> dict[str, Any]:
    """Return a request to draw for two rounds of three tries."""
    return asked(ANNOUNCED, **{
        "first-round": 1, "num-rounds": 2, "num-tries": 3, "probabilities": b"", "candidate": 0,
    } | more)  # fmt: skip


def sums_request(groups: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return a request to choose from some sums of one round."""
    vectors = [encrypted(ANNOUNCED, "distribution", sums) for sums in sums_of(*groups)]
    return {
        "sums": b"".join(vectors),
        "num-sums": [len(groups)],
        "num-clients": [len(group) for group in groups],
    }
