"""Runs the same apps in Flower's Ray simulation."""

import logging
from typing import Any

import pytest
from apis import (
    FIT,
    SELECTION,
    TRAIN,
    Api,
    main_server_app,
    skewed_label_counts,
    strategy_server_app,
)
from flwr.app import Context

from dubhe_flwr.rules import Paper, Prices, Rule, Tries

NUM_NODES = 40
"""Enough nodes that prices need more sums than the registration gives."""

pytestmark = pytest.mark.runtime


@pytest.mark.parametrize(
    ("api", "rule", "determination"),
    [
        pytest.param(FIT, SELECTION["rule"], SELECTION["determination"], id="paper"),
        pytest.param(TRAIN, Prices(), None, id="prices", marks=pytest.mark.slow),
    ],
)
def test_ray_selects_the_same_sets_as_in_process(
    api: Api, rule: Rule, determination: Tries | None
) -> None:
    """In every round, both runtimes select the same sets from the same seed."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.WARNING)
    label_counts = skewed_label_counts(NUM_NODES)

    def own_counts(context: Context) -> Any:
        return label_counts[int(context.node_config["partition-id"])]

    strategy, in_process = (
        api.dubhe(expected_nodes=NUM_NODES, rule=rule, determination=determination)
        for _ in range(2)
    )
    server_app = strategy_server_app if api.is_fit else main_server_app
    run_simulation(
        server_app(strategy, 3),
        api.client_app(own_counts),
        num_supernodes=NUM_NODES,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    api.run(in_process, api.grid(own_counts, num_nodes=NUM_NODES))
    assert len(strategy.selected) == 3
    assert strategy.selected == in_process.selected
    stages = [report.stage for plan in strategy.plans for report in plan.stages]
    assert {"settle", "open"}.isdisjoint(stages) == isinstance(rule, Paper)
