"""Tests of how a round's volunteers are cut into tries and groups."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dubhe_flwr.core.determination import fill_or_trim
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.determination import Groups, Tries, Volunteers

Mask = NDArray[np.bool_]


@pytest.fixture
def decisions() -> Mask:
    """Return decisions of 40 clients in 6 tries, some above and some below K volunteers."""
    decisions = np.random.default_rng(1).random((40, 6)) < 0.125
    assert decisions.sum(axis=0).min() < 5 < decisions.sum(axis=0).max()
    return decisions


ALL = np.ones(40, dtype=bool)


def test_each_try_stands_alone(decisions: Mask) -> None:
    """A try depends on its own decisions, seed, round and index, not on other tries or rounds."""

    def tries_of(decisions: Mask) -> list[list[int]]:
        return [chosen.tolist() for chosen in Volunteers(decisions, ALL, 5, 0, 7, 3).tries()]

    tries = tries_of(decisions)
    alone = [
        fill_or_trim(decisions[:, index], ALL, 5, generator(7, "fill-or-trim", 3, index)).tolist()
        for index in range(6)
    ]
    assert tries == alone
    others = decisions.copy()
    others[:, 1:] = ~others[:, 1:]
    assert tries_of(others)[0] == tries[0]
    assert tries_of(decisions[:, :4]) == tries[:4]


@pytest.mark.parametrize("number", [0, -1, 2.0, True, 2**31])
def test_a_number_that_cannot_work_is_refused(number: Any) -> None:
    """The error names the class, the number and its value."""
    for make, name in ((Tries, "number"), (Groups, "size")):
        sentence = rf"{make.__name__}\({name}={number!r}\) must be a whole number from 1 up"
        with pytest.raises(SettingsError, match=sentence):
            make(number)


@given(
    num_clients=st.integers(10, 30),
    num_participants=st.integers(1, 10),
    density=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 2**32),
)
def test_pool_holds_all_who_volunteered(
    num_clients: int, num_participants: int, density: float, seed: int
) -> None:
    """The pool has all eligible volunteers, and other clients only to reach K."""
    rng = np.random.default_rng(seed)
    decisions = rng.random((num_clients, 1)) < density
    eligible = rng.random(num_clients) < 0.8
    eligible[:num_participants] = True
    drawn = Volunteers(decisions, eligible, num_participants, 1, seed, 1)
    pool = np.concatenate(Groups(1).cut(drawn, num_clients)).tolist()
    volunteers = np.flatnonzero(decisions[:, 0] & eligible)
    assert len(set(pool)) == len(pool) == max(volunteers.size, num_participants)
    assert eligible[pool].all()
    assert set(volunteers.tolist()) <= set(pool)
