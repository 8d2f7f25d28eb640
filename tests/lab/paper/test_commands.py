"""`dubhe paper` measures each cell once, shows tables, and writes figures."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from command_line import call
from matplotlib.figure import Figure

from dubhe_lab.paper import registry

run = partial(call, "paper")


def test_an_experiment_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command writes cells and figures; a second call changes no cell."""
    monkeypatch.setitem(registry._ROUNDS, "small", 2)
    monkeypatch.setattr(Figure, "savefig", lambda _, file, **__: file.write(b"painted"))
    arguments = ("registry", "--seeds", "3", "--out", str(tmp_path))
    ended = run(*arguments)
    assert ended.code == 0
    assert "Registry sparsity" in ended.out
    assert "The overall registry of N = 200 clients" in ended.out
    cells = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(cells) == 6
    for path in cells:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["cell"]["config"]["seed"] == 3
        assert content["provenance"]["command"].startswith("dubhe paper registry --seeds 3")
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert figures == {"registry-dirichlet.png", "registry-mixture.png"}
    assert f"{tmp_path / 'figures/registry-mixture.png'}: mixture clients. Above:" in ended.out
    assert run(*arguments).code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == cells


def test_report_only_measures_nothing(tmp_path: Path) -> None:
    """--report-only shows what is finished, and counts what is missing."""
    ended = run("registry", "--report-only", "--out", str(tmp_path))
    assert ended.code == 0
    assert "Not measured yet: 6 of 6 measurements" in ended.out
    assert "Small scale:" in ended.out
    assert not list(tmp_path.rglob("*.json"))


def test_missing_data_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing data is reported in one sentence on what to install."""
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    ended = run("femnist", "--scale", "full", "--out", str(tmp_path))
    assert ended.code == 2
    assert "apps/lab[hub]" in ended.err
