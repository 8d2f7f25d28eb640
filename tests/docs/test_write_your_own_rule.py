"""The rule that a page of the documentation writes does what the page says."""

import numpy as np
import pytest
from docs.pages import ROOT, run
from numpy.typing import NDArray
from protocol.federation import Federation, dubhe, registered

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.rules import Frame, Own, Population, Rule

PAGE = ROOT / "docs" / "howto" / "write_your_own_rule.md"
COUNTS = np.array([[5, 5, 5], [9, 1, 0], [8, 0, 0], [4, 4, 1], [1, 1, 8], [0, 7, 7], [2, 3, 4]])
SCALE = 2**20
FRAME = Frame(num_classes=3, max_clients=6)


def entropy_rule() -> Rule:
    """Return the rule, as a reader's module has it."""
    rule: Rule = run(PAGE, 1)["Entropy"]()
    return rule


def entropies(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the entropy of each row, from 0 to 1."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=1) / np.log(counts.shape[1]))


def federation(simulation: str = "encrypted") -> Federation[CoordinatorState]:
    """Return nodes whose server takes the rule."""
    return dubhe(COUNTS, rule=entropy_rule(), num_participants=3, tries=2, simulation=simulation)


def test_nodes_volunteer_in_proportion_to_the_entropy() -> None:
    """K nodes volunteer on average, with the same result encrypted and in the clear."""
    nodes, plain = federation(), federation("plain")
    for server_round in (1, 2, 3):
        plan = nodes.play(server_round)
        assert plan.aliases == plain.play(server_round).aliases
        assert (plan.rule, plan.num_registered) == ("Entropy()", len(COUNTS))
    found = [registered(nodes, node_id).probability for node_id in nodes.ids]
    expected = 3 * entropies(COUNTS) / entropies(COUNTS).sum()
    np.testing.assert_allclose(found, np.minimum(expected, 1.0), atol=1e-5)
    assert nodes.errors == []


def test_what_does_not_add_up_is_refused() -> None:
    """Every node checks that the sum is one over all clients."""
    with pytest.raises(RefusedError, match="do not add up"):
        entropy_rule().settle(
            Own(COUNTS[0]), Population(FRAME, 6, 3, 3), None, np.array([SCALE, SCALE])
        )
