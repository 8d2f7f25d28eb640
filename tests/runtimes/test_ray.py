"""Runs the same apps in Flower's Ray simulation."""

import logging

import pytest
from apis import FIT, NUM_NODES, strategy_server_app

pytestmark = pytest.mark.runtime


def test_ray_selects_the_same_sets_as_in_process() -> None:
    """In every round, both runtimes select the same sets from the same seed."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.WARNING)
    strategy, in_process = (FIT.dubhe(expected_nodes=NUM_NODES) for _ in range(2))
    run_simulation(
        strategy_server_app(strategy, 3),
        FIT.client_app(),
        num_supernodes=NUM_NODES,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    FIT.run(in_process, FIT.grid())
    assert len(strategy.selected) == 3
    assert strategy.selected == in_process.selected
