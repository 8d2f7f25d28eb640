"""The documentation builds without a warning, and without a network."""

import re
import subprocess
import sys
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path

import pytest
from docs.pages import ROOT, tables

from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.clientapp.node import Node
from dubhe_flwr.protocol.node.policy import Limits
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.rules import Paper, Prices
from dubhe_lab.experiments.options import parameters_of

API = ROOT / "docs" / "reference" / "api"
DOCUMENTED = [Settings, Options, Prices, Paper, Node, Limits]
REFERENCE = sorted(set(API.glob("*.md")) - {API / "index.md"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the pages; sphinx has a process of its own, whose state it changes."""
    folder = tmp_path_factory.mktemp("docs")
    arguments = ["-q", "-W", "--keep-going", "-n", "-d", str(folder / "trees")]
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "sphinx", *arguments, str(ROOT / "docs"), str(folder / "html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "html"


def test_every_page_is_built(built: Path) -> None:
    """Each Markdown file is a page; -W makes one that no table of contents names an error."""
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html") for path in ROOT.glob("docs/**/*.md")
    }
    assert pages <= {path.relative_to(built) for path in built.rglob("*.html")}


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: str(page.stem))
def test_the_reference_holds_what_is_public(built: Path, page: Path) -> None:
    """Each name in `__all__` is there and no other; of other modules, all functions and classes."""
    text = (built / "reference" / "api" / f"{page.stem}.html").read_text()
    for name in re.findall(r"automodule:: (\S+)", page.read_text()):
        module = import_module(name)
        found = set(re.findall(rf'id="{re.escape(name)}\.(\w+)"', text))
        defined = {n for n, of in vars(module).items() if getattr(of, "__module__", None) == name}
        constants = {n for n in found - defined if hasattr(module, n)}
        public = {n for n in defined if not n.startswith("_")}
        assert found == set(getattr(module, "__all__", public | constants))


def test_docstrings_of_constants_and_methods_are_there(built: Path) -> None:
    """Docstrings appear even for objects that another module defines."""
    page = (built / "reference/api/core.html").read_text()
    assert 'id="dubhe_flwr.core.codebook.Codebook.rank"' in page
    assert "Each share is off by at most 1e-6" in " ".join(page.split())


def test_tables_are_those_of_the_code() -> None:
    """`python docs/tables.py` would change nothing."""
    for page in tables()["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert tables()["filled"](text) == text, "run `uv run python docs/tables.py`"


def as_written(default: object) -> str:
    """Return a default as docstrings write it."""
    if isinstance(default, str):
        return f'"{default}"'
    return f"{default:g}" if isinstance(default, float) else str(default)


@pytest.mark.parametrize("documented", DOCUMENTED)
def test_docstrings_name_all_fields_and_their_defaults(documented: type) -> None:
    """The page of settings has a table for each class, which `tables.py` fills in from these."""
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert f".{documented.__name__} -->" in page
    inherited = fields(Limits) if documented is Node else ()
    defaults = {own.name: own.default for own in fields(documented)}
    parameters = parameters_of(documented)
    names = {name for parameter in parameters for name in parameter.names}
    assert names | {own.name for own in inherited} == set(defaults)
    for parameter in parameters:
        own = [defaults[name] for name in parameter.names]
        written = ", ".join(map(as_written, own))
        if not {None, MISSING} & {*own}:
            assert parameter.kind.endswith(f"(default: {written})")


def test_pages_need_no_network(built: Path) -> None:
    """No script, style or picture comes from elsewhere."""
    loaded = re.compile(r"<(?:script|img|link)[^>]+(?:src|href)=\"(https?:[^\"]+)\"")
    found = {url for page in built.rglob("*.html") for url in loaded.findall(page.read_text())}
    assert not found
