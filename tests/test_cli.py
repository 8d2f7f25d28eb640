"""The command line answers with what was found, or with one sentence."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.commands import app as benchmarks
from command_line import call
from reproduction.commands import app as paper
from small_comparison import SMALL
from typer.main import get_command

from dubhe_flwr.cli import app
from dubhe_flwr.cli.options import writable_file, writable_folder
from dubhe_flwr.errors import SettingsError

SMALL_OPTIONS = [
    option
    for name, value in SMALL.items()
    for option in (f"--{name.replace('_', '-')}", str(value))
]


def test_compare_writes_results_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All options reach the comparison; the table and a sentence are shown."""
    out = tmp_path / "here"
    arguments = ["--methods", "random, dubhe", "--seed", "3", "--rounds", "2", "--out", str(out)]
    assert call(monkeypatch, "compare", *SMALL_OPTIONS, *arguments) == 0
    shown = capsys.readouterr().out
    assert "Mean" in shown
    assert "With Dubhe the mean accuracy is" in shown.replace("\n", " ")
    content = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert set(content["methods"]) == {"random", "dubhe"}
    for name, value in SMALL.items():
        assert content["config"][name] == (2 if name == "num_rounds" else value)
    assert content["config"]["seed"] == 3
    assert content["config"]["command"].startswith("dubhe compare --num-clients 24")
    assert {path.name for path in out.glob("*.png")} == {
        "accuracy.png",
        "class_proportions.png",
        "emd.png",
        "comparison.png",
    }


