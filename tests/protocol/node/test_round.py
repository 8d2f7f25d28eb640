"""Tests of a node's part in a round: it draws, and as an agent it names the best try."""

import numpy as np
import pytest
from protocol.federation import encrypted, joined, priced, registered
from protocol.nodes import SCALE, Exchanges, federation, next_request
from protocol.server import alter, lost

from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION


def test_a_draw_at_the_probability_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are below 1, and a node takes part if its draw is below P."""
    nodes = federation(policy={"simulated": False})
    nodes.play(1)
    node_id, request = next_request(nodes, Stage.PARTICIPATE, 2)
    reading = registered(nodes, node_id)
    own = reading.probability
    draws = np.array([own, np.nextafter(own, 0), np.nextafter(own, 1)])
    monkeypatch.setattr("dubhe_flwr.protocol.node.round.private_draws", lambda _number: draws)
    reply = nodes.handle(node_id, {**request, "num-tries": 3})
    assert reply["decisions"] == bytes([0b01000000])


@pytest.mark.parametrize(("local_skew", "best"), [(0.0, 0), (0.05, 1)])
def test_the_agent_uses_the_rules_price_of_local_skew(local_skew: float, best: int) -> None:
    """An agent accepts a slightly worse sum if its clients are balanced in themselves."""
    nodes = federation(rule=Exchanges(local_skew=local_skew))
    node_id, request = next_request(nodes, Stage.DETERMINE)
    one_sided, balanced = [SCALE] * 4 + [4 * SCALE], [SCALE + 1000, SCALE, SCALE, SCALE - 1000]
    own = joined(nodes, node_id)
    sums = b"".join(encrypted(own, DISTRIBUTION, row) for row in (one_sided, [*balanced, SCALE]))
    altered = {**request, "sums": sums, "num-tries": np.array([2], dtype=">i8").tobytes()}
    assert nodes.handle(node_id, altered)["chosen"] == np.array([best], dtype=">i8").tobytes()


def test_a_node_does_not_keep_what_all_nodes_have() -> None:
    """If no more nodes are left than are to volunteer, all volunteer, but only in this epoch."""
    nodes = priced(20, num_participants=10)
    alter(nodes, Stage.SETTLE, lost, nodes.ids[:10])
    nodes.play(1)
    assert registered(nodes, nodes.ids[15]).probability == 1.0
    assert joined(nodes, nodes.ids[15]).budget.probability == 0.0


def test_prices_outlast_a_lost_node() -> None:
    """With 20 nodes there are prices, and there still are if one of them misses the sums."""
    nodes = priced(20, num_participants=5)
    alter(nodes, Stage.SETTLE, lost, nodes.ids[:1])
    nodes.play(1)
    assert len({registered(nodes, node_id).probability for node_id in nodes.ids[1:]}) > 1
