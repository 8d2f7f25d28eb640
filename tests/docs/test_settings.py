"""The page of all settings holds what the docstrings say, as tables that any reader sees."""

import re
from inspect import cleandoc

import pytest
from docs.pages import ROOT

from dubhe_flwr.adapter import Options
from dubhe_flwr.clientapp.node import Node
from dubhe_flwr.protocol import Limits, Settings
from dubhe_flwr.rules import Paper, Prices

PAGE = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")


def table_of(documented: type) -> str:
    """Return the table of what a class takes: a row for each entry of "Parameters"."""
    _, _, parameters = cleandoc(documented.__doc__ or "").partition("Parameters\n----------\n")
    rows = ["| argument | value | meaning |", "|---|---|---|"]
    for entry in re.split(r"\n(?=\S)", re.split(r"\n\n\w+\n-+\n", parameters)[0].strip()):
        heading, _, meaning = entry.partition("\n")
        names, _, kind = heading.partition(" : ")
        cells = (
            ", ".join(f"`{name}`" for name in names.split(", ")),
            kind,
            " ".join(meaning.split()),
        )
        rows.append(f"| {' | '.join(cell.replace('``', '`') for cell in cells)} |")
    return "\n".join(rows)


@pytest.mark.parametrize("documented", [Settings, Options, Prices, Paper, Node, Limits])
def test_the_page_has_all_settings(documented: type) -> None:
    """After a change of a docstring the table of the failure belongs into the page."""
    assert f"\n\n{table_of(documented)}\n\n" in PAGE
