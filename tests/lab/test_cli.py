"""The command line shows results, or one sentence that says what to do."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import BytesIO, TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from command_line import call
from small_comparison import SMALL
from typer.main import get_command

from dubhe_flwr.errors import SettingsError
from dubhe_lab.bench.commands import app as benchmarks
from dubhe_lab.cli import app, compare, main
from dubhe_lab.cli.options import writable_file, writable_folder
from dubhe_lab.experiments.progress import rounds_progress
from dubhe_lab.paper.commands import app as paper
from dubhe_lab.report.results import MethodResult

SMALL_OPTIONS = [
    option
    for name, value in SMALL.items()
    for option in (f"--{name.replace('_', '-')}", str(value))
]
FIGURES = {"emd.png", "comparison.png"}


def test_compare_writes_results_and_figures(tmp_path: Path) -> None:
    """All options reach the comparison, which shows a table and a summary."""
    arguments = ["--methods", "random, dubhe", "--seed", "3", "--num-rounds", "2"]
    ended = call("compare", *SMALL_OPTIONS, *arguments, "--out", str(tmp_path / "here"))
    assert ended.code == 0
    assert {"uniform", "Local", "skew"} <= set(ended.out.split())
    assert "Dubhe's mean accuracy is" in ended.out.replace("\n", " ")
    content = json.loads((tmp_path / "here/results.json").read_text(encoding="utf-8"))
    assert set(content["methods"]) == {"random", "dubhe"}
    wanted = {**SMALL, "num_rounds": 2, "seed": 3}
    assert {name: content["config"][name] for name in wanted} == wanted
    assert content["config"]["command"].startswith("dubhe compare --num-clients 24")
    assert {path.name for path in (tmp_path / "here").glob("*.png")} == FIGURES


def test_results_go_to_a_folder_named_after_the_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --out, that is the default."""
    monkeypatch.chdir(tmp_path)
    arguments = ["--methods", "random", "--num-rounds", "1"]
    assert call("compare", *SMALL_OPTIONS, *arguments).code == 0
    assert (tmp_path / "results/compare-digits/results.json").is_file()


