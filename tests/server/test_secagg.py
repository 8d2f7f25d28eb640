"""Dubhe together with Flower's secure aggregation: neither hides what the other needs."""

from typing import Any

import numpy as np
from flwr.app import Context
from flwr.client.mod import secaggplus_mod
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from support import NUM_NODES, SELECTION, Recorded, initial_parameters, numpy_client_app

from dubhe_flwr.server import Dubhe
from dubhe_flwr.simulation import run_in_process


class RecordedDubhe(Recorded, Dubhe):
    """Keeps its plans."""


def test_secure_aggregation_of_the_selected_clients() -> None:
    """SecAgg+ masks the models of exactly the clients that Dubhe selected."""
    models: list[Any] = []
    inner = FedAvg(
        fraction_evaluate=0.0,
        initial_parameters=initial_parameters(),
        evaluate_fn=lambda _round, arrays, _config: models.append(arrays),
    )
    strategy = RecordedDubhe(inner, **SELECTION)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        legacy = LegacyContext(context, config=ServerConfig(num_rounds=2), strategy=strategy)
        secure = SecAggPlusWorkflow(
            num_shares=3, reconstruction_threshold=2, max_weight=100.0, clipping_range=100.0
        )
        DefaultWorkflow(fit_workflow=secure)(grid, legacy)

    run_in_process(app, numpy_client_app(mods=(secaggplus_mod,)), NUM_NODES)
    partitions = np.array(strategy.selected[0])
    # SecAgg+ weighs at the clients, by the examples that they report.
    expected = 1 + np.average(partitions, weights=10 + partitions)
    assert len(strategy.selected) == 2
    np.testing.assert_allclose(models[1][0], expected, atol=0.01)