def test_without_figures_matplotlib_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results go to a folder named after the data set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["--methods", "random", "--rounds", "1", "--no-figures"]
    assert call(monkeypatch, "compare", *SMALL_OPTIONS, *arguments) == 0
    assert [path.name for path in (tmp_path / "results/compare-digits").iterdir()] == [
        "results.json"
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--dataset", "nothing"], "dataset='nothing' is unknown; choose one of digits, mnist"),
        (["--methods", "random,luck"], "methods names 'luck'; choose from random, dubhe-paper, "),
        (["--num-participants", "200"], "num_participants=200 is above num_clients=150"),
        (["--engine", "[bold]"], "engine='[bold]' is unknown"),
        (["--device", "abacus"], "device='abacus' is unknown; choose auto, cpu or cuda."),
        (["--emd", "5"], "emd 5.0; give"),
        (["--rho", "0.5"], "rho is 0.5;"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2, the remedy on stderr, no traceback."""
    assert call(monkeypatch, "compare", *arguments) == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["compare", "--round", "3"], "--rounds"),
        (["compare", "--num-rounds", "three"], "--num-rounds"),
        (["compete"], "compete"),
    ],
)
def test_wrong_options_are_named(
    arguments: list[str],
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2 and usage for what the parser does not know."""
    assert call(monkeypatch, *arguments) == 2
    shown = capsys.readouterr().err
    assert hint in shown
    assert "Usage" in shown


STUDY_OPTIONS = {
    "--num-clients": "40",
    "--num-participants": "6",
    "--rho": "5",
    "--emd": "1.0",
    "--generator": "mixture",
    "--rule": "paper",
    "--determination": "grouped",
    "--tries": "4",
    "--group-size": "3",
    "--thresholds": "0.6,0.2",
    "--reference-set": "1,2,8",
    "--num-samples": "16",
    "--num-rounds": "3",
    "--registration-interval": "2",
    "--seed": "5",
    "--key-bits": "512",
}


@pytest.mark.parametrize("mode", ["--plain", "--encrypted"])
def test_study_writes_what_is_asked_for(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All options reach the study; the table and a sentence are shown."""
    options = [text for pair in STUDY_OPTIONS.items() for text in pair]
    files = ["--json", str(tmp_path / "new/a.json"), "--figure", str(tmp_path / "new/a.png")]
    assert call(monkeypatch, "study", *options, mode, *files) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Over 3 rounds the mean distance" in shown
    assert ("MB down" in shown) == (mode == "--encrypted")
    config = json.loads((tmp_path / "new/a.json").read_text(encoding="utf-8"))["config"]
    for name, value in STUDY_OPTIONS.items():
        setting = config[name.removeprefix("--").replace("-", "_")]
        told = ",".join(map(str, setting)) if isinstance(setting, list) else str(setting)
        assert told.removesuffix(".0") == value.removesuffix(".0"), name
    assert config["encrypted"] == (mode == "--encrypted")
    assert (tmp_path / "new/a.png").stat().st_size > 10_000


def test_study_writes_nothing_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without files no matplotlib is needed, and the folder stays empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["--num-clients", "40", "--num-participants", "6", "--rounds", "2"]
    assert call(monkeypatch, "study", *arguments) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--thresholds", "0.7;0.1"], "thresholds='0.7;0.1' must be shares separated by commas"),
        (["--thresholds", "serch"], "as in 0.7,0.1, or search."),
        (["--json", "/dev/null/a.json"], "cannot be written"),
        (["--reference-set", "1,two"], "reference_set='1,two' must be numbers"),
        (["--num-participants", "2"], "min_cohort=3 is above num_participants=2"),
        (["--figure", "a.jpg"], "figure='a.jpg' has to end in .png."),
        (["--emd", "5"], "emd 5.0; give"),
    ],
)
def test_a_study_that_cannot_work_is_one_sentence(
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2, the remedy on stderr, no traceback."""
    assert call(monkeypatch, "study", *arguments) == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


def test_a_missing_package_names_its_extra() -> None:
    """Without torch the base install says what to install."""
    script = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['dubhe', 'compare']; "
        "from dubhe_flwr.cli import main; main()"
    )
    ended = subprocess.run(  # noqa: S603 - this interpreter, in a process of its own
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr == (
        "torch is missing; install it with `pip install 'dubhe-flwr[torch]'`.\n"
    )


def test_figures_are_missed_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing matplotlib is told at once and not after minutes."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert call(monkeypatch, "compare", "--out", str(tmp_path / "out")) == 2
    assert "dubhe-flwr[report]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_alone_it_shows_where_to_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dubhe` is no error and names the first command."""
    assert call(monkeypatch) == 0
    shown = capsys.readouterr().out
    for command in ("compare", "study"):
        assert f"dubhe {command}" in shown


APPLICATIONS = {"dubhe": app, "python apps/paper": paper, "python apps/benchmarks": benchmarks}


def commands(name: str, command: Any = None) -> Iterator[Any]:
    """Yield the words and the command of each command of an application, of itself first."""
    command = command or get_command(APPLICATIONS[name])
    yield pytest.param(name, command, id=name)
    for child in getattr(command, "commands", {}):
        yield from commands(f"{name} {child}", command.commands[child])


ALL = [each for name in APPLICATIONS for each in commands(name)]


@pytest.mark.parametrize(("words", "command"), ALL)
def test_help_has_an_example(words: str, command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of every command shows a whole command line."""
    command.main(["--help"], standalone_mode=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(f"Example[^:]*: {words}", shown)


@pytest.mark.parametrize(("words", "command"), ALL)
def test_options_say_what_they_are(words: str, command: Any) -> None:
    """In words of more than one letter, which stand for something."""
    for option in command.params:
        assert len((option.help or "").split()) >= 2, (words, option.name)


def test_a_data_set_has_defaults_of_its_own() -> None:
    """An option whose default depends on it has none, and its help names them all."""
    options = {option.name: option for option in get_command(app).commands["compare"].params}  # type: ignore[attr-defined]
    told = {
        name: option.show_default
        for name, option in options.items()
        if option.default is None and name not in {"data_dir", "out"}
    }
    assert told == {
        "num_clients": "150 for digits, 1000 for mnist, 1000 for cifar10, 8962 for femnist",
        "num_samples": "32 for digits, 128 for mnist, 128 for cifar10, 32 for femnist",
        "learning_rate": "0.1 for digits, 0.05 for mnist, 0.05 for cifar10, 0.05 for femnist",
        "epochs": "1 for digits, 1 for mnist, 1 for cifar10, 5 for femnist",
        "num_rounds": "60",
        "target": "all alike",
        "tries": "20, with groups by prices 5",
    }
    assert options["methods"].default == "random,dubhe-paper,dubhe,greedy"
    assert options["emd"].default == 1.5


def test_it_knows_its_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--version` prints the installed one."""
    from importlib.metadata import version

    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"dubhe-flwr {version('dubhe-flwr')}"


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    """Nobody loses the results of a run to a file where a folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be written"):
        writable_folder(tmp_path / "file")
    assert writable_folder(tmp_path / "new" / "folder").is_dir()
    with pytest.raises(SettingsError, match="is a folder; give the name of a file"):
        writable_file(tmp_path)


def test_what_others_may_write_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is opened to see it, and is there afterwards only if it was before."""
    (tmp_path / "there").write_text("kept")
    writable_file(tmp_path / "there")
    writable_file(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "kept"

    def forbidden(path: Path, _mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", forbidden)
    for name in ("there", "new"):
        with pytest.raises(SettingsError, match=r"\(Permission denied\); give a file that can"):
            writable_file(tmp_path / name)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(SettingsError, match="cannot be written; give a folder that can"):
        writable_folder(tmp_path)


def test_a_misspelt_command_is_suggested_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was meant is named, and only once."""
    assert call(monkeypatch, "stdy") == 2
    assert capsys.readouterr().err.count("Did you mean") == 1
