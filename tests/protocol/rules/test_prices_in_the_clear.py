"""Prices choose whom a second implementation chooses, which adds up plain numbers."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import dubhe, joined, registered, skewed_counts
from vectors import reference, reference_prices

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.node.memory import Membership
from dubhe_flwr.protocol.wire.codec import encode
from dubhe_flwr.rules import Prices

TARGET = (0.4, 0.3, 0.2, 0.1)


def unequal_counts(num_clients: int) -> NDArray[np.int64]:
    """Return label counts of clients of which some have many times the samples of others."""
    sizes = generator(1, "sizes").choice([1, 2, 10], num_clients)
    return np.asarray(skewed_counts(num_clients) * sizes[:, None])


@pytest.mark.parametrize("simulation", ["plain", "encrypted"])
@pytest.mark.parametrize(
    ("counts", "given"),
    [
        (skewed_counts(60), {}),
        (skewed_counts(60), {"tries": 3, "group_size": 4}),
        (skewed_counts(80, 10), {"rule": Prices(0.1, 1.0), "tries": 4}),
        (unequal_counts(60), {"rule": Prices(1.0, 0.5, TARGET), "equal_weights": False}),
        (skewed_counts(26), {}),
        (skewed_counts(12), {"num_participants": 4}),
        (np.tile([5, 3, 2, 0], (40, 1)), {}),
        (skewed_counts(30), {"num_participants": 30}),
    ],
    ids=[
        "tries",
        "groups",
        "ten classes",
        "unequal",
        "one sum",
        "no sum",
        "all alike",
        "all wanted",
    ],
)
def test_the_sets_are_those_of_plain_numbers(
    counts: NDArray[np.int64], given: dict[str, Any], simulation: str
) -> None:
    """Bit for bit over three rounds, the last of which begins an epoch with known prices."""
    settings: dict[str, Any] = {
        "rule": Prices(),
        "num_participants": 8,
        "tries": 10,
        "simulation": simulation,
        "registration_interval": 2,
    }
    settings |= given
    nodes, rows = dubhe(counts, **settings), counts.tolist()
    kept: list[float] = []
    for server_round in (1, 2, 3):
        plan = nodes.play(server_round)
        assert nodes.errors == []
        first_round = 2 * ((server_round - 1) // 2) + 1
        place = joined(nodes, nodes.ids[0])
        announced = encode(place.announced)
        if server_round == first_round:
            seed, sequence = nodes.state.run.seed, joined(nodes, nodes.ids[0]).sequence
            found, kept, num_sums = reference_prices.epoch(announced, rows, seed, sequence, kept)
        readings = [registered(nodes, node_id).reading for node_id in nodes.ids]
        assert [reading and reading.probability for reading in readings] == pytest.approx(found)
        assert {reading and reading.left for reading in readings} == {tuple(kept)}
        assert nodes.state.epoch is not None
        assert nodes.state.epoch.last_sum.exchange == max(0, num_sums - 1)
        plain = reference.plain_round(
            announced,
            rows,
            found,
            settings["tries"],
            seed=nodes.state.run.seed,
            server_round=server_round,
            first_round=first_round,
        )
        assert list(map(int, plan.aliases)) == plain.chosen
        assert list(plan.chosen) == plain.best


def test_both_go_back_to_the_first_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all remember leads away from it; with the guess alone it takes as many sums, but one."""
    usual, counts = Membership.left_to, skewed_counts(60)
    monkeypatch.setattr(Membership, "left_to", lambda *of: tuple(9 * price for price in usual(*of)))
    settings: dict[str, Any] = {"tries": 10, "registration_interval": 1}
    nodes = dubhe(counts, rule=Prices(), num_participants=8, simulation="plain", **settings)
    kept, lengths = list[float](), []
    for server_round in (1, 2):
        nodes.play(server_round)
        announced = encode(joined(nodes, nodes.ids[0]).announced)
        seed, sequence = nodes.state.run.seed, joined(nodes, nodes.ids[0]).sequence
        kept = [9 * price for price in kept]
        found, kept, num_sums = reference_prices.epoch(
            announced, counts.tolist(), seed, sequence, kept
        )
        readings = [registered(nodes, node_id).reading for node_id in nodes.ids]
        assert [reading and reading.probability for reading in readings] == pytest.approx(found)
        lengths.append(num_sums)
    assert lengths[1] == lengths[0] + 1
