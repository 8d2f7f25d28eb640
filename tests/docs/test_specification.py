"""The specification of the wire format names the fields that there are, and their types."""

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest
from docs.pages import ROOT

from dubhe_flwr import errors
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import REPLIES, REQUESTS

TEXT = (ROOT / "docs" / "reference" / "wire.md").read_text()
TYPES: dict[Any, str] = {tuple[int, ...]: "ints", tuple[float, ...]: "floats"}


def sections() -> dict[str, str]:
    """Return the text below each heading."""
    parts = re.split(r"^##+ (.+)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def told(section: str) -> list[tuple[str, str, bool]]:
    """Return name, type and whether it is optional, of each field in the tables of a section.

    The fields of the roster have a section of their own.
    """
    found = []
    for row in re.findall(r"^\|(.*)\|$", sections()[section], re.MULTILINE):
        if "the [roster](#roster)" in row:
            found += told("Roster")
        cells = [cell.strip() for cell in row.split("|")]
        for name, kind in pairwise(cells[:3]):
            if re.fullmatch(r"`[a-z.-]+`", name):
                found.append((name.strip("`"), re.split(r"\W", kind)[0], "optional" in kind))
                break
    return found


def fields(message: Any, prefix: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield name, type and whether it is optional, of each field of a message."""
    for name, kind in get_type_hints(message).items():
        key, is_optional = prefix + name.replace("_", "-"), isinstance(kind, UnionType)
        needed = get_args(kind)[0] if is_optional else kind
        if is_dataclass(needed):
            yield from fields(needed, f"{key}.")
        else:
            yield key, TYPES.get(needed, getattr(needed, "__name__", "")), is_optional


@pytest.mark.parametrize("stage", list(Stage))
def test_the_fields_of_a_stage(stage: Stage) -> None:
    """Return the fields of the request, then the fields of the reply."""
    assert told(stage.value) == [*fields(REQUESTS[stage]), *fields(REPLIES[stage])]


def test_the_fields_of_the_header() -> None:
    """The header's fields have a section of their own."""
    assert told("Header") == list(fields(Envelope))


def test_the_errors() -> None:
    """Every protocol error has a row."""
    found = (kind for kind in vars(errors).values() if isinstance(kind, type))
    kinds = {k.__name__ for k in found if issubclass(k, errors.ProtocolError)} - {"ProtocolError"}
    assert set(re.findall(r"^\| `(\w+Error)`", sections()["Errors"], re.MULTILINE)) == kinds


def test_every_file_of_vectors_is_named() -> None:
    """The page names every file of vectors, and no other."""
    files = {path.name for path in (ROOT / "tests" / "vectors").glob("*.json")}
    named = set(re.findall(r"\| \[`(\w+\.json)`\]", sections()["Test vectors"]))
    assert named == {name for name in files if not name.startswith("bad_")}
