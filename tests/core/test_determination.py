"""Tests of the filling and cutting of tries and of the choice among them."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chisquare

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    best_scored_try,
    distance_to_uniform,
    fill_or_trim,
    generator,
    scaled_scores,
    tries_of_round,
)

Mask = NDArray[np.bool_]


def mask(*clients: int, size: int) -> Mask:
    """Return which of the first clients are listed."""
    return np.isin(np.arange(size), clients)


@given(
    clients=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30),
    num_participants=st.integers(1, 35),
    seed=st.integers(0, 2**32),
)
def test_every_try_has_exactly_k_clients(
    clients: list[tuple[bool, bool]], num_participants: int, seed: int
) -> None:
    """K distinct eligible clients, all volunteers before any other, or as many as there are."""
    volunteers, eligible = np.array(clients).T
    chosen = fill_or_trim(volunteers, eligible, num_participants, np.random.default_rng(seed))
    assert chosen.dtype == np.int64
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert eligible[chosen].all()
    assert chosen.size == min(num_participants, eligible.sum())
    num_willing = int((volunteers & eligible).sum())
    assert volunteers[chosen].sum() == min(num_participants, num_willing)


@pytest.mark.parametrize(
    ("volunteers", "kept", "pool", "picked"),
    [
        pytest.param((0, 2, 3, 5, 6), (), (0, 2, 3, 5, 6), 3, id="cut"),
        pytest.param((1,), (1,), (0, 2, 3, 5, 6), 2, id="fill"),
    ],
)
def test_cutting_and_filling_are_uniform(
    volunteers: tuple[int, ...], kept: tuple[int, ...], pool: tuple[int, ...], picked: int
) -> None:
    """Each possible set is as likely as any other (section 5.2): chi-square, p > 1e-4.

    Client 4 is not eligible, client 7 volunteers without being so.
    """
    possible = [tuple(sorted(kept + some)) for some in combinations(pool, picked)]
    eligible = ~mask(4, 7, size=8)
    rng = np.random.default_rng(3)
    occurrences = dict.fromkeys(possible, 0)
    for _ in range(4000):
        chosen = fill_or_trim(mask(*volunteers, 7, size=8), eligible, 3, rng)
        occurrences[tuple(chosen.tolist())] += 1
    assert chisquare(list(occurrences.values())).pvalue > 1e-4


@given(
    yes=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    num_participants=st.integers(1, 35),
    seed=st.integers(0, 2**32),
)
def test_who_said_yes_elsewhere_is_drafted_first(
    yes: list[int], num_participants: int, seed: int
) -> None:
    """Others are drafted only once all volunteers of any try are there."""
    num_yes = np.array(yes)
    volunteers = num_yes == 3
    everyone = np.ones(len(yes), dtype=bool)
    rng = np.random.default_rng(seed)
    chosen = fill_or_trim(volunteers, everyone, num_participants, rng, num_yes)
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert chosen.size == min(num_participants, len(yes))
    for group in (volunteers, num_yes > 0):
        assert group[chosen].sum() == min(num_participants, int(group.sum()))


def test_drafting_follows_the_number_of_yes() -> None:
    """One of three is drafted in proportion to its yes in other tries: chi-square, p > 1e-4."""
    num_yes = np.array([1, 2, 5, 0, 9])
    eligible, rng = ~mask(4, size=5), np.random.default_rng(3)
    drafted = np.zeros(5, dtype=np.int64)
    for _ in range(4000):
        drafted[fill_or_trim(mask(size=5), eligible, 1, rng, num_yes)] += 1
    assert drafted[3] == drafted[4] == 0
    assert chisquare(drafted[:3], 4000 * num_yes[:3] / 8).pvalue > 1e-4


def test_exactly_k_volunteers_stay_as_they_are() -> None:
    """Where nothing is cut or filled, chance plays no part."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        chosen = fill_or_trim(mask(1, 4, size=6), np.ones(6, dtype=bool), 2, rng)
        assert chosen.tolist() == [1, 4]


@pytest.fixture
def decisions() -> Mask:
    """Return decisions of 40 clients in 6 tries, some with more and some with fewer than K yes."""
    decisions = np.random.default_rng(1).random((40, 6)) < 0.125
    assert decisions.sum(axis=0).min() < 5 < decisions.sum(axis=0).max()
    return decisions


ALL = np.ones(40, dtype=bool)


def as_lists(tries: list[NDArray[np.int64]]) -> list[list[int]]:
    """Return the clients of each try."""
    return [chosen.tolist() for chosen in tries]


def test_tries_repeat(decisions: Mask) -> None:
    """The same seed and round give the same tries; another seed or round gives others."""
    tries = as_lists(tries_of_round(decisions, ALL, 5, 7, 1))
    assert tries == as_lists(tries_of_round(decisions, ALL, 5, 7, 1))
    assert tries != as_lists(tries_of_round(decisions, ALL, 5, 8, 1))
    assert tries != as_lists(tries_of_round(decisions, ALL, 5, 7, 2))


def test_each_try_stands_alone(decisions: Mask) -> None:
    """A try depends on its own decisions, seed, round and index, not on other tries or rounds."""
    tries = as_lists(tries_of_round(decisions, ALL, 5, 7, 3))
    alone = [
        fill_or_trim(decisions[:, index], ALL, 5, generator(7, "fill-or-trim", 3, index)).tolist()
        for index in range(6)
    ]
    assert tries == alone
    others = decisions.copy()
    others[:, 1:] = ~others[:, 1:]
    assert as_lists(tries_of_round(others, ALL, 5, 7, 3))[0] == tries[0]
    assert as_lists(tries_of_round(decisions[:, :4], ALL, 5, 7, 3)) == tries[:4]


