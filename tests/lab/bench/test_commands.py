"""`dubhe bench` measures, and shows and writes the results."""

import json
from functools import partial
from pathlib import Path

import pytest
from command_line import call

from dubhe_lab.bench import protocol, scale, simulation

run = partial(call, "bench")

OPTIONS = {
    "crypto": ["--rounds", "1"],
    "vaults": ["--sizes", "20"],
    "protocol": ["--sizes", "20", "--num-real", "3"],
    "present": ["--sizes", "10,30", "--max-registered", "10"],
    "scale": ["--sizes", "40,80", "--num-real", "8"],
    "simulation": ["--num-clients", "12", "--num-rounds", "2"],
    "engine": ["--num-nodes", "8", "--no-ray"],
}


@pytest.mark.parametrize("name", list(OPTIONS))
def test_quick_benchmarks_write_figures_and_tables(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --quick every benchmark takes seconds; the file has the command and the tables."""
    # Starting a fresh process takes seconds, so measure in this one; and so do trainings.
    monkeypatch.setattr(scale, "_in_fresh_process", lambda measure, *given: measure(*given))
    for module in (protocol, simulation):
        monkeypatch.setattr(module, "one_training", lambda: lambda: sum(range(10**5)))
    ended = run(name, "--quick", *OPTIONS[name], "--json", str(tmp_path / "new/a.json"))
    assert ended.code == 0, ended.err
    assert "Figures" in ended.out
    content = json.loads((tmp_path / "new/a.json").read_text(encoding="utf-8"))
    assert {"wanted", "measured", "config"} < set(content)
    figures = [value for value in content.values() if isinstance(value, float | int)]
    assert name != "engine" or len(figures) == 3  # without Ray there is no ratio
    assert name == "scale" or min(figures) > 0  # there are exponents of growth
    assert content["wanted"] == {}  # no bounds apply to such small sizes and keys
    assert content["config"].get("key_bits", 512) == 512
    assert content["config"]["command"].startswith(f"dubhe bench {name} --quick")
    assert all("\n\n|" in table for table in content["tables"])


def test_a_file_that_cannot_be_written_is_refused_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output file that cannot be written is refused before anything is measured."""
    (tmp_path / "file").write_text("")

    def measured(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("dubhe_lab.bench.crypto.interleaved", measured)
    ended = run("crypto", "--json", str(tmp_path / "file" / "a"))
    assert ended.code == 2
    assert "file is a file; pass the name of a folder." in ended.err
