"""`python apps/benchmarks` measures, shows and writes what is asked for."""

import json
from pathlib import Path

import pytest
from bench import scale
from bench.commands import main
from command_line import call

OPTIONS = {
    "crypto": ["--rounds", "1"],
    "protocol": ["--sizes", "20", "--num-real", "3", "--no-training"],
    "scale": ["--sizes", "40,80", "--num-real", "8"],
    "engine": ["--num-nodes", "8", "--no-ray"],
    "training": ["--images", "digits"],
}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Call the command line and return its exit code."""
    return call(monkeypatch, *arguments, main=main)


@pytest.mark.parametrize("name", list(OPTIONS))
def test_quick_benchmarks_write_figures_and_tables(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In seconds; the file names the command, and the Markdown shows it."""
    # A process of its own takes seconds to start.
    monkeypatch.setattr(scale, "_in_fresh_process", lambda measure, *given: measure(*given))
    files = ["--json", str(tmp_path / "new/a.json"), "--markdown", str(tmp_path / "new/a.md")]
    code = run(monkeypatch, name, "--quick", *OPTIONS[name], *files)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert "Figures" in shown.out
    content = json.loads((tmp_path / "new/a.json").read_text(encoding="utf-8"))
    assert {"wanted", "measured", "config"} < set(content)
    assert content["wanted"] == {}  # sizes and keys are too small to want anything
    markdown = (tmp_path / "new/a.md").read_text(encoding="utf-8")
    assert markdown.startswith(f"```bash\npython apps/benchmarks {name} --quick")
    assert "| figure | measured | wanted | kept |" in markdown


def test_sizes_are_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anything else is one sentence."""
    assert run(monkeypatch, "scale", "--sizes", "many") == 2
    shown = capsys.readouterr().err
    assert shown == "sizes='many' must be numbers separated by commas, as in 1,2,10.\n"


def test_a_file_that_cannot_be_written_is_refused_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence."""
    (tmp_path / "file").write_text("")

    def measured(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("bench.crypto.interleaved", measured)
    for option in ("--json", "--markdown"):
        path = str(tmp_path / "file" / "a")
        assert run(monkeypatch, "crypto", option, path) == 2
        assert "cannot be written" in capsys.readouterr().err


def test_a_number_below_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Zero does not stand for the usual number."""
    assert run(monkeypatch, "crypto", "--quick", "--rounds", "0") == 2
    assert capsys.readouterr().err == "rounds=0 must be at least 1.\n"
