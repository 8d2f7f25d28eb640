"""Fill in the tables of settings and options, from docstrings and commands.

`uv run python docs/tables.py` rewrites the pages; a test says when that is due.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from dubhe_lab.cli import app as dubhe
from dubhe_lab.experiments.options import parameters_of

PAGES: Final = [
    Path(__file__).parent / "reference" / name for name in ("settings.md", "command_line.md")
]
_TABLE: Final = re.compile(r"(<!-- (options|parameters) of ([\w. ]+) -->\n)(?:\n(?:\|.*\n)+)?")


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


_KINDS: Final = {"options": _options, "parameters": _parameters}

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
