"""Dubhe works together with Flower's secure aggregation."""

from typing import Any

import numpy as np
import pytest
from apis import FIT
from flwr.app import Context
from flwr.client.mod import secaggplus_mod
from flwr.server import LegacyContext, ServerConfig
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp

from dubhe_flwr.simulation import run_on_grid


def test_secure_aggregation_of_the_selected_clients(caplog: pytest.LogCaptureFixture) -> None:
    """SecAgg+ masks the models of exactly the clients that Dubhe selected."""
    models: list[Any] = []
    evaluate_fn = lambda _round, arrays, _config: models.append(arrays)  # noqa: E731
    strategy = FIT.dubhe(FIT.wrapped(evaluate_fn=evaluate_fn))
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        legacy = LegacyContext(context, config=ServerConfig(num_rounds=2), strategy=strategy)
        secure = SecAggPlusWorkflow(
            num_shares=3, reconstruction_threshold=2, max_weight=100.0, clipping_range=100.0
        )
        DefaultWorkflow(fit_workflow=secure)(grid, legacy)

    run_on_grid(app, FIT.grid(mods=(secaggplus_mod,)))
    partitions = np.array(strategy.selected[0])
    # With SecAgg+, clients weigh their models themselves, by the examples that they report.
    expected = 1 + np.average(partitions, weights=10 + partitions)
    assert caplog.text.count("equal_weights has no effect with SecAgg+") == 1
    assert len(strategy.selected) == strategy.driver.run.last == 2
    np.testing.assert_allclose(models[1][0], expected, atol=0.01)
