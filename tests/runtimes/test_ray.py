"""The same apps under Flower's Ray simulation."""

import logging

import pytest
from apis import Api, in_both_apis
from support import NUM_NODES, main_server_app, strategy_server_app

pytestmark = pytest.mark.runtime


@in_both_apis
def test_ray_selects_the_same_sets_as_in_process(api: Api) -> None:
    """Round by round, both runtimes select the same sets from the same seed."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.WARNING)
    strategy, in_process = (api.dubhe(expected_nodes=NUM_NODES) for _ in range(2))
    server_app = strategy_server_app if api.is_fit else main_server_app
    run_simulation(
        server_app(strategy, 3),
        api.client_app(),
        num_supernodes=NUM_NODES,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    api.run(in_process, api.grid())
    assert len(strategy.selected) == 3
    assert strategy.selected == in_process.selected
