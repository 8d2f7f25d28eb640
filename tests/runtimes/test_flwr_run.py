"""`flwr run`, as the README writes it, for an app of either API."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deployment import Processes

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.runtime


@pytest.fixture
def flower_home(tmp_path: Path) -> Iterator[Processes]:
    """Return a Flower home, whose processes end with the test."""
    home = Processes(tmp_path)
    try:
        yield home
    finally:
        home.stop()


@pytest.mark.parametrize("modules", ["", "numpy_"])
def test_an_app_runs_on_a_local_superlink(
    flower_home: Processes, tmp_path: Path, modules: str
) -> None:
    """In either API the app comes to its end on Flower's simulation runtime."""
    app = tmp_path / "app"
    shutil.copytree(ROOT / "apps" / "pytorch", app)
    project = (app / "pyproject.toml").read_text()
    for side in ("server_app", "client_app"):
        assert f"pytorchexample.{side}:app" in project
        project = project.replace(
            f"pytorchexample.{side}:app", f"pytorchexample.{modules}{side}:app"
        )
    (app / "pyproject.toml").write_text(project)
    output = flower_home.run(
        "flwr",
        "run",
        str(app),
        "local",
        "--stream",
        "--run-config",
        "num-server-rounds=2",
        "--federation-config",
        "num-supernodes=10 client-resources-num-cpus=1 client-resources-num-gpus=0.0",
    )
    # It exits with 0 regardless.
    (run,) = json.loads(flower_home.run("flwr", "ls", "local", "--format", "json"))["runs"]
    assert run["status"] == "finished:completed", output[-4000:]
    assert output.count("clients selected in") == 2
