"""`dubhe paper` measures each cell once, shows tables, and writes a page."""

import json
from functools import partial
from pathlib import Path

import pytest
from command_line import call
from matplotlib.figure import Figure

from dubhe_lab.paper import registry

run = partial(call, "paper")


def test_an_experiment_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command writes cells, figures and a page; a second call changes no cell."""
    monkeypatch.setitem(registry._ROUNDS, "small", 2)
    monkeypatch.setattr(Figure, "savefig", lambda _, file, **__: file.write(b"painted"))
    arguments = ("registry", "--seeds", "3", "--out", str(tmp_path))
    ended = run(*arguments)
    assert ended.code == 0
    assert "Registry sparsity" in ended.out
    cells = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(cells) == 6
    for path in cells:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["cell"]["config"]["seed"] == 3
        assert content["provenance"]["command"].startswith("dubhe paper registry --seeds 3")
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert figures == {"registry-dirichlet.png", "registry-mixture.png"}
    assert (tmp_path / "registry.html").read_text(encoding="utf-8").count("data:image/png") == 2
    assert run(*arguments).code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == cells


def test_report_only_measures_nothing(tmp_path: Path) -> None:
    """--report-only measures nothing and writes a page, even without finished cells."""
    ended = run("all", "--report-only", "--out", str(tmp_path))
    assert ended.code == 0
    assert "all.html" in ended.out.replace("\n", "")
    assert not list(tmp_path.rglob("*.json"))
    assert "0 of" in (tmp_path / "all.html").read_text(encoding="utf-8")


def test_missing_data_is_reported_in_one_sentence(tmp_path: Path) -> None:
    """Missing data is reported in one sentence on what to fetch and where to put it."""
    folder = str(tmp_path)
    ended = run("femnist", "--scale", "full", "--data-dir", folder, "--out", folder)
    assert ended.code == 2
    assert "preprocess.sh" in ended.err


def test_an_experiment_without_its_data_sets_is_refused(tmp_path: Path) -> None:
    """It would write an empty page."""
    for given in ("MNIST", "none"):
        ended = run("femnist", "--datasets", given, "--out", str(tmp_path))
        assert f"datasets={given} leaves femnist nothing to measure" in ended.err
