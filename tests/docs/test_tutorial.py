"""The tutorial's few lines turn a Flower app into one with Dubhe, and so do the README's."""

import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from docs.pages import ROOT
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.simulation import InProcessGrid, run_in_process

TUTORIAL = ROOT / "docs" / "tutorial" / "add_dubhe.md"
PACKAGE = ROOT / "apps" / "pytorch" / "pytorchexample"
APIS = {"message": ("server_app", "client_app"), "numpy": ("numpy_server_app", "numpy_client_app")}
RUN_CONFIG = {"num-server-rounds": 1, "local-epochs": 1, "learning-rate": 0.05, "batch-size": 16}


def diffs() -> dict[str, list[str]]:
    """Return the changed lines that the tutorial shows, with their signs, by module."""
    blocks = re.findall(r"```diff\n # (\w+)\.py\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    return {
        name: [line for line in text.splitlines() if line[:1] in "+-" and line.strip("+- ")]
        for name, text in blocks
    }


def before(name: str) -> str:
    """Return a module of the app as it was without the lines of the tutorial."""
    lines = (PACKAGE / f"{name}.py").read_text().splitlines()
    removed: str | None = None
    for line in diffs()[name]:
        if line[0] == "-":
            removed = line[1:]
            continue
        position = lines.index(line[1:])
        lines[position : position + 1] = [] if removed is None else [removed]
        removed = None
    return "\n".join(lines)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty package `pytorchexample`, which is the one that is imported."""
    package = tmp_path / "pytorchexample"
    package.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "pytorchexample"]:
        del sys.modules[name]


def test_the_app_asks_for_all_that_it_imports() -> None:
    """Installing it brings each package; NumPy comes with any of them."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    asked = {re.split(r"[^\w-]", name)[0] for name in project["dependencies"]} | {"numpy"}
    text = "\n".join(source.read_text() for source in PACKAGE.glob("*.py"))
    imported = set(re.findall(r"(?m)^(?:from|import) (\w+)", text)) - {PACKAGE.name}
    packages = {"dubhe_flwr": ["dubhe-flwr"], **packages_distributions()}
    lacking = [name for name in imported if not asked & {*packages.get(name, ())}]
    assert not set(lacking) - sys.stdlib_module_names


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("changed", [False, True], ids=["before", "after"])
def test_seven_lines_turn_an_app_into_one_with_dubhe(
    api: str, changed: bool, package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the lines, the plain Flower app trains; with them, Dubhe selects its clients."""
    added = [line for name in APIS[api] for line in diffs()[name] if line[0] == "+"]
    assert 0 < len(added) <= 7
    names = ("__init__", "task", *APIS[api])
    sources = {name: (PACKAGE / f"{name}.py").read_text() for name in names}
    plain = {name: before(name) for name in APIS[api]}
    assert not any("dubhe" in source.lower() for source in plain.values())
    for name, source in (sources if changed else sources | plain).items():
        (package / f"{name}.py").write_text(source)
    server, client = (import_module(f"pytorchexample.{name}").app for name in APIS[api])
    with caplog.at_level("INFO", logger="flwr"):
        run_in_process(server, client, num_supernodes=20, run_config=RUN_CONFIG)
    assert ("dubhe: 5 of 20 clients selected" in caplog.text) == changed
    assert "too few for prices" not in caplog.text
    assert "finished" in caplog.text


def test_the_lines_of_the_readme_are_enough() -> None:
    """Two at the server and six at the client, as it says, and an app with them selects."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```diff\n(.*?)```", readme, re.DOTALL)
    assert [len(re.findall("^[+]", block, re.MULTILINE)) for block in blocks] == [2, 6]
    assert "eight lines: two on the server and six on the client" in readme
    names: dict[str, Any] = {
        "FedAvg": FedAvg,
        "ClientApp": ClientApp,
        "load_labels": lambda _context: [0, 3, 3],
    }
    for block in blocks:
        exec(textwrap.dedent(re.sub("^[+]", " ", block, flags=re.MULTILINE)), names)  # noqa: S102 - our own page
    plan = names["strategy"].select(1, InProcessGrid(names["app"], 24))
    assert len(plan.participants) == 20
