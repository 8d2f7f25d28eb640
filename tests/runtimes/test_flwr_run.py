"""`flwr run`, as the README writes it, for an app of either API."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.runtime


@pytest.mark.parametrize("modules", ["", "numpy_"])
def test_an_app_runs_on_a_local_superlink(flower_home: Any, tmp_path: Path, modules: str) -> None:
    """In either API the app comes to its end on Flower's simulation runtime."""
    app = tmp_path / "app"
    shutil.copytree(flower_home.app("pytorch"), app)
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
    assert flower_home.statuses() == ["finished:completed"], output[-4000:]
    assert output.count("clients selected in") == 2
