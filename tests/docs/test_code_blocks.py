"""Every Python block of the documentation runs, and what its command lines name is there."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

import click
import pytest
from docs.pages import PAGES, ROOT, blocks, name_of
from flwr.cli.app import app as flwr
from typer.main import get_command

from dubhe_lab.cli import app as dubhe

TYPER = {"dubhe": dubhe, "flwr": flwr}
SYSTEM = {"cat", "cp", "docker", "export", "mkdir", "openssl", "pip", "python3"}
SYSTEM |= {"ruff", "ssh-keygen"}
"""What belongs to the system, and is not looked at further."""


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
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), namespace)  # noqa: S102 - our own documentation
    printed = capsys.readouterr().out
    shown = re.findall(r"(?sm)^```text printed\n(.*?)^```$", page.read_text())
    assert all(each in printed for each in shown)


def test_a_block_that_does_not_run_says_why(tmp_path: Path) -> None:
    """Only a block right behind the mark is left out."""
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: too slow -->\n\n```python\na\n```\n\n```python\nb\n```\n")
    assert blocks(page, "python") == ["b\n"]


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command in the bash blocks of a page."""
    for block in blocks(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.split(r"&&", line):
                words = shlex.split(command, comments=True)
                while words and re.fullmatch(r"\w+=.*", words[0]):
                    del words[0]
                if words[:1] == [".uv/bin/uv"] or words[:1] == ["uv"]:
                    words = within_uv(words)
                if words:
                    yield words


def within_uv(words: list[str]) -> list[str]:
    """Return what `uv run` runs; nothing for other uses of uv."""
    lab = tomllib.loads((ROOT / "apps" / "lab" / "pyproject.toml").read_text())["project"]
    if words[1] != "run":
        return []
    words = words[2:]
    while words[0].startswith("--"):
        option = words.pop(0)
        if option == "--extra":
            assert words.pop(0) in lab["optional-dependencies"]
        elif option == "--package":
            assert words.pop(0) == lab["name"]
        elif option == "--with":
            words.pop(0)  # a package beside those of the project
        else:
            assert option == "--no-dev"
    return words


def fault(words: list[str]) -> str | None:
    """Return what a command names that is not there."""
    program, *arguments = words
    checks = {"python": fault_of_script, "pytest": fault_of_markers}
    if program in TYPER:
        return fault_of_typer(get_command(cast("Any", TYPER[program])), arguments)
    if program in checks:
        return checks[program](arguments)
    scripts = {script.name for script in entry_points(group="console_scripts")}
    known = program in SYSTEM | scripts or program.startswith(".uv/bin/")
    return None if known else program


def options_of(arguments: list[str]) -> list[str]:
    """Return the options among some arguments, without their values."""
    return [word.partition("=")[0] for word in arguments if word.startswith("--")]


def fault_of_typer(command: Any, arguments: list[str]) -> str | None:
    """Return the first command or option that an application does not know."""
    while hasattr(command, "get_command") and arguments and not arguments[0].startswith("-"):
        inner = command.get_command(click.Context(command), arguments[0])
        if inner is None:
            return arguments[0]
        command = inner
        arguments = arguments[1:]
    known = {name for option in command.params for name in option.opts + option.secondary_opts}
    return next((o for o in options_of(arguments) if o not in known | {"--help"}), None)


def fault_of_script(arguments: list[str]) -> str | None:
    """Return the first option that a script does not have, or a script that is not there."""
    script = ROOT / arguments[0]
    source = script / "__main__.py" if script.is_dir() else script
    if not source.is_file():
        return str(source)
    text = source.read_text()
    spelt = {
        option: option.removeprefix("--").replace("-", "_") for option in options_of(arguments)
    }
    return next(
        (o for o, name in spelt.items() if o not in text and not re.search(rf"\b{name}:", text)),
        None,
    )


def fault_of_markers(arguments: list[str]) -> str | None:
    """Return the first marker that tests do not have."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    markers = {marker.partition(":")[0] for marker in settings["ini_options"]["markers"]}
    if "-m" not in arguments:
        return None
    named = re.findall(r"\w+", arguments[arguments.index("-m") + 1])
    return next((m for m in named if m not in markers | {"and", "or", "not"}), None)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")], ids=name_of)
def test_the_commands_of_a_page_are_there(page: Path) -> None:
    """No page names a command, option or script that does not exist."""
    wrong = [f"{shlex.join(words)}: {what}" for words in commands(page) if (what := fault(words))]
    assert not wrong


def test_a_wrong_command_is_found() -> None:
    """A command, an option, a folder and a marker that are not there."""
    assert fault(["dubhe", "compete"]) == "compete"
    assert fault(["dubhe", "paper", "table2", "--scales", "full"]) == "--scales"
    assert fault(["dubhe", "study", "--seed", "0"]) is None
    assert fault(["python", "apps/nothing"])
    assert fault(["python", "apps/deployment", "--nodes"]) == "--nodes"
    assert fault(["pytest", "-n", "0", "-m", "runtime or slowly"]) == "slowly"
    assert fault(["flower-hyperlink"]) == "flower-hyperlink"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Files and pictures that a page links to are in the repository."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    broken = [
        target
        for target in targets
        if not re.match(r"https?:|mailto:|#", target)
        and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert not broken


TESTS = re.compile(r"`((?:\w+/)*test_\w+\.py)`")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if TESTS.search(page.read_text())], ids=name_of
)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    """Test paths on a page are below `tests`, or below `tests/adversary` if it is about attacks."""
    folders = ROOT, ROOT / "tests", ROOT / "tests" / "adversary"
    named = TESTS.findall(page.read_text())
    assert not [path for path in named if not any((at / path).is_file() for at in folders)]


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
    assert text.count("\n") <= (100 if page.parent == ROOT and page.stem == "README" else 150)
    prose = re.sub(r"^```.*?^```$|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not [line for line in prose.splitlines() if len(line) > 100]
