"""Prices choose the same clients as a second implementation that adds up plain numbers."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import dubhe, epoch_of, joined, skewed_counts
from protocol.nodes import set_policy
from vectors import reference, reference_prices

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.rules import prices
from dubhe_flwr.protocol.wire.codec import encode
from dubhe_flwr.rules import Prices, Tries

UNEQUAL = skewed_counts(40) * generator(1, "sizes").choice([1, 2, 10], 40)[:, None]
"""Label counts of clients whose numbers of samples differ many times."""


def check_epochs(*tables: NDArray[np.int64], num_rounds: int, **settings: Any) -> list[int]:
    """Play rounds, two in each epoch, and compare them with plain numbers.

    Each epoch has the next table of label counts, or the last one. Returns how many sums each epoch
    took.
    """
    usual: dict[str, Any] = {"rule": Prices(), "num_participants": 8, "simulation": "plain"}
    settings = usual | settings
    nodes = dubhe(tables[0], registration_interval=2, tries=None, **settings)
    default = settings["rule"].determination
    tries = settings.get("determination", default).number
    plain_nodes: list[reference_prices.Node] = []
    lengths, last = [], None
    for server_round in range(1, num_rounds + 1):
        first_round = 2 * ((server_round - 1) // 2) + 1
        table = tables[min(first_round // 2, len(tables) - 1)]
        for node_id, row in zip(nodes.ids, table, strict=True):
            set_policy(nodes, node_id, label_counts=partial(np.asarray, row))
        plan = nodes.play(server_round)
        assert nodes.errors == []
        place, seed = joined(nodes, nodes.ids[0]), nodes.state.run.seed
        announced = encode(place.announced)
        if server_round == first_round:
            plain_nodes = reference_prices.nodes_of(announced, table.tolist(), plain_nodes)
            found, last, num_sums = reference_prices.epoch(
                announced, plain_nodes, seed, place.sequence, last
            )
            lengths.append(num_sums)
        budgets = [joined(nodes, node_id).budget for node_id in nodes.ids]
        kept = [(budget.spent, budget.probability, budget.taken_at) for budget in budgets]
        assert kept == [(node.spent, node.chance, node.taken_at) for node in plain_nodes]
        assert epoch_of(nodes).registration.last_sum.number + 1 == num_sums
        assert plan.privacy is None or plan.privacy.num_sums == num_sums
        assert (plan.privacy is not None) == any(budget.spent for budget in budgets)
        rounds = {"seed": seed, "server_round": server_round, "first_round": first_round}
        rows = [list(node.counts) for node in plain_nodes]
        plain = reference.plain_round(announced, rows, found, tries, **rounds)
        assert list(map(int, plan.aliases)) == plain.chosen
        assert plan.chosen == plain.best
    return lengths


@pytest.mark.parametrize(
    ("counts", "given"),
    [
        (skewed_counts(40), {"simulation": "encrypted"}),
        (skewed_counts(40), {"determination": Tries(5), "simulation": "encrypted"}),
        (skewed_counts(50, 10), {"rule": Prices(0.1, 1.0)}),
        (skewed_counts(50, 10), {"rule": Prices(0.1, 1.0, "own", noise=0.0)}),
        (UNEQUAL, {"equal_weights": False, "num_participants": 22}),
        (UNEQUAL, {"rule": Prices(1.0, 0.5, (0.4, 0.3, 0.2, 0.1), 2.5), "equal_weights": False}),
        (skewed_counts(12), {"num_participants": 4}),
        (np.tile([5, 3, 2, 0], (40, 1)), {"rule": Prices(noise=0.0), "simulation": "encrypted"}),
        (skewed_counts(30), {"num_participants": 30}),
    ],
    ids=[
        *("usual", "tries", "ten classes", "own mix without noise", "unequal"),
        *("unequal with a target", "too few nodes", "all alike without noise", "all wanted"),
    ],
)
def test_sets_match_the_second_implementation(
    counts: NDArray[np.int64], given: dict[str, Any]
) -> None:
    """Both agree bit for bit over three rounds; the last one begins a second epoch."""
    check_epochs(counts, num_rounds=3, **given)


@pytest.mark.parametrize("equal_weights", [True, False])
def test_label_counts_that_change(equal_weights: bool) -> None:
    """Two nodes in three keep going by their counts, or return to them; the others change."""
    first = UNEQUAL * 20
    some, others = np.arange(40) % 3 == 0, np.arange(40) % 3 == 1
    second = np.where(some[:, None], np.roll(first, 1, axis=1), 2 * first + 1)
    third = np.where(others[:, None], np.roll(first, 2, axis=1), first + 1)
    check_epochs(first, second, third, first, num_rounds=8, equal_weights=equal_weights)


def test_a_spent_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its labels entered enough sums, a node adds noise alone and keeps its probability."""
    for module, name in ((prices, "_WARM_FACTOR"), (reference_prices, "LATER")):
        monkeypatch.setattr(module, name, 1.0)  # or it would take many epochs
    rule, most = Prices(noise=1.2), 5
    lengths = check_epochs(UNEQUAL, num_rounds=12, rule=rule, equal_weights=False)
    assert sum(lengths) > most
