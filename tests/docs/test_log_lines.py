"""The page of log lines has each line of Dubhe in a deployment, and each reason to drop a reply."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs.pages import ROOT

from dubhe_flwr.protocol.replies import ALIAS_OF_ANOTHER

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


def constants(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Yield the name and the value of each text that a module defines."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str()) as value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str()) as value)
            ):
                yield name, value


@dataclass
class Resolved(ast.NodeTransformer):
    """Replaces the names of constants by their texts."""

    known: Mapping[str, ast.Constant]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the constant's text, if the name is one."""
        return self.known.get(node.id, node)


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Yield each source with its tree, in which reasons that are constants are spelled out."""
    sources = [found for place in PLACES for found in (ROOT / "dubhe_flwr").glob(place)]
    parsed = {source: ast.parse(source.read_text("utf-8")) for source in sources}
    public = {
        name: value
        for tree in parsed.values()
        for name, value in constants(tree)
        if not name.startswith("_")
    }
    for source, tree in parsed.items():
        yield source, Resolved(public | dict(constants(tree))).visit(tree)


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
    for source, tree in trees():
        for node in ast.walk(tree):
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
    """The page explains every log line."""
    assert piece in PAGE


def test_there_are_lines() -> None:
    """The search finds log lines in the code as it is written now."""
    assert len(pieces()) >= 50


def test_reasons_may_be_constants() -> None:
    """A reason that another module names is looked up on the page, too."""
    assert ALIAS_OF_ANOTHER in pieces()
