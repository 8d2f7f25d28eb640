"""Vectors of invalid messages."""

from collections.abc import Iterator
from typing import Any, Final

from vectors import reference as ref
from vectors.exchange import messages
from vectors.inputs import EPOCH, OTHER_EPOCH, Case, all_typed

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
        {"min-cohort": None}, {"max-clients": 0},
        {"pool": 0}, {"pool": None}, {"pool": 2**31}, {"pool": 2.0},
        {"simulation-seed": True}, {"simulation-seed": 2**63},
        {"vault": 1}, {"vault": "attic"}, {"has-agent": 1},
        {"simulation-seed": None, "vault": "plain"},
        {"weighted": None},
    ],
    "join reply": [
        {"status": 6}, {"status": -1}, {"num-classes": 1}, {"num-classes": None},
        {"alias": "3\n4"},
        {"public-key": bytes(31)}, {"public-key": bytes(33)}, {"signature": bytes(64)},
        {"signature": b""}, {"num-examples": -1}, {"num-examples": 0},
    ],
    "join reply of a node that stays out": [{"num-classes": 0}, {"num-classes": 4}],
    "keygen request": [
        {"roster.public-keys": bytes(95)}, {"roster.signatures": bytes(95)},
        {"roster.alias-digests": bytes(95)},
    ],
    "keygen request, weighted": [
        {"roster.num-examples": [600, 1]}, {"roster.num-examples": [600, 1, 0]},
    ],
    "keygen reply": [{"signatures": bytes(97)}],
    "appoint reply": [{"group-digest": bytes(31)}, {"signature": bytes(95)}],
    "register request": [
        {"key.agent-public-key": bytes(31)}, {"key.sealed-key": None}, {"key.label": 3},
        {"key.signature": bytes(95)}, {"mean-examples": 0.5}, {"mean-examples": float("nan")},
        {"mean-examples": 1}, {"num-joined": None}, {"num-joined": 0}, {"num-joined": 9.0},
        {"remembered": 0.5},
    ],
    "register request without a key": [_LONE],
    "settle request": [
        {"rule-sum.sums": None}, {"rule-sum.num-clients": 0}, {"rule-sum.number": -1},
        {"draws.first-round": None}, {"draws.num-rounds": 0}, {"draws.num-tries": 2**16 // 5 + 1},
    ],
    "settle reply": [{"draws.decisions": b"\x06", "draws.unwilling": b"\x08"}],
    "settle reply, settled": [
        {"finding": [0.5] * 65}, {"finding": bytes(12)}, {"draws.unwilling": None},
    ],
    "participate request": [
        {"rule-sum.number": 0}, {"first-round": 0}, {"num-rounds": 0}, {"num-tries": 0},
        {"num-tries": -1}, {"num-tries": None}, {"num-tries": 2**16 // 5 + 1},
    ],
    "determine request": [
        {"num-tries": [5, 0]}, {"num-tries": [6, -1]}, {"num-tries": b""}, {"num-tries": None},
        {"num-tries": bytes(15)}, {"num-clients": [4, 4, 4, 4, 4]},
    ],
    "determine reply": [{"stage": "participate"}],
}  # fmt: skip
_OF_ANOTHER_TIME: Final[dict[str, list[dict[str, Any]]]] = {
    "hello request": [{"version": version} for version in (0, 2, -1, 2**63 - 1)],
    "hello reply": [{"version": version} for version in (0, 2, -1, 2**63 - 1)],
    "join reply": [{"epoch": OTHER_EPOCH}, {"sequence": 1}, {"sequence": 3}],
}


def bad_messages() -> Iterator[Case]:
    """Invalid fields, and messages for another epoch, stage or request."""
    good = {case["name"]: case for case in messages()}
    for spoilt, error in (
        (_SPOILT, "MalformedMessageError"),
        (_OF_ANOTHER_TIME, "StaleMessageError"),
    ):
        for of, change in ((of, change) for of, changes in spoilt.items() for change in changes):
            fields = good[of]["fields"] | all_typed(ref.fields_of(change))
            yield {
                "name": f"{of}: {_shown(change)}",
                "kind": good[of]["kind"],
                "stage": good[of]["stage"],
                "sequence": good[of]["sequence"],
                "fields": {n: what for n, what in fields.items() if what != {"NoneType": None}},
                "error": error,
            }


def _shown(change: dict[str, Any]) -> str:
    """Describe a change in words."""
    ((name, value), *_) = change.items()
    if value is None:
        return f"no {name}"
    long = isinstance(value, bytes | str | list) and len(value) > 9
    return f"{name} of length {len(value)}" if long else f"{name} {value!r}"
