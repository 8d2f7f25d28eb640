"""The same apps under Flower's Ray simulation."""

import logging
from typing import Any

import pytest
from support import (
    NUM_NODES,
    SELECTION,
    Recorded,
    initial_parameters,
    main_server_app,
    message_client_app,
    numpy_client_app,
    strategy_server_app,
)

from dubhe_flwr.server import Dubhe as FitDubhe
from dubhe_flwr.serverapp import Dubhe
from dubhe_flwr.simulation import run_in_process

pytestmark = pytest.mark.runtime


class RecordedFitDubhe(Recorded, FitDubhe):
    """Keeps its plans."""


class RecordedDubhe(Recorded, Dubhe):
    """Keeps its plans."""


def apps(api: str, num_rounds: int) -> tuple[Any, Any, Any]:
    """Return a strategy of that API with its ServerApp and ClientApp."""
    if api == "configure_fit":
        from flwr.server.strategy import FedAvg as FitFedAvg

        inner = FitFedAvg(fraction_evaluate=0.0, initial_parameters=initial_parameters())
        fit = RecordedFitDubhe(inner, **SELECTION, expected_nodes=NUM_NODES)
        return fit, strategy_server_app(fit, num_rounds), numpy_client_app()
    from flwr.serverapp.strategy import FedAvg

    train = RecordedDubhe(FedAvg(fraction_evaluate=0.0), **SELECTION, expected_nodes=NUM_NODES)
    return train, main_server_app(train, num_rounds), message_client_app()


@pytest.mark.parametrize("api", ["configure_fit", "configure_train"])
def test_ray_selects_the_same_sets_as_in_process(api: str) -> None:
    """Round by round, both runtimes select the same sets from the same seed."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.WARNING)
    strategy, server_app, client_app = apps(api, num_rounds=3)
    run_simulation(
        server_app,
        client_app,
        num_supernodes=NUM_NODES,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    in_process, server_app, client_app = apps(api, num_rounds=3)
    run_in_process(server_app, client_app, NUM_NODES)
    assert len(strategy.selected) == 3
    assert strategy.selected == in_process.selected
