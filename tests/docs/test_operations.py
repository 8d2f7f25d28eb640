"""The operations guide knows each line that Dubhe may leave in the log, and why a reply is lost."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PLACES = ("protocol", "adapter", "clientapp", "serverapp.py")
TELLING = {"noted", "log", "warning", "warn_once", "without"}
"""Functions that write a line, leave a note for one, or drop a reply."""
ENOUGH = 45
"""Characters by which the page names a line; it leaves the end of long ones out."""


def texts(value: ast.AST | None, constants: dict[str, str]) -> Iterator[str]:
    """Yield each text that an expression may be, as it is written, with %s for what varies."""
    match value:
        case ast.Constant(value=str(text)):
            yield re.sub(r"%[.\d]*[a-z]", "%s", text)
        case ast.Name(id=name) if name in constants:
            yield constants[name]
        case ast.JoinedStr(values=parts):
            yield "".join(next(texts(part, constants), "%s") for part in parts)
        case ast.IfExp(body=body, orelse=other):
            yield from texts(body, constants)
            yield from texts(other, constants)


def lines() -> Iterator[str]:
    """Yield each line and note, and each reason for which a reply is dropped."""
    for place in PLACES:
        path = REPOSITORY / "dubhe_flwr" / place
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(source.read_text("utf-8"))
            constants = {
                node.target.id: text
                for node in tree.body
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                for text in texts(node.value, {})
            }
            for node in ast.walk(tree):
                match node:
                    case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=given):
                        told = given[:2] if name in TELLING else []
                    case ast.Return(value=value) if "stages" in source.parts:
                        told = [value] if value is not None else []
                    case ast.Subscript(value=ast.Name(id="dropped"), slice=reason):
                        told = [reason]
                    case _:
                        continue
                for each in told:
                    yield from texts(each, constants)


def pieces() -> set[str]:
    """Return how the longest part of each line begins that is the same in every log."""
    told = (line for line in lines() if not line.startswith("\t"))  # the tree of what was set
    parts = (line.removeprefix("dubhe: ").split("%s") for line in told)
    found = {max(each, key=len).strip(" :;,.")[:ENOUGH].rstrip() for each in parts}
    return {piece for piece in found if re.search(r"\w{2}", piece)}


@pytest.mark.parametrize("piece", sorted(pieces()))
def test_each_line_stands_on_the_page(piece: str) -> None:
    """Whoever looks up a line finds what it means."""
    page = (REPOSITORY / "docs/howto/operations.md").read_text("utf-8")
    assert piece in " ".join(page.split())


def test_there_are_lines() -> None:
    """They are found in the code as it is written now."""
    assert len(pieces()) >= 50
