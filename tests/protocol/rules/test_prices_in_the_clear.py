"""Prices choose the same clients whether numbers are added in the clear or encrypted."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import dubhe, epoch_of, registered, skewed_counts

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.rules import Prices

TARGET = (0.4, 0.3, 0.2, 0.1)


def unequal_counts(num_clients: int) -> NDArray[np.int64]:
    """Return label counts of clients of which some have many times the samples of others."""
    sizes = generator(1, "sizes").choice([1, 2, 10], num_clients)
    return np.asarray(skewed_counts(num_clients) * sizes[:, None])


@pytest.mark.parametrize(
    ("counts", "given"),
    [
        pytest.param(skewed_counts(60), {}, id="tries"),
        pytest.param(
            skewed_counts(60),
            {"determination": "grouped", "tries": 3, "group_size": 4, "num_participants": 8},
            id="groups",
        ),
        pytest.param(skewed_counts(80, 10), {"rule": Prices(0.1, 1.0)}, id="ten classes"),
        pytest.param(
            unequal_counts(60),
            {"rule": Prices(1.0, 0.5, TARGET), "equal_weights": False},
            id="unequal",
        ),
        pytest.param(skewed_counts(60), {"rule": Prices(noise=0.0)}, id="no noise"),
        pytest.param(skewed_counts(12), {"num_participants": 4}, id="no prices"),
        pytest.param(np.tile([5, 3, 2, 0], (40, 1)), {}, id="all alike"),
        pytest.param(skewed_counts(30), {"num_participants": 30}, id="all wanted"),
    ],
)
def test_the_sets_are_those_of_plain_numbers(
    counts: NDArray[np.int64], given: dict[str, Any]
) -> None:
    """Bit for bit over three rounds, the last of which begins another period."""
    outcomes = []
    for simulation in ("plain", "encrypted"):
        settings: dict[str, Any] = {
            "rule": Prices(),
            "num_participants": 15,
            "tries": 4,
            "simulation": simulation,
            "registration_interval": 2,
        }
        nodes, found = dubhe(counts, **settings | given), []
        for server_round in (1, 2, 3):
            plan = nodes.play(server_round)
            assert nodes.errors == []
            readings = [registered(nodes, node_id).reading for node_id in nodes.ids]
            exchange = epoch_of(nodes).last_sum.exchange
            found.append(
                (plan.aliases, plan.chosen, exchange, [one and one.probability for one in readings])
            )
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]
