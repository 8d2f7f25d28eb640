"""The page of log lines has each line of Dubhe in a deployment, and each reason to drop a reply."""

import ast
import re
from collections.abc import Iterator

import pytest
from docs.pages import ROOT

PAGE = " ".join((ROOT / "docs/reference/log_lines.md").read_text("utf-8").split())
PLACES = (
    *(
        f"{folder}/**/*.py"
        for folder in ("protocol", "adapter", "clientapp", "server", "simulation")
    ),
    "serverapp.py",
)
ENOUGH = 45
"""Characters by which the page names a line at least; it may leave out the rest."""


def texts(value: ast.AST | None) -> Iterator[str]:
    """Yield each text that an expression may be, with %s for what varies."""
    match value:
        case ast.Constant(value=str(text)):
            yield re.sub(r"%[.\d]*[a-z]", "%s", text)
        case ast.JoinedStr(values=parts):
            yield "".join(next(texts(part), "%s") for part in parts)
        case ast.IfExp(body=body, orelse=other):
            yield from (*texts(body), *texts(other))


def lines() -> Iterator[str]:
    """Yield each line, each note for one, and each reason for which a reply is dropped."""
    for source in (found for place in PLACES for found in (ROOT / "dubhe_flwr").glob(place)):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            match node:
                case ast.Constant(value=str(text)) if text.startswith("dubhe: "):
                    yield from texts(node)
                case (
                    ast.Call(func=ast.Attribute(attr="noted"), args=[note])
                    | ast.Assign(targets=[ast.Name(id="note")], value=note)
                ):
                    yield from texts(note)
                case ast.Call(func=ast.Attribute(attr="without"), args=[_, reason]):
                    yield from texts(reason)
                case ast.Return(value=reason) if "stages" in source.parts:
                    yield from texts(reason)
                case ast.Subscript(value=ast.Name(id="dropped"), slice=reason):
                    yield from texts(reason)


def pieces() -> set[str]:
    """Return how the longest part of each line begins that is the same in every log."""
    parts = (line.removeprefix("dubhe: ").split("%s") for line in lines())
    found = {max(each, key=len).strip(" :;,.")[:ENOUGH].rstrip() for each in parts}
    return {piece for piece in found if re.search(r"\w{3}", piece)}


@pytest.mark.parametrize("piece", sorted(pieces()))
def test_each_line_stands_on_the_page(piece: str) -> None:
    """Whoever looks up a line finds what it means."""
    assert piece in PAGE


def test_there_are_lines() -> None:
    """They are found in the code as it is written now."""
    assert len(pieces()) >= 50
