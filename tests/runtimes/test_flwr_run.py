"""`flwr run`, as the README writes it, for an app of either API."""

from typing import Any

import pytest

pytestmark = pytest.mark.runtime


@pytest.mark.parametrize("app", ["quickstart", "message_api"])
def test_an_app_runs_on_a_local_superlink(flower_home: Any, app: str) -> None:
    """The app comes to its end on Flower's simulation runtime, selecting clients each round."""
    output = flower_home.run(
        "flwr",
        "run",
        flower_home.app(app),
        "local",
        "--stream",
        "--run-config",
        "num-server-rounds=2",
        "--federation-config",
        "num-supernodes=10 client-resources-num-cpus=1 client-resources-num-gpus=0.0",
    )
    assert flower_home.statuses() == ["finished:completed"], output[-4000:]
    assert output.count("clients selected in") == 2
