"""What a server learns by its choice of settings, and nodes by the mean number of samples."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from dubhe_flwr.core.prices import PriceDesign, PriceState
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.wire.roster import Roster

N = 200


@pytest.mark.parametrize(
    ("coverage", "local_skew", "least", "most"), [(0.3, 0.0, 0.0, 0.8), (100.0, 1000.0, 0.9, 1.0)]
)
def test_a_server_can_make_a_yes_or_no_tell_the_skew_of_a_node(
    coverage: float, local_skew: float, least: float, most: float
) -> None:
    """With such settings, nodes say yes in the order of their skew; less so with the defaults."""
    rows = generator(0, "skews").dirichlet(np.geomspace(1.5, 0.15, 10), size=N)
    design, state = PriceDesign(10, 20, 40.0, coverage, local_skew), PriceState()
    while not state.settled and state.num_sums < 9:
        state = design.advance(state, design.values(state, rows).mean(axis=0), N)
    chances, skews = design.probabilities(state, rows, N), ((rows - 0.1) ** 2).sum(axis=1)
    assert least <= -spearmanr(chances, skews).statistic <= most


def test_the_mean_hides_the_size_of_a_node_that_leaves() -> None:
    """From an exact mean, every node could compute it; from two digits, it only estimates it."""
    sizes = generator(0, "sizes").integers(500, 1500, size=(50, 20)).tolist()
    errors = []
    for row in sizes:
        before, after = (
            Roster(bytes(32 * len(told)), tuple(told)).mean_examples for told in (row, row[1:])
        )
        assert before is not None
        assert after is not None
        errors.append(abs(20 * before - 19 * after - row[0]) / row[0])
    assert np.median(errors) > 0.1
