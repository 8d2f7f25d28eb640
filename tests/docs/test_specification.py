"""The specification of the wire format names the fields that there are, and their types."""

import re
from itertools import pairwise
from typing import Any, get_type_hints

import pytest
from docs.pages import ROOT

from dubhe_flwr import errors
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import REPLIES, REQUESTS

TEXT = (ROOT / "docs" / "reference" / "wire.md").read_text()
TYPES: dict[Any, str] = {tuple[int, ...]: "ints", tuple[float, ...]: "floats"}


def sections() -> dict[str, str]:
    """Return the text below each heading."""
    parts = re.split(r"^##+ (.+)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def told(section: str) -> list[tuple[str, str]]:
    """Return name and type of each field in the tables of a section, in their order."""
    found = []
    for row in re.findall(r"^\|(.*)\|$", sections()[section], re.MULTILINE):
        cells = [cell.strip() for cell in row.split("|")]
        for name, kind in pairwise(cells[:3]):
            if re.fullmatch(r"`[a-z-]+`", name):
                found.append((name.strip("`"), re.split(r"\W", kind)[0]))
                break
    return found


def fields(*classes: type) -> list[tuple[str, str]]:
    """Return name and type of each field of messages."""
    return [
        (name.replace("_", "-"), TYPES.get(kind, getattr(kind, "__name__", "")))
        for message in classes
        for name, kind in get_type_hints(message).items()
    ]


@pytest.mark.parametrize("stage", list(Stage))
def test_the_fields_of_a_stage(stage: Stage) -> None:
    """Those of the request, then those of the reply."""
    assert told(stage.value) == fields(REQUESTS[stage], REPLIES[stage])


def test_the_fields_of_the_header() -> None:
    """They stand in a section of their own."""
    assert told("Header") == fields(Envelope)


def test_the_errors() -> None:
    """Every protocol error has a row."""
    kinds = {
        name
        for name in errors.__all__
        if issubclass(getattr(errors, name), errors.ProtocolError) and name != "ProtocolError"
    }
    assert set(re.findall(r"^\| `(\w+Error)`", sections()["Errors"], re.MULTILINE)) == kinds


def test_every_file_of_vectors_is_named() -> None:
    """And no other one."""
    files = {path.name for path in (ROOT / "tests" / "vectors").glob("*.json")}
    named = set(re.findall(r"\| \[`(\w+\.json)`\]", sections()["Test vectors"]))
    assert named == {name for name in files if not name.startswith("bad_")}
