"""Wheel and sdist hold what they should, and the wheel works alone in an empty environment."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from docs.pages import ROOT, blocks

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
UV = os.environ.get("UV") or shutil.which("uv")
PAGE = ROOT / "docs" / "howto" / "test_an_app.md"

pytestmark = pytest.mark.skipif(UV is None, reason="uv builds the distributions")


def run(*arguments: object, cwd: Path) -> str:
    """Run a command away from the repository and return what it says."""
    env = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    ended = subprocess.run(  # noqa: S603 - uv, and what it installed
        [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=env,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of sdist and wheel; the wheel is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--quiet", "--out-dir", folder, ROOT, cwd=folder)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    """Every module and the marker of types; no test, app or page."""
    (wheel,) = built.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("dubhe_flwr/**/*.py")}
    own = {name for name in names if ".dist-info/" not in name}
    assert own == modules | {"dubhe_flwr/py.typed"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_sdist_holds_what_the_tests_need(built: Path) -> None:
    """The sdist also has apps, pages and test vectors, and nothing that a build left behind."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "SECURITY.md",
        "apps/pytorch/pyproject.toml", "docs/conf.py", "docs/reference/wire.md",
        "tests/vectors/messages.json", "tests/apis.py", "pyproject.toml", "dubhe_flwr/py.typed",
    }  # fmt: skip
    assert wanted <= names
    assert not [
        name for name in names if "__pycache__" in name or name.startswith((".venv", "dist"))
    ]


def test_the_wheel_works_alone_and_the_lab_beside_it(built: Path, tmp_path: Path) -> None:
    """An app runs without the lab; the lab studies without the packages that training needs."""
    bin_ = tmp_path / "venv" / "bin"
    python = bin_ / "python"
    run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", cwd=tmp_path)
    run(UV, "pip", "install", "--quiet", "--python", python, *built.glob("*.whl"), cwd=tmp_path)
    app = "\n".join(blocks(PAGE, "python"))  # which checks what it did
    assert "participants:" in run(python, "-c", app, cwd=tmp_path)
    foreign = "dubhe_lab", "torch", "matplotlib", "sklearn", "pandas"
    search = f"from importlib.util import find_spec; print([*map(find_spec, {foreign})])"
    assert run(python, "-c", search, cwd=tmp_path).count("None") == len(foreign)

    from_here = "pip", "install", "--quiet", "--no-sources"  # but not the library
    run(UV, *from_here, "--python", python, ROOT / "apps/lab", cwd=tmp_path)
    assert run(bin_ / "dubhe", "--version", cwd=tmp_path).strip() == f"dubhe-flwr {VERSION}"
    small = ("--num-clients", 30, "--num-participants", 4)
    assert "random" in run(bin_ / "dubhe", "study", *small, cwd=tmp_path)


def test_the_citation_is_of_this_version() -> None:
    """CITATION.cff names the version and the paper."""
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {VERSION}\n" in text
    assert "10.1145/3472456.3473513" in text


def test_the_workflow_runs_what_ci_runs() -> None:
    """The workflow runs `.ci/run`, which has the only list of checks."""
    assert "run: .ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
