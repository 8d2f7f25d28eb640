"""The quickstart app runs unchanged in one process; for Ray see `runtimes/test_flwr_run.py`."""

import tomllib
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from zipfile import ZipFile

import pytest
from apis import FIT

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.rules import Prices
from dubhe_flwr.simulation import InProcessGrid, run_in_process

APP = Path(__file__).parents[2] / "apps" / "quickstart"
CONFIG = tomllib.loads((APP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
ROUNDS = {"num-server-rounds": 2}


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Collect the clients selected in each round."""
    selected: list[tuple[str, ...]] = []
    take_note = lambda plan, _seconds: selected.append(plan.aliases)  # noqa: E731
    monkeypatch.setattr("dubhe_flwr.adapter.driver.log_plan", take_note)
    return selected


@pytest.fixture
def accuracies(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Put the app on the path and collect the accuracy after each round."""
    monkeypatch.syspath_prepend(str(APP))
    server = import_module("quickstart.server_app")
    collected: list[float] = []
    original = server.test

    def test(server_round: int, parameters: Any, config: Any) -> Any:
        loss, metrics = original(server_round, parameters, config)
        collected.append(metrics["accuracy"])
        return loss, metrics

    monkeypatch.setattr(server, "test", test)
    return collected


def components() -> tuple[Any, Any]:
    """Return the apps named in the project file."""
    named = CONFIG["components"]
    return resolve_name(named["serverapp"]), resolve_name(named["clientapp"])


def run(num_supernodes: int, **run_config: Any) -> None:
    """Run the app in this process."""
    run_in_process(*components(), num_supernodes, run_config={**ROUNDS, **run_config})


def test_it_trains_the_configured_number_of_clients(
    accuracies: list[float], plans: list[tuple[str, ...]]
) -> None:
    """The run config or the project file sets the number, and each round is evaluated."""
    run(12)
    run(12, **(CONFIG["config"] | ROUNDS | {"num-participants": 4}))
    wanted = CONFIG["config"]["num-participants"]
    assert [len(set(clients)) for clients in plans] == [wanted, wanted, 4, 4]
    assert accuracies[0] == accuracies[3]
    assert len(set(accuracies[:3])) > 1, "the model does not change"


@pytest.mark.usefixtures("accuracies")
def test_draws_are_private(plans: list[tuple[str, ...]]) -> None:
    """Selected sets do not repeat, and the run config that all nodes get holds no seed."""
    assert "seed" not in CONFIG["config"]
    for _ in range(2):
        run(30, **{"num-server-rounds": 3})
    assert plans[:3] != plans[3:]


@pytest.mark.usefixtures("accuracies")
def test_only_a_nodes_own_config_makes_it_simulated() -> None:
    """Nodes stay out of a simulation until their own node config says that they are simulated."""
    grid = InProcessGrid(components()[1], 12, run_config={"simulated": True})
    strategy = FIT.dubhe(simulation="plain", rule=Prices(), key_bits=2048)
    with pytest.raises(QuorumError, match="not simulated at join: 12"):
        FIT.run(strategy, grid, 1)
    for context in grid.contexts.values():
        context.node_config["simulated"] = True
    with suppress(ValueError):  # the test's model does not fit this app
        FIT.run(strategy, grid, 1)
    assert [plan.num_registered for plan in strategy.plans] == [12]


def test_it_resumes_from_its_checkpoint(
    accuracies: list[float], plans: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """Started again with the same folder, the app trains the remaining rounds."""
    run(12, **{"checkpoint-dir": str(tmp_path)})
    assert len(plans) == 2
    run(12, **{"checkpoint-dir": str(tmp_path), "num-server-rounds": 3})
    assert len(plans) == 3
    assert accuracies[3] == accuracies[2]
    assert len(accuracies) == 5


def test_flower_and_its_hub_accept_the_app() -> None:
    """Both components exist; the file names no federation; the bundle has the licence."""
    from flwr.common.config import validate_config

    whole = tomllib.loads((APP / "pyproject.toml").read_text(encoding="utf-8"))
    valid, errors, warnings = validate_config(whole, check_module=True, project_dir=APP)
    assert valid, errors
    assert not warnings
    assert "federations" not in whole["tool"]["flwr"]
    publish = import_module("flwr.cli.app_cmd.publish")
    build = import_module("flwr.cli.build")
    publish._validate_app_name(whole["project"]["name"], "name")
    publish._validate_description(whole["project"]["description"])
    files = publish._collect_file_paths(APP)
    publish._validate_files(files)
    assert {path for path in APP.rglob("*.*") if "__pycache__" not in path.parts} <= {*files}
    fab, metadata = build.build_fab_from_files(build.collect_files(APP))
    assert metadata.fab_format_version == 1
    assert "LICENSE" in ZipFile(BytesIO(fab)).namelist()
