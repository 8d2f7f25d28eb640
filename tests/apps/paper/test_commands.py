"""`python apps/paper` measures once, shows tables, and writes a page."""

import json
from pathlib import Path

import pytest
from command_line import call
from reproduction.commands import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Call the command line and return its exit code."""
    return call(monkeypatch, *arguments, main=main)


def test_an_experiment_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells, figures and a page are written; a second call changes no cell."""
    assert run(monkeypatch, "registry", "--seeds", "3", "--out", str(tmp_path)) == 0
    assert "Registry sparsity" in capsys.readouterr().out
    cells = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(cells) == 6
    for path in cells:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["cell"]["config"]["seed"] == 3
        assert content["provenance"]["command"].startswith("python apps/paper registry --seeds 3")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "registry-dirichlet.png",
        "registry-mixture.png",
    }
    page = (tmp_path / "registry.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 2
    assert run(monkeypatch, "registry", "--seeds", "3", "--out", str(tmp_path)) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == cells


def test_what_is_finished_is_shown_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even if that is nothing."""
    assert run(monkeypatch, "all", "--report-only", "--out", str(tmp_path)) == 0
    assert "all.html" in capsys.readouterr().out.replace("\n", "")
    assert not list(tmp_path.rglob("*.json"))
    assert "0 of" in (tmp_path / "all.html").read_text(encoding="utf-8")


def test_missing_data_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what to fetch and where to put it."""
    arguments = ["femnist", "--scale", "full", "--data-dir", str(tmp_path), "--out", str(tmp_path)]
    assert run(monkeypatch, *arguments) == 2
    assert "preprocess.sh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--scale", "tiny"], "scale='tiny' is unknown; choose one of small, full."),
        (["--datasets", "SVHN"], "datasets names 'SVHN'; choose from MNIST, CIFAR10, FEMNIST."),
        (["--seeds", "one"], "seeds='one' must be numbers separated by commas"),
        (["--seeds", "0,-1"], "seeds=0,-1 must be from 0 up."),
        (["--norm", "layer"], "norm='layer' is unknown; choose one of batch, group."),
        (["--precision", "half"], "precision='half' is unknown; choose one of float32, bfloat16."),
        (["--rounds", "0"], "num_rounds=0 must be at least 1."),
        (["--device", "abacus"], "device='abacus' is unknown; choose auto, cpu or cuda."),
    ],
)
def test_what_cannot_work_is_one_sentence(
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is written."""
    assert run(monkeypatch, "table2", *arguments) == 2
    assert sentence in capsys.readouterr().err
