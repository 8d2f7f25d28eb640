"""The page of log lines has each line of Dubhe in a deployment, and each reason to drop a reply."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

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


def texts(value: ast.AST | None, module: Any) -> Iterator[str]:
    """Yield each text that an expression of a module may be, with %s for what varies."""
    match value:
        case ast.Constant(value=str(text)):
            yield re.sub(r"%[.\d]*[a-z]", "%s", text)
        case ast.Name(id=name) if isinstance(getattr(module, name, None), str):
            yield getattr(module, name)
        case ast.JoinedStr(values=parts):
            yield "".join(next(texts(part, module), "%s") for part in parts)
        case ast.IfExp(body=body, orelse=other):
            yield from (*texts(body, module), *texts(other, module))


def lines() -> Iterator[str]:
    """Yield each line, each note for one, and each reason for which a reply is dropped."""
    for source in (found for place in PLACES for found in (ROOT / "dubhe_flwr").glob(place)):
        name = ".".join(source.relative_to(ROOT).with_suffix("").parts)
        module = import_module(name.removesuffix(".__init__"))
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            match node:
                case ast.Constant(value=str(text)) if text.startswith("dubhe: "):
                    yield from texts(node, module)
                case (
                    ast.Call(func=ast.Attribute(attr="noted"), args=[note])
                    | ast.Assign(targets=[ast.Name(id="note")], value=note)
                ):
                    yield from texts(note, module)
                case ast.Call(func=ast.Attribute(attr="without"), args=[_, reason]):
                    yield from texts(reason, module)
                case ast.Return(value=reason) if "stages" in source.parts:
                    yield from texts(reason, module)
                case ast.Subscript(value=ast.Name(id="dropped"), slice=reason):
                    yield from texts(reason, module)


def test_each_line_stands_on_the_page() -> None:
    """The page explains every log line by how its longest part begins that never varies."""
    parts = (line.removeprefix("dubhe: ").split("%s") for line in lines())
    found = {max(each, key=len).strip(" :;,.")[:ENOUGH].rstrip() for each in parts}
    pieces = {piece for piece in found if re.search(r"\w{3}", piece)}
    assert len(pieces) >= 50
    missing = [piece for piece in pieces if piece not in PAGE]
    assert not missing, f"add a row to docs/reference/log_lines.md for each of {missing}"