def test_a_try_may_be_filled_from_the_others(decisions: Mask) -> None:
    """Drafting by yes, every try holds volunteers of the round only, as long as they suffice."""
    some_yes = decisions.sum(axis=1) > 0
    by_chance = tries_of_round(decisions, ALL, 5, 7, 3)
    by_yes = tries_of_round(decisions, ALL, 5, 7, 3, draft_by_yes=True)
    assert not all(some_yes[chosen].all() for chosen in by_chance)
    assert all(some_yes[chosen].all() for chosen in by_yes)
    assert [len(chosen) for chosen in by_yes] == [5] * 6


def test_tries_leave_out_who_is_not_eligible(decisions: Mask) -> None:
    """No try of a round holds a client that is not eligible, and each has K all the same."""
    eligible = ~mask(*range(0, 40, 3), size=40)
    for chosen in tries_of_round(decisions, eligible, 5, 7, 1):
        assert chosen.size == 5
        assert eligible[chosen].all()


def test_tries_and_rounds_are_independent() -> None:
    """Two tries of a round, filled from nothing, are any pair equally often over 2000 rounds.

    Chi-square over the 25 pairs of one of five clients each, p > 1e-4.
    """
    nobody, everybody = np.zeros((5, 2), dtype=bool), np.ones(5, dtype=bool)
    pairs = np.zeros((5, 5), dtype=np.int64)
    for server_round in range(2000):
        first, second = tries_of_round(nobody, everybody, 1, 7, server_round)
        pairs[first, second] += 1
    assert chisquare(pairs.ravel()).pvalue > 1e-4


@st.composite
def distribution_sums(draw: st.DrawFn) -> list[list[int]]:
    """Draw the summed distributions of some tries, of one total, with many exact ties."""
    num_classes = draw(st.integers(2, 12))
    total = draw(st.integers(1, 10)) * draw(st.sampled_from([1, 6, FIXED_POINT_SCALE]))
    cuts = st.lists(st.integers(0, total), min_size=num_classes - 1, max_size=num_classes - 1)
    tries = draw(st.lists(cuts, min_size=1, max_size=8))
    sums = [np.diff([0, *sorted(points), total]).tolist() for points in tries]
    return [*sums, *(sums[index][::-1] for index in draw(st.sets(st.integers(0, len(sums) - 1))))]


def without_squares(sums: ArrayLike) -> NDArray[np.int64]:
    """Append a column of squared norms, which do not count without a price of local skew."""
    rows = np.asarray(sums)
    return np.column_stack([rows, np.zeros(len(rows), dtype=rows.dtype)])


@given(sums=distribution_sums())
def test_scores_are_exact_distances(sums: list[list[int]]) -> None:
    """Without a price of local skew a score is ||p_o - p_u||_1, times C and the total."""
    total, num_classes = sum(sums[0]), len(sums[0])
    exact = [
        sum(abs(Fraction(count, total) - Fraction(1, num_classes)) for count in attempt)
        for attempt in sums
    ]
    scaled = scaled_scores(without_squares(sums))
    assert scaled.dtype == np.int64
    assert scaled.tolist() == [num_classes * total * distance for distance in exact]
    assert best_scored_try(without_squares(sums)) == exact.index(min(exact))


@given(sums=distribution_sums())
def test_best_try_is_that_of_the_float_definition(sums: list[list[int]]) -> None:
    """No try is nearer to uniform by the definition in floats, but for their rounding."""
    distances = [distance_to_uniform(np.array(attempt) / sum(attempt)) for attempt in sums]
    assert distances[best_scored_try(without_squares(sums))] == pytest.approx(
        min(distances), abs=1e-12
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([9, 1, 2], [1, 2, 9]),
        ([2, 6, 2, 5, 5], [6, 5, 2, 5, 2]),
        ([3, 4, 2, 1, 2, 1, 3, 0, 2, 2], [1, 1, 4, 2, 3, 2, 2, 0, 3, 2]),
    ],
)
def test_first_of_equal_tries_is_best(first: list[int], second: list[int]) -> None:
    """Equally distant tries are equal, although their distances in floats differ in the last bit.

    On another platform, which sums in another order, floats would choose another try.
    """
    in_floats = [distance_to_uniform(np.array(sums) / sum(sums)) for sums in (first, second)]
    assert in_floats[0] != in_floats[1]
    assert len(set(scaled_scores(without_squares([first, second])).tolist())) == 1
    assert (
        best_scored_try(without_squares([first, second]))
        == best_scored_try(without_squares([second, first]))
        == 0
    )


def test_best_try_is_an_index() -> None:
    """The best try is a Python int, as messages carry it."""
    assert type(best_scored_try([[2, 0, 0], [1, 1, 0]])) is int
    assert best_scored_try([[2, 0, 0], [1, 1, 0]]) == 1


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_do_not_overflow(dtype: type[np.integer]) -> None:
    """A sum over a million clients of one class, of 62, has the largest distance, exactly."""
    total, num_classes = 10**6 * FIXED_POINT_SCALE, 62
    sums = np.zeros((2, num_classes), dtype=dtype)
    sums[0, 0] = total
    sums[1, :2] = total // 2
    farthest = 2 * (num_classes - 1) * total
    assert scaled_scores(without_squares(sums)).tolist() == [farthest, farthest - 2 * total]
    assert best_scored_try(without_squares(sums)) == 1
