"""Tests of FedEntOpt's buffer, in which chosen clients rest."""

import numpy as np
import pytest
from protocol.federation import Federation, node_policies, skewed_counts

from dubhe_lab.baselines import FedEntOptSelector
from dubhe_lab.baselines.roll_call import Past


def test_chosen_clients_rest() -> None:
    """With twelve clients and K = 3, a chosen client sits out the next two rounds."""
    counts = skewed_counts(12)
    nodes = Federation(FedEntOptSelector(3, counts, seed=7), node_policies(counts))
    sets = [set(nodes.play(server_round).aliases) for server_round in range(1, 25)]
    apart = [
        later - earlier - 1
        for earlier in range(24)
        for later in range(earlier + 1, 24)
        if sets[earlier] & sets[later]
    ]
    assert min(apart) == 2


@pytest.mark.parametrize(("connected", "free"), [(range(6), {2, 3, 4}), (range(4), {1, 2, 3})])
def test_half_of_the_connected_clients_rest(connected: range, free: set[int]) -> None:
    """The oldest clients leave the buffer first; disconnected ones keep their place in it."""
    selector = FedEntOptSelector(1, np.eye(6), seed=7)
    past = Past(4, {"3": 1, "1": 1, "0": 1, "5": 1})
    rng = np.random.default_rng(0)
    aliases = [str(row) for row in connected]
    first = {int(selector.choose(aliases, past, rng)[0]) for _ in range(100)}
    assert first == free
