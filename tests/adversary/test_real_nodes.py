"""Real nodes do not do everything that a server announces."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import joined, registered
from protocol.nodes import COUNTS, NUM_CLIENTS, federation, set_policy

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.node.settle import own_of

PRIVATE_DRAWS = "dubhe_flwr.protocol.node.round.private_draws"
SEED = 7_654_321_987_654_321


def test_the_servers_seed_is_never_announced() -> None:
    """With the seed, an agent could tell who is in which try; no message contains it."""
    nodes = federation(seed=SEED, policy={"simulated": False}, simulation=None)
    nodes.play(1)
    nodes.play(2)
    told: list[Any] = [e.request for e in nodes.exchanges]
    assert {e.stage for e in nodes.exchanges} >= {Stage.JOIN, Stage.PARTICIPATE}
    written = b"|".join(
        value if isinstance(value, bytes) else str(value).encode()
        for request in told
        for value in request.values()
    )
    for way in (str(SEED).encode(), SEED.to_bytes(8, "big"), SEED.to_bytes(8, "little")):
        assert way not in written
    assert nodes.state.run.seed == SEED


@pytest.mark.parametrize(("simulated", "seed"), [(False, 7), (True, 7), (True, None)])
def test_draws_are_private_unless_both_sides_say_otherwise(
    simulated: bool, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real node draws with its own system's randomness, even if it could be simulated."""
    monkeypatch.setattr(PRIVATE_DRAWS, np.zeros)
    nodes = federation(policy={"simulated": simulated}, seed=seed, simulation=None)
    nodes.play(1)
    replies: Any = [e.reply for e in nodes.exchanges if e.stage == Stage.SETTLE]
    assert [reply["draws.decisions"] for reply in replies] == [b"\xf0"] * NUM_CLIENTS


@pytest.mark.parametrize("simulation", ["plain", "encrypted"])
def test_a_real_node_stays_out_of_a_simulation(simulation: str) -> None:
    """The server announces a simulation, by mistake or not; a real node sends no label counts."""
    nodes = federation(simulation=simulation, seed=SEED)
    set_policy(nodes, nodes.ids[3], simulated=False)
    assert nodes.play(1).num_registered == len(COUNTS) - 1
    (only,) = [e for e in nodes.exchanges if e.node_id == nodes.ids[3]]
    reply: Any = only.reply
    assert (only.stage, reply["status"], "label-counts" in reply) == (Stage.JOIN, 7, False)
    for node_id in nodes.ids:
        set_policy(nodes, node_id, simulated=False)
    with pytest.raises(QuorumError, match=r"not simulated at join: 9.*simulated=True"):
        nodes.play(11)


def test_a_nodes_random_numbers_are_its_own() -> None:
    """It rounds with its own system's randomness, whatever is announced.

    The seed of its lasting noise is secret, differs between nodes with equal labels, and stays.
    """
    nodes, seeds, drawn = federation(policy={"simulated": False}), set[int](), set[float]()
    for server_round in (1, 11):  # two registration periods
        nodes.play(server_round)
        for node_id, policy in [*nodes.policies.items()] * 2:
            own = own_of(policy, joined(nodes, node_id), registered(nodes, node_id), 0)
            seeds.add(own.lasting_seed)
            drawn.add(own.rng.random())
    assert (len(seeds), len(drawn)) == (NUM_CLIENTS, 4 * NUM_CLIENTS)
    assert min(seeds) > 2**64
