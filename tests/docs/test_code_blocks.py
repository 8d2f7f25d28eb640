"""Every Python block of the documentation runs, and what its command lines name is there."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from docs.pages import PAGES, ROOT, blocks, name_of, run
from typer.testing import CliRunner

TYPER = {"dubhe": "dubhe_lab.cli", "flwr": "flwr.cli.app"}
SYSTEM = {"cat", "cp", "docker", "export", "mkdir", "openssl", "pip", "python3"}
SYSTEM |= {"ruff", "ssh-keygen", ".uv/bin/pip"}
SYSTEM |= {script.name for script in entry_points(group="console_scripts")}
"""What is not looked at further."""
LAB = (ROOT / "apps" / "lab" / "pyproject.toml").read_text()
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
MARKERS = {marker.partition(":")[0] for marker in PYTEST["markers"]}


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_the_blocks_of_a_page_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A reader may paste the blocks one after the other; they print what the page says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._REGISTRATIONS", 1)
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._swept", lambda *_: {})
    run(page)
    printed = capsys.readouterr().out
    shown = re.findall(r"(?sm)^```text printed\n(.*?)^```$", page.read_text())
    assert all(each in printed for each in shown)


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command in the bash blocks of a page; of `uv run`, what it runs."""
    for block in blocks(page, "bash"):
        for line in re.split(r"\n|&&", block.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            while words and re.fullmatch(r"\w+=.*", words[0]):
                del words[0]
            if words[:2] == [".uv/bin/uv", "run"]:
                words = within_uv(words[2:])
            if words:
                yield words


def within_uv(words: list[str]) -> list[str]:
    """Return the words after the options of `uv run`, which are those of the lab."""
    while words[0].startswith("--"):
        option = words.pop(0)
        if option != "--no-dev":
            value = words.pop(0)
            assert option == "--with" or f'"{value}"' in LAB or f"\n{value} = " in LAB
    return words


def fault(program: str, *arguments: str) -> str | None:
    """Return what a command names that is not there."""
    if program in TYPER:
        ended = CliRunner().invoke(import_module(TYPER[program]).app, [*arguments, "--help"])
        return ended.output if ended.exit_code else None
    if program == "python":
        return fault_of_script(*arguments)
    if program == "pytest":
        named = set(re.findall(r"[a-z]\w+", " ".join(arguments)))
        return ", ".join(named - MARKERS - {"or"}) or None
    return None if program in SYSTEM else program


def fault_of_script(name: str, *arguments: str) -> str | None:
    """Return a script that is not there, or the options that it does not have."""
    script = ROOT / name
    source = script / "__main__.py" if script.is_dir() else script
    if not source.is_file():
        return name
    text = source.read_text()
    options = (word for word in arguments if word.startswith("--"))
    return ", ".join(o for o in options if f"\n    {o[2:].replace('-', '_')}: " not in text) or None


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")], ids=name_of)
def test_the_commands_of_a_page_are_there(page: Path) -> None:
    """No page names a command, option or script that does not exist."""
    wrong = [f"{shlex.join(words)}: {what}" for words in commands(page) if (what := fault(*words))]
    assert not wrong


def test_a_wrong_command_is_found() -> None:
    """A command, an option, a folder and a marker that are not there."""
    assert fault("dubhe", "compete")
    assert fault("dubhe", "paper", "table2", "--scales", "full")
    assert fault("dubhe", "study", "--seed", "0") is None
    assert fault("python", "apps/nothing")
    assert fault("pytest", "-m", "runtime or slowly") == "slowly"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    """Links lead to files in the repository; tests are below `tests` or `tests/adversary`."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)\s#]+)", text)
    assert not [target for target in targets if not (page.parent / target).exists()]
    tests = re.findall(r"`((?:\w+/)*test_\w+\.py)`", page.read_text())
    folders = ROOT, ROOT / "tests", ROOT / "tests" / "adversary"
    assert not [path for path in tests if not any((at / path).is_file() for at in folders)]


def test_the_test_command_of_the_readme_is_the_one_that_ci_calls() -> None:
    """CI runs what the README says, word for word."""
    readme = (ROOT / "README.md").read_text()
    command = re.search(r"Run the tests:\n\n```bash\n(.*?)\n```", readme, re.DOTALL)
    assert command is not None
    assert any(command[1] in line for line in (ROOT / ".ci" / "run").read_text().splitlines())


DOCS = ROOT / "docs"
LONG = {DOCS / f"{results}.md" for results in ("performance", "reproduction", "side_by_side")}
LONG |= {ROOT / "CHANGELOG.md", *(DOCS / "reference").rglob("*.md")}


@pytest.mark.parametrize("page", sorted(set(PAGES) - LONG), ids=name_of)
def test_a_page_is_short(page: Path) -> None:
    """README has at most 100 lines, a page 150, all wrapped; references and results may be long."""
    text = page.read_text(encoding="utf-8")
    most = 100 if page.parent == ROOT and page.stem == "README" else 150
    assert text.count("\n") <= most, f"{page} is too long; move something to docs/reference"
    prose = re.sub(r"^```.*?^```$|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not [line for line in prose.splitlines() if len(line) > 100]
