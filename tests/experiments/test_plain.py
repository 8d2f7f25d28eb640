"""In the clear, Dubhe selects the same clients as under encryption."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import node_policies

from dubhe_flwr.core import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.experiments.plain import plain_rounds
from dubhe_flwr.experiments.settings import RULES
from dubhe_flwr.experiments.study import rounds_in_memory
from dubhe_flwr.protocol import Coordinator, Settings

OPTIONS: dict[str, Any] = {
    **RULES["paper"],
    "num_participants": 6,
    "reference_set": (1, 2, 5),
    "thresholds": {1: 0.7, 2: 0.2},
    "tries": 5,
    "group_size": 3,
    "registration_interval": 3,
    "key_bits": 512,
    "max_clients": 60,
}
GROUPED = {"determination": "grouped"}
FEW = {**GROUPED, "registration_interval": 50}
NUM_ROUNDS = 7


def skewed(num_clients: int, seed: int) -> NDArray[np.int64]:
    """Return label counts of clients with few classes each, of which the first is common."""
    rng = generator(seed, "counts")
    shares = rng.dirichlet([1.0, 0.5, 0.3, 0.2, 0.1], size=num_clients)
    return np.asarray(rng.multinomial(40, shares), dtype=np.int64)


def plain(settings: Settings, counts: NDArray[np.int64], num_rounds: int) -> list[tuple[int, ...]]:
    """Return who is selected in the clear."""
    return [tuple(rows.tolist()) for rows in islice(plain_rounds(settings, counts), num_rounds)]


def encrypted(
    settings: Settings, counts: NDArray[np.int64], num_rounds: int
) -> tuple[list[tuple[int, ...]], int]:
    """Return who is selected by the protocol, and the number of registrations it took."""
    rounds = rounds_in_memory(Coordinator(settings), node_policies(counts))
    plans = list(islice(rounds, num_rounds))
    for plan in plans:
        assert plan.notes == ()
        assert all(stage.dropped == {} for stage in plan.stages)
    return [plan.participants for plan in plans], len({plan.epoch for plan in plans})


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    "given",
    [{"determination": "tries"}, {"determination": "tries", "tries": 1}, GROUPED],
    ids=["tries", "one try", "grouped"],
)
def test_the_sets_are_those_under_encryption(given: dict[str, Any], seed: int) -> None:
    """Whatever the agent chooses from, over three epochs."""
    settings = Settings(**{**OPTIONS, **given}, seed=seed)
    counts = skewed(40, seed)
    sets, num_epochs = encrypted(settings, counts, NUM_ROUNDS)
    assert plain(settings, counts, NUM_ROUNDS) == sets
    assert num_epochs == 3
    assert len(set(sets)) > 1


@pytest.mark.parametrize(
    ("given", "num_clients", "num_epochs"),
    [
        # An agent of seven decrypts three sums: three tries, a round each, seven rounds.
        ({"registration_interval": 12, "num_participants": 4}, 7, 3),
        ({"registration_interval": 50, "max_sums_per_epoch": 5}, 12, 2),
        ({**FEW, "num_participants": 3, "max_sums_per_epoch": 2}, 14, 2),
        ({"rounds_per_draw": 2}, 40, 6),
        ({**GROUPED, "rounds_per_draw": 2}, 40, 6),
        # Nobody to leave out as agent, so that nothing is determined and no agent is spent.
        ({"registration_interval": 12}, 6, 2),
        ({**GROUPED, "registration_interval": 12}, 6, 2),
        # Groups of two sizes, and an agent with fewer sums than there could be groups.
        ({**GROUPED, "num_participants": 11, "max_sums_per_epoch": 4}, 50, 6),
    ],
)
def test_the_limits_of_the_protocol_hold_in_the_clear(
    given: dict[str, Any], num_clients: int, num_epochs: int
) -> None:
    """Agents decrypt as many sums and nodes register as often as they do under encryption."""
    settings = Settings(**{**OPTIONS, **given}, seed=3)
    counts = skewed(num_clients, 3)
    sets, epochs = encrypted(settings, counts, 16)
    assert plain(settings, counts, 16) == sets
    assert epochs == num_epochs


@pytest.mark.parametrize(
    ("seed", "num_clients", "sentence"),
    [(None, 40, "seed=None .* give a seed"), (0, 5, "num_participants=6 is above the 5 clients")],
)
def test_what_cannot_be_repeated_is_refused(
    seed: int | None, num_clients: int, sentence: str
) -> None:
    """Private draws are for nodes, and there have to be as many as train."""
    with pytest.raises(SettingsError, match=sentence):
        next(plain_rounds(Settings(**OPTIONS, seed=seed), skewed(num_clients, 0)))


@pytest.mark.parametrize("determination", ["tries", "grouped", "auto"])
@pytest.mark.parametrize("num_clients", [30, 6])
def test_a_search_finds_the_same_thresholds(num_clients: int, determination: str) -> None:
    """So that the sets are the same, in the epoch that searches and in those that follow."""
    searched = {"reference_set": (1, 5), "thresholds": "search", "registration_interval": 2}
    settings = Settings(**OPTIONS | searched | {"determination": determination}, seed=5)
    counts = skewed(num_clients, 5)
    sets, num_epochs = encrypted(settings, counts, 4)
    assert plain(settings, counts, 4) == sets
    assert num_epochs == 2
