"""Tests of random selection."""

import numpy as np
from protocol.federation import Federation, node_policies

from dubhe_flwr.baselines import RandomSelector
from dubhe_flwr.baselines.roll_call import RollCallState

NUM_CLIENTS = 10


def federation(num_participants: int = 4, seed: int = 7) -> Federation[RollCallState]:
    """Return ten nodes and a server that chooses at random."""
    return Federation(RandomSelector(num_participants, seed), node_policies([[1, 1]] * NUM_CLIENTS))


def test_exactly_k_distinct_clients() -> None:
    """Every round has K of the clients that are there, in the order of their aliases."""
    nodes = federation()
    for server_round in range(1, 30):
        plan = nodes.play(server_round)
        rows = [nodes.ids.index(node_id) for node_id in plan.participants]
        assert len(rows) == 4
        assert rows == sorted(set(rows))
        assert plan.aliases == tuple(map(str, rows))


def test_rounds_and_seeds_differ() -> None:
    """Neither all rounds of a run nor all runs are the same."""
    nodes = federation()
    rounds = {nodes.play(server_round).aliases for server_round in range(1, 20)}
    runs = {federation(seed=seed).play(1).aliases for seed in range(20)}
    assert len(rounds) > 15
    assert len(runs) > 15


def test_everybody_is_as_likely() -> None:
    """Over 2000 rounds each of ten clients trains in 800 of them, give or take 6 sigma."""
    selector = RandomSelector(4)
    aliases = [str(row) for row in range(NUM_CLIENTS)]
    rng = np.random.default_rng(0)
    counts = np.bincount(
        np.concatenate([selector.choose(aliases, rng) for _ in range(2000)]), minlength=10
    )
    assert counts.sum() == 8000
    sigma = np.sqrt(2000 * 0.4 * 0.6)
    assert np.abs(counts - 800).max() < 6 * sigma


def test_all_clients_where_there_are_too_few() -> None:
    """With fewer than K clients all of them train."""
    nodes = federation(num_participants=20)
    assert nodes.play(1).participants == tuple(nodes.ids)
    assert federation(num_participants=10).play(1).participants == tuple(nodes.ids)
