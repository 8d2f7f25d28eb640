"""Runs apps like Flower's examples with `flwr run`, as in the README."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deployment import Processes
from deployment.processes import wait_for

ROOT = Path(__file__).parents[2]
SMALL_APP = """
[project]
name = "{name}"
version = "1.0.0"
description = "What one of Flower's examples does"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "dubhe"
[tool.flwr.app.components]
serverapp = "small_apps:{name}_server"
clientapp = "small_apps:{name}_client"
[tool.flwr.app.config]
num-server-rounds = 2
"""

pytestmark = pytest.mark.runtime


def runs_of(home: Processes) -> list[dict[str, Any]] | None:
    """Start a local SuperLink if none runs, and return its runs; None if it does not start."""
    runs: list[dict[str, Any]] | None = json.loads(
        home.run("flwr", "ls", "local", "--format", "json")
    ).get("runs")
    return runs


@pytest.fixture(scope="module")
def flower_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Return a Flower home with a local SuperLink, whose processes end after the tests."""
    home = Processes(tmp_path_factory.mktemp("flower"))
    try:
        # Flower gives a SuperLink 15 seconds to start, which is short on a busy machine.
        wait_for(lambda: runs_of(home) == [], 300.0, "a local SuperLink")
        yield home
    finally:
        home.stop()


OURS = ("pytorch", "quickstart")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in (*OURS, "advanced")]


@pytest.mark.parametrize("name", ["masked", *SLOW])
def test_an_app_runs_on_a_local_superlink(
    flower_home: Processes, tmp_path: Path, name: str
) -> None:
    """An app in either API, with SecAgg+, or with its own start and mods, runs to its end."""
    if name in OURS:
        shutil.copytree(ROOT / "apps" / name, tmp_path, dirs_exist_ok=True)
    else:
        shutil.copy(ROOT / "tests" / "small_apps.py", tmp_path)
        (tmp_path / "pyproject.toml").write_text(SMALL_APP.format(name=name))
    output = flower_home.run(
        "flwr",
        "run",
        str(tmp_path),
        "local",
        "--stream",
        "--run-config",
        "num-server-rounds=2",
        "--federation-config",
        "num-supernodes=10 client-resources-num-cpus=1 client-resources-num-gpus=0.0",
    )
    # flwr run exits with 0 in any case.
    statuses = {run["status"] for run in runs_of(flower_home) or []}
    assert statuses == {"finished:completed"}, output[-4000:]
    assert output.count("clients selected in") == 2
