"""Vectors of what must be refused: spoilt messages, ciphertexts, keys and signatures."""

from collections.abc import Iterator
from typing import Any, Final

from vectors import reference as ref
from vectors.exchange import messages
from vectors.inputs import (
    ANNOUNCED,
    EPOCH,
    GROUPED,
    MODULUS,
    NODE,
    OTHER_EPOCH,
    SIGNER,
    STRANGER,
    Case,
    N,
    P,
    all_told,
    prime,
    sealing,
)

_LONE: Final = {"key.signature": bytes(96)}
_SPOILT: Final[dict[str, list[dict[str, Any]]]] = {
    "hello request": [
        {"version": None}, {"stage": "train"}, {"stage": ""}, {"stage": "HELLO"}, {"epoch": b""},
        {"epoch": EPOCH[:15]}, {"epoch": EPOCH + b"\0"}, {"epoch": EPOCH.hex()}, {"sequence": 0},
        {"sequence": -1}, {"sequence": True}, {"sequence": 2**63}, {"label": 3},
    ],
    "hello reply": [
        {"stage": "settle"}, {"willing": 1}, {"alias": ""}, {"alias": "a" * 257},
        {"alias": "ä" * 129}, {"alias": "3\n4"}, {"alias": "3\x1b[2J"}, {"alias": "3\u2028"},
        {"alias": "3\u2029"}, {"alias": "3\u202e"}, {"alias": "3\u200d"},
    ],
    "join request": [
        {"rule": None}, {"rule": b"paper"}, {"num-participants": 1}, {"min-cohort": 0},
        {"min-cohort": None}, {"max-clients": 0}, {"max-draws": -1}, {"max-sums": -1},
        {"volunteer-tries": 0}, {"group-size": 1}, {"group-size": 5}, {"group-size": 2.0},
        {"draw-seed": -1}, {"encrypted": 1},
        {"weighted": None},
    ],
    "join reply": [
        {"status": 6}, {"status": -1}, {"num-classes": 0}, {"alias": "3\n4"},
        {"public-key": bytes(31)}, {"public-key": bytes(33)}, {"signature": bytes(64)},
        {"signature": b""}, {"num-examples": -1}, {"num-examples": 0},
    ],
    "join reply of a node that stays out": [{"num-classes": -1}],
    "keygen request": [{"public-keys": bytes(95)}, {"signatures": bytes(95)}],
    "keygen reply": [{"signatures": bytes(97)}],
    "register request": [
        {"key.agent-public-key": bytes(31)}, {"key.sealed-key": None}, {"key.label": 3},
        {"key.signature": bytes(95)}, {"mean-examples": 0.5}, {"mean-examples": float("nan")},
        {"mean-examples": 1},
    ],
    "register request without a key": [_LONE],
    "settle request": [{"num-clients": 0}, {"exchange": -1}],
    "settle reply, settled": [{"finding": [0.5] * 65}, {"finding": bytes(12)}],
    "participate request": [
        {"num-clients": 0}, {"exchange": -1}, {"first-round": 0}, {"num-rounds": 0},
        {"num-tries": 0}, {"num-tries": -1}, {"num-tries": 2**20 // 5 + 1},
    ],
    "determine request": [
        {"num-clients": [4, 4, 5, 4, 0]}, {"num-clients": [4, 4, 5, 4, -4]},
        {"num-clients": [4, 4, 5, 4]}, {"num-sums": [3, 3]}, {"num-sums": [5, 0]},
        {"num-sums": [6, -1]}, {"num-sums": b"", "num-clients": b""}, {"num-clients": bytes(39)},
    ],
    "determine reply": [{"stage": "participate"}],
}  # fmt: skip
_OF_ANOTHER_TIME: Final[dict[str, list[dict[str, Any]]]] = {
    "hello request": [{"version": version} for version in (0, 2, -1, 2**63 - 1)],
    "hello reply": [{"version": version} for version in (0, 2, -1, 2**63 - 1)],
    "join reply": [{"epoch": OTHER_EPOCH}, {"sequence": 1}, {"sequence": 3}],
}


def bad_messages() -> Iterator[Case]:
    """Fields that are no message, or one of another time."""
    good = {case["name"]: case for case in messages()}
    for spoilt, error in (
        (_SPOILT, "MalformedMessageError"),
        (_OF_ANOTHER_TIME, "StaleMessageError"),
    ):
        for of, change in ((of, change) for of, changes in spoilt.items() for change in changes):
            fields = good[of]["fields"] | all_told(ref.fields_of(change))
            yield {
                "name": f"{of}: {_shown(change)}",
                "kind": good[of]["kind"],
                "stage": good[of]["stage"],
                "sequence": good[of]["sequence"],
                "fields": {n: what for n, what in fields.items() if what != {"NoneType": None}},
                "error": error,
            }


def _shown(change: dict[str, Any]) -> str:
    """Return what is changed, in words."""
    ((name, value), *_) = change.items()
    if value is None:
        return f"no {name}"
    long = isinstance(value, bytes | str | list) and len(value) > 9
    return f"{name} of length {len(value)}" if long else f"{name} {value!r}"


def bad_ciphertexts() -> Iterator[Case]:
    """Bytes that a node does not decrypt."""
    good = ref.encrypt(N, [42], 7)
    for name, vector in (
        ("empty", b""),
        ("a byte too few", good[:-1]),
        ("a byte too many", good + b"\x00"),
        ("zero", bytes(128)),
        ("n", N.to_bytes(128, "big")),
        ("n^2", (N * N).to_bytes(128, "big")),
        ("a multiple of p", (P * 12345).to_bytes(128, "big")),
        ("a good one, then zero", good + bytes(128)),
    ):
        yield {
            "name": name, "modulus": MODULUS.hex(), "p": f"{P:064x}", "vector": vector.hex(),
            "error": "DecryptionError",
        }  # fmt: skip


def bad_packings() -> Iterator[Case]:
    """Plaintexts that cannot be the sum of so many clients."""
    for name, field, plaintexts, clients in (
        ("a slot above its bound", "registration", [5], 4),
        ("bits behind the last slot", "registration", [1 << 55], 4),
        ("a plaintext too many", "registration", [1, 0], 4),
        ("none", "registration", [], 4),
        ("a share above one each", "distribution", [4 * 2**20 + 1], 4),
    ):
        yield {
            "name": name,
            "parameters": all_told(ANNOUNCED),
            "field": field,
            "num-clients": clients,
            "plaintexts": [f"{plaintext:x}" for plaintext in plaintexts],
            "error": "DecryptionError",
        }


def bad_sealed_keys() -> Iterator[Case]:
    """Sealed keys that do not open, or hold no prime of the modulus."""
    good = sealing()
    flipped = bytearray.fromhex(good["sealed"])
    flipped[40] ^= 1
    for name, case in (
        ("changed on the way", good | {"sealed": flipped.hex()}),
        ("a byte too few", good | {"sealed": good["sealed"][:-2]}),
        ("empty", good | {"sealed": ""}),
        ("for another recipient", good | {"recipient-private-key": STRANGER.hex()}),
        ("of another epoch", good | {"epoch": OTHER_EPOCH.hex()}),
        ("of another agent", good | {"agent-public-key": ref.public_half(STRANGER).hex()}),
        ("of another layout", good | {"layout-digest": bytes(32).hex()}),
        ("no prime of the modulus", sealing(plaintext=prime("r").to_bytes(32, "big"))),
        ("one", sealing(plaintext=(1).to_bytes(32, "big"))),
        ("a prime with a zero in front", sealing(plaintext=P.to_bytes(33, "big"))),
    ):
        yield {"name": name} | case | {"error": "SealError"}


def bad_signatures() -> Iterator[Case]:
    """Signatures that a node with pinned keys does not accept for a statement."""
    node = ref.public_half(NODE)
    statement = ref.join_statement(EPOCH, ANNOUNCED, node)
    good, foreign = ref.sign(SIGNER, statement), ref.sign(STRANGER, statement)
    key = ref.key_statement(EPOCH, ANNOUNCED, node, MODULUS, node)
    for name, signature in (
        ("zeros", bytes(96)),
        ("none", b""),
        ("by a stranger", foreign),
        ("another's key before it", foreign[:32] + good[32:]),
        ("changed", good[:-1] + bytes([good[-1] ^ 1])),
        ("a byte too few", good[:-1]),
        ("of another epoch", ref.sign(SIGNER, ref.join_statement(OTHER_EPOCH, ANNOUNCED, node))),
        ("of other parameters", ref.sign(SIGNER, ref.join_statement(EPOCH, GROUPED, node))),
        ("of another statement", ref.sign(SIGNER, key)),
    ):
        yield {
            "name": name,
            "trusted-keys": [ref.sign(SIGNER, b"")[:32].hex()],
            "statement": statement.hex(),
            "signature": signature.hex(),
            "error": "UntrustedError",
        }
