"""Fill in the pages' tables: settings, options of commands, and measurements.

They come from docstrings, commands and stored measurements. `uv run python docs/tables.py` rewrites
the pages; a test says when that is due.
"""

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from dubhe_flwr.errors import DataError
from dubhe_lab.cli import app as dubhe
from dubhe_lab.experiments.options import parameters_of
from dubhe_lab.paper.cells import CellStore
from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings, Section

_DOCS: Final = Path(__file__).parent
PAGES: Final = [
    _DOCS.parent / "README.md",
    _DOCS / "reproduction.md",
    _DOCS / "side_by_side.md",
    _DOCS / "noise.md",
    _DOCS / "reference" / "settings.md",
    _DOCS / "reference" / "command_line.md",
]
MEASURED: Final = PaperSettings(scale="full")
"""The settings of the measurements."""
_TABLE: Final = re.compile(
    r"(<!-- (options|parameters|table|file) of ([\w. ]+) -->\n)(?:\n(?:\|.*\n)+)?"
)


def filled(page: str) -> str:
    """Return a page with a table below each comment that asks for one."""
    return _TABLE.sub(lambda match: f"{match[1]}\n{_KINDS[match[2]](match[3])}", page)


def _table(*rows: tuple[str, ...]) -> str:
    heading, *others = rows
    lines = [heading, tuple("---" for _ in heading), *others]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _options(words: str) -> str:
    """Return a table of the options of a command, as its `--help` tells them."""
    command: Any = get_command(dubhe)
    for name in words.split()[1:]:
        command = command.commands[name]
    rows = []
    for option in command.params:
        default = f"`{option.default}`"
        if isinstance(option.show_default, str):
            default = option.show_default
        elif option.secondary_opts:
            default = f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
        elif option.default is None or option.default is False:
            default = ""
        names = "<br>".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
        rows.append((names, option.help, default))
    return _table(("option", "what it is", "default"), *rows)


def _parameters(name: str) -> str:
    """Return a table of the arguments of a class, as its docstring describes them."""
    module, _, own = name.rpartition(".")
    rows = [
        (", ".join(f"`{each}`" for each in names), kind, meaning.replace("``", "`"))
        for names, kind, meaning in parameters_of(getattr(import_module(module), own))
    ]
    return _table(("argument", "value", "meaning"), *rows)


@cache
def measured(name: str) -> Section | None:
    """Return the section of an experiment, with its stored cells, which pages may share."""
    cells = EXPERIMENTS[name].cells(MEASURED)
    found: dict[str, Any] = {}
    for folder in _DOCS.glob("*/cells"):
        found |= CellStore(folder).load_all(cells)
    return EXPERIMENTS[name].section(MEASURED, {key: of["result"] for key, of in found.items()})


def _measured(words: str) -> str:
    """Return a table of an experiment, counted from 1."""
    name, number = words.split()
    section = measured(name)
    if section is None or len(section.tables) < int(number):
        raise DataError(f"There is no stored cell of {name}; is a new setting missing in `_LATER`?")
    return section.tables[int(number) - 1].for_markdown() + "\n"


def _stored(name: str) -> str:
    """Return the table in a file of measurements on the page about noise."""
    rows = json.loads((_DOCS / "noise" / f"{name}.json").read_text(encoding="utf-8"))["table"]
    return _table(*map(tuple, rows))


_KINDS: Final = {
    "options": _options,
    "parameters": _parameters,
    "table": _measured,
    "file": _stored,
}

if __name__ == "__main__":
    pages = {path: filled(path.read_text(encoding="utf-8")) for path in PAGES}
    for path, page in pages.items():
        path.write_text(page, encoding="utf-8")
