"""How the vectors write values as JSON, and the inputs that the files share."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

EPOCH: Final = bytes(range(16))

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


EXAMPLES: Final = {case["name"]: case for case in cases_of("messages")}
"""The example messages, by name."""
ANNOUNCED: Final = untyped(EXAMPLES["join request"]["values"]) | {"min-cohort": 3}