@pytest.mark.usefixtures("few_rounds")
def test_a_study_of_a_generated_federation_has_a_verdict(tmp_path: Path) -> None:
    """All options reach the study, which shows and writes the same as for your own federation."""
    options = (
        "--num-clients 40 --num-participants 6 --rho 5 --emd 1.0 --rule paper --tries 4 --seed 5 "
        "--thresholds 0.6,0.2 --reference-set 1,2,8 --num-samples 16 --registration-interval 2 "
        "--key-bits 512"
    )
    ended = call("study", *options.split(), "--json", str(tmp_path / "new/a.json"))
    assert ended.code == 0
    assert ended.out.startswith("40 clients, 8 classes, 640 samples.")
    content = json.loads((tmp_path / "new/a.json").read_text(encoding="utf-8"))
    assert content["verdict"].partition(".")[0] in ended.out
    assert content["rho"] == pytest.approx(5, rel=0.1)
    assert content["emd"] == pytest.approx(1, abs=0.02)
    settings = (
        "num_participants=6",
        "rule=Paper(reference_set=(1, 2, 8), thresholds={1: 0.6, 2: 0.2})",
        "determination=Tries(number=4)",
        "registration_interval=2",
        "key_bits=512",
    )
    assert all(f"    {each},\n" in content["arguments"] for each in settings)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("compare --dataset nothing", "dataset='nothing' is unknown; choose one of digits, mnist"),
        ("compare --optimizer [bold]", "optimizer='[bold]' is unknown"),
        ("compare --device abacus", "device='abacus' is unknown; choose one of auto, cpu, cuda."),
        ("compare --emd 5", "emd 5.0; pass"),
        ("study --thresholds 0.7;0.1", "thresholds='0.7;0.1' must be numbers separated by commas"),
        ("study --thresholds serch", "as in 0.7,0.1, or search."),
        ("study --json /dev/null/a.json", "/dev/null is a file; pass the name of a folder."),
        ("study --thresholds 0.7,0.1", "thresholds does not apply to rule=prices; leave one of"),
        ("study --rule paper --coverage 1", "coverage does not apply to rule=paper; leave one of"),
        ("compare --target 0.5,0.5", "target=(0.5, 0.5) is for 2 classes, not 10."),
        ("study --reference-set 1,52", "reference_set does not apply to rule=prices; leave one of"),
        (
            "study --rule paper --num-classes 8",
            "(1, 2, 10) is for 10 classes, not 8.",
        ),
        ("study --num-clients 15 --emd 1", "=20 is above num_clients=15; select fewer."),
        ("study --num-classes 1", "num_classes=1 must be at least 2."),
        ("paper table2 --scale tiny", "scale='tiny' is unknown; choose one of small, full."),
        ("paper table2 --datasets SVHN", "'SVHN' is unknown; choose one of MNIST, CIFAR10."),
        ("paper table2 --seeds one", "seeds='one' must be numbers separated by commas"),
        ("paper table2 --seeds 0,-1", "seed=-1 must be at least 0."),
        (
            "bench scale --sizes many",
            "sizes='many' must be numbers separated by commas, as in 1,2,10.",
        ),
        ("bench crypto --quick --rounds 0", "rounds=0 must be at least 1."),
    ],
)
def test_invalid_options_are_refused_in_one_sentence(
    arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid options exit with code 2 and a remedy on stderr, without a traceback."""
    monkeypatch.chdir(tmp_path)  # the project may have a folder of results
    ended = call(*arguments.split())
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch, `dubhe compare` says what to install."""
    monkeypatch.delitem(sys.modules, "dubhe_lab.experiments.compare", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    ended = call("compare", "--out", str(tmp_path))
    assert ended.code == 2
    assert ended.err == "torch is missing; run `pip install './apps/lab[torch]'` in a clone.\n"


def test_output_that_lacks_letters_of_a_name_shows_them_as_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redirected output often has an old encoding, above all on Windows."""
    table = tmp_path / "counts.csv"
    table.write_text("client,zdrowy,gru\u017alica\nnorth,1,2\nsouth,3,4\n", encoding="utf-8")
    written = BytesIO()
    monkeypatch.setattr(sys, "argv", ["dubhe", "study", "--label-counts", str(table)])
    with redirect_stdout(TextIOWrapper(written, encoding="cp1252")) as out:
        with pytest.raises(SystemExit, match="2"):  # fewer clients than participants
            main()
        out.flush()
    assert rb"gru\u017alica: 6" in written.getvalue()


def test_without_a_command_it_shows_where_to_begin() -> None:
    """`dubhe` alone succeeds and names the commands."""
    ended = call()
    assert ended.code == 0
    assert "dubhe compare" in ended.out
    assert "dubhe study" in ended.out
    assert "learning, so\nthat their" in ended.out  # no line is wrapped again at 80 columns


APPLICATIONS = {"dubhe": app, "dubhe paper": paper, "dubhe bench": benchmarks}


def commands(name: str, command: Any = None) -> Iterator[Any]:
    """Yield the name and the command of each command, starting with the application itself."""
    command = command or get_command(APPLICATIONS[name])
    yield pytest.param(name, command, id=name)
    for child in getattr(command, "commands", {}):
        yield from commands(f"{name} {child}", command.commands[child])


@pytest.mark.parametrize(
    ("words", "command"), [each for name in APPLICATIONS for each in commands(name)]
)
def test_help_has_an_example_and_explains_every_option(
    words: str, command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command's help has an example command line, and help for each option."""
    command.main(["--help"], standalone_mode=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(f"Example[^:]*: {words}", shown)
    for option in command.params:
        assert len((option.help or "").split()) >= 2, option.name


def test_places_that_cannot_be_written_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file for a folder, a folder for a file, and a read-only file; checking writes nothing."""
    file = tmp_path / "file"
    file.write_text("kept")
    with pytest.raises(SettingsError, match="is a file; pass the name of a folder"):
        writable_folder(file)
    with pytest.raises(SettingsError, match="is a folder; pass the name of a file"):
        writable_file(tmp_path)
    writable_file(file)
    writable_file(tmp_path / "new")
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "kept"
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(SettingsError, match="pass a writable file"):
        writable_file(file)


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell does not replace ~ in --out=~/a."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    arguments = [*SMALL_OPTIONS, "--methods", "random", "--num-rounds", "1"]
    assert call("compare", *arguments, "--out=~/a").code == 0
    assert (tmp_path / "home/a/results.json").is_file()


@pytest.fixture
def heard() -> Iterator[None]:
    """Enable Ctrl-C, which a shell ignores for background processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("moment", range(1, 31))
def test_a_stopped_comparison_continues(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in any round loses no finished method, and the next call trains the rest."""
    arguments = ["compare", *SMALL_OPTIONS, "--methods", "random,dubhe", "--no-encrypted"]
    arguments += ["--out", str(tmp_path), "--num-rounds", "14"]

    @contextmanager
    def stopping(*given: Any) -> Iterator[Callable[..., None]]:
        with rounds_progress(*given) as update:
            told = count(1)

            def tell(*what: Any) -> None:
                update(*what)
                if next(told) == moment:
                    signal.raise_signal(signal.SIGINT)

            yield tell

    with monkeypatch.context() as patch:
        patch.setattr(compare, "rounds_progress", stopping)
        ended = call(*arguments)
    assert ended.code == 130, ended.err
    assert "run the same command again to continue." in ended.out
    kept = tmp_path / "results.json"
    before = json.loads(kept.read_text())["methods"] if kept.exists() else {}
    assert ("random" in before) == (moment > 15)  # its rounds, and the initial model
    again = call(*arguments)
    assert again.code == 0
    after = json.loads(kept.read_text())["methods"]
    assert set(after) == {"random", "dubhe"}
    assert all(
        MethodResult.from_dict(after[n]) == MethodResult.from_dict(before[n]) for n in before
    )


def test_results_of_other_settings_are_not_overwritten(tmp_path: Path) -> None:
    """More methods are added to a file; other results are replaced only with --overwrite.

    They last until the first new method has finished, as options may be mistyped.
    """
    folder = tmp_path / "[seed[" / "]"  # for Rich, [/...] ends a style
    base = ["compare", *SMALL_OPTIONS, "--num-rounds", "1", "--out", str(folder)]
    assert call(*base, "--methods", "random").code == 0
    kept = folder / "results.json"
    assert f"Already in {kept}: random." in call(*base, "--methods", "greedy").out
    assert list(json.loads(kept.read_text())["methods"]) == ["random", "greedy"]
    refused = call(*base, "--methods", "random", "--seed", "4")
    assert refused.code == 2
    assert "holds results of other settings (see seed); choose another --out" in refused.err
    for text in ("mine", '{"config": [], "methods": {}}'):
        kept.write_text(text)
        assert "does not hold results of a comparison" in call(*base).err
    assert "emd 5.0" in call(*base, "--overwrite", "--emd", "5").err
    assert kept.read_text() == text
    assert call(*base, "--methods", "random", "--seed", "4", "--overwrite").code == 0
    assert list(json.loads(kept.read_text())["methods"]) == ["random"]
