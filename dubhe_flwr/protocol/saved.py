"""Checks a saved state before any of it is used."""

from collections.abc import Mapping
from typing import Any

from dubhe_flwr.errors import CheckpointError


def check_saved(data: object, kinds: Mapping[str, type], where: str) -> dict[str, Any]:
    """Return a saved dictionary, after checking that it has exactly these keys and value types.

    Raises `CheckpointError`, which names the key and `where` it is, for anything else. Integers
    must not be negative; the type `object` accepts any value.

    >>> check_saved({"seed": 7}, {"seed": int}, "selector")
    {'seed': 7}
    >>> check_saved({"seed": "7"}, {"seed": int}, "selector")
    Traceback (most recent call last):
    dubhe_flwr.errors.CheckpointError: selector.seed: a str does not belong there; load a state \
that this version of dubhe-flwr wrote.
    """
    remedy = "load a state that this version of dubhe-flwr wrote."
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: a {type(data).__name__} is not a saved state; {remedy}")
    for name in kinds:
        if name not in data:
            raise CheckpointError(f"{where}: key {name!r} is missing; {remedy}")
    for name, value in data.items():
        if name not in kinds:
            raise CheckpointError(f"{where}: key {name!r} is unknown; {remedy}")
        if kinds[name] is not object and type(value) is not kinds[name]:
            kind = type(value).__name__
            raise CheckpointError(f"{where}.{name}: a {kind} does not belong there; {remedy}")
        if type(value) is int and value < 0:
            raise CheckpointError(f"{where}.{name}: {value} is negative; {remedy}")
    return data
