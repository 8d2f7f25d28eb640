"""Messages spoilt at random: fields lost, swapped, retyped, cut, flipped and blown up."""

import random
import struct
from typing import Any

from dubhe_flwr.protocol import Fields, Stage

INTEGERS = (0, 1, -1, 2, 3, 7, 9, 2**20, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 2**63, 10**5000)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e308, float("nan"), float("inf"), -float("inf"))
TEXTS = ("", "join", "3", "\ud800", "a" * 300, "ünïcode")
OTHERS: Any = (True, False, None, [], [1], (1,), {}, {"a": 1}, bytearray(8), 1j, object())
SIZES = (0, 1, 8, 16, 32, 64, 128, 129)


def anything(rng: random.Random) -> Any:
    """Return any value, of any type."""
    bytes_ = (rng.randbytes(rng.choice(SIZES)), struct.pack(">d", rng.choice(FLOATS)))
    return rng.choice(rng.choice((INTEGERS, FLOATS, TEXTS, OTHERS, bytes_)))


def of_the_same_type(value: object, rng: random.Random) -> Any:
    """Return another value of the same type, near or far."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([*INTEGERS, value + 1, value - 1, -value, value * 2])
    if isinstance(value, str):
        return rng.choice(["", value + "x", value[1:], value.upper(), *Stage])
    assert isinstance(value, bytes)
    position = rng.randrange(len(value) + 1)
    start, end = value[:position], value[position:]
    flipped = start + bytes(byte ^ (1 << rng.randrange(8)) for byte in end[:1]) + end[1:]
    return rng.choice(
        [
            flipped, start, end, value + start, value[::-1], bytes(len(value)),
            b"\xff" * len(value), rng.randbytes(len(value)),
        ]
    )  # fmt: skip


def spoilt(fields: Fields, rng: random.Random) -> dict[Any, Any]:
    """Return the fields after one to three accidents."""
    changed: dict[Any, Any] = dict(fields)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(list(changed) or ["epoch"])
        accident = rng.randrange(8)
        if accident == 0:
            changed.pop(name, None)
        elif accident == 1:
            changed[rng.choice(("x", name.upper(), 3, None, (), "ä", b"epoch"))] = anything(rng)
        elif accident == 2:
            other = rng.choice(list(changed))
            changed[name], changed[other] = changed[other], changed.get(name)
        elif accident == 3:
            changed[name] = anything(rng)
        else:
            value = changed.get(name)
            if type(value) in {bool, int, str, bytes}:
                changed[name] = of_the_same_type(value, rng)
        if any(not isinstance(key, str) for key in changed):
            break
    return changed
