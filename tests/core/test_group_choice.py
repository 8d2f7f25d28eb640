"""Tests of the score of selections and of the search for the best groups."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import group_choice
from dubhe_flwr.core.determination import cut_into_groups, group_sizes
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE, fixed_point_distribution, with_square
from dubhe_flwr.core.group_choice import best_groups, scores_of
from dubhe_flwr.errors import SettingsError


def skewed_clients(num_clients: int, num_classes: int, seed: int) -> NDArray[np.int64]:
    """Return each client's p_l in fixed point, followed by its squared norm."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(64, rng.dirichlet(np.full(num_classes, 0.3), num_clients))
    distributions = counts * (FIXED_POINT_SCALE // 64)
    squares = (distributions**2).sum(axis=1) // FIXED_POINT_SCALE
    return np.column_stack([distributions, squares])


def grouped_sums(
    clients: NDArray[np.int64], num_participants: int, group_size: int, seed: int
) -> tuple[NDArray[np.int64], list[int]]:
    """Return the sums of random groups of the clients and their sizes."""
    groups = cut_into_groups(
        np.arange(len(clients)), num_participants, group_size, 250, np.random.default_rng(seed)
    )
    return np.array([clients[group].sum(axis=0) for group in groups]), [len(g) for g in groups]


def score(sums: NDArray[np.int64], chosen: tuple[int, ...] | list[int], local_skew: float) -> float:
    """Return the score of some groups taken together."""
    return float(scores_of([sums[list(chosen)].sum(axis=0)], local_skew)[0])


@given(
    st.lists(st.sampled_from([0.25, 0.5, 1.0, 4.0]), min_size=2, max_size=6),
    *(st.integers(0, most) for most in (16, 999)),
)
def test_clients_count_by_their_weight(weights: list[float], eighths: int, seed: int) -> None:
    """With unequal clients and a target, the definition's means are weighted."""
    target = np.array([0.4, 0.3, 0.2, 0.1])
    shares = np.random.default_rng(seed).dirichlet(np.full(4, 0.3), len(weights))
    integers = [
        with_square(fixed_point_distribution(row * 2**40, round(FIXED_POINT_SCALE * weight / 4)))
        for row, weight in zip(shares, weights, strict=True)
    ]
    distance = np.abs(np.average(shares - target, axis=0, weights=weights)).sum()
    local = np.average(((shares - target) ** 2).sum(axis=1), weights=weights)
    (found,) = scores_of([np.sum(integers, axis=0)], eighths / 8, target)
    assert found == pytest.approx(distance + eighths / 8 * local, abs=2e-4)


def test_local_skew_costs_nothing_unless_it_has_a_price() -> None:
    """Without a price, the first of two equally uniform sums wins, whatever their local skew."""
    one_class_each = FIXED_POINT_SCALE * np.array([[1, 1, 2], [1, 1, 1]])
    assert [np.argmin(scores_of(one_class_each, price)) for price in (0.0, 0.001)] != [0, 0]
    assert np.argmin(scores_of(one_class_each)) == 0
    assert best_groups(one_class_each, [2, 2], [2]).tolist() == [0]


@st.composite
def distribution_sums(draw: st.DrawFn) -> list[list[int]]:
    """Draw the summed distributions of some tries, with equal totals and many exact ties."""
    num_classes = draw(st.integers(2, 12))
    total = draw(st.integers(1, 10)) * draw(st.sampled_from([1, 6, FIXED_POINT_SCALE]))
    cuts = st.lists(st.integers(0, total), min_size=num_classes - 1, max_size=num_classes - 1)
    tries = draw(st.lists(cuts, min_size=1, max_size=8))
    sums = [np.diff([0, *sorted(points), total]).tolist() for points in tries]
    return [*sums, *(sums[index][::-1] for index in draw(st.sets(st.integers(0, len(sums) - 1))))]


def without_squares(sums: ArrayLike) -> NDArray[np.int64]:
    """Append a column of squared norms; they do not count without a price of local skew."""
    rows = np.asarray(sums)
    return np.column_stack([rows, np.zeros(len(rows), dtype=rows.dtype)])


@given(sums=distribution_sums())
def test_scores_are_exact_distances(sums: list[list[int]]) -> None:
    """Without a price of local skew a score is ||p_o - p_u||_1, correctly rounded."""
    total, num_classes = sum(sums[0]), len(sums[0])
    exact = [
        sum(abs(Fraction(count, total) - Fraction(1, num_classes)) for count in attempt)
        for attempt in sums
    ]
    assert scores_of(without_squares(sums)).tolist() == list(map(float, exact))
    assert np.argmin(scores_of(without_squares(sums))) == exact.index(min(exact))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_do_not_overflow(dtype: type[np.integer]) -> None:
    """A million clients that all hold the same class of 62 score exactly the largest distance."""
    total, num_classes = 10**6 * FIXED_POINT_SCALE, 62
    sums = np.zeros((2, num_classes), dtype=dtype)
    sums[0, 0] = total
    sums[1, :2] = total // 2
    farthest = [2 * 61 / 62, 2 * 60 / 62]
    assert scores_of(without_squares(sums)).tolist() == farthest
    assert np.argmin(scores_of(without_squares(sums))) == 1


@given(
    st.integers(3, 12),
    st.integers(0, 12),
    st.sampled_from([0, 0.5]),
    st.integers(0, 999),
    st.data(),
)
def test_few_combinations_are_all_compared(
    num_participants: int, extra: int, local_skew: float, seed: int, data: st.DataObject
) -> None:
    """The chosen groups have K clients in all, and no other choice scores lower."""
    group_size = data.draw(st.integers(2, num_participants))
    wanted = group_sizes(num_participants, group_size)
    clients = skewed_clients(num_participants + extra, 4, seed)
    sums, sizes = grouped_sums(clients, num_participants, group_size, seed)
    chosen = best_groups(sums, sizes, wanted, local_skew).tolist()
    assert chosen == sorted(set(chosen))
    assert sorted(sizes[index] for index in chosen) == wanted.tolist()
    candidates = [
        groups
        for groups in combinations(range(len(sizes)), len(wanted))
        if sorted(sizes[index] for index in groups) == wanted.tolist()
    ]
    assert score(sums, chosen, local_skew) == min(
        score(sums, groups, local_skew) for groups in candidates
    )


@pytest.mark.parametrize("local_skew", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_search_finds_the_best_of_many_combinations(local_skew: float, seed: int) -> None:
    """The search finds a best one of 66,045 combinations, too many to compare."""
    sums, sizes = grouped_sums(skewed_clients(37 * 4, 10, seed), 16, 4, seed)
    assert len(sizes) == 37
    every = np.array(list(combinations(range(37), 4)))
    totals = np.sum([sums[column] for column in every.T], axis=0)
    chosen = best_groups(sums, sizes, [4, 4, 4, 4], local_skew).tolist()
    assert score(sums, chosen, local_skew) == scores_of(totals, local_skew).min()


@pytest.mark.parametrize("effort", [1, group_choice._SEARCH_EFFORT])
@pytest.mark.parametrize(
    ("num_clients", "num_classes", "wanted", "local_skew"),
    [
        pytest.param(400, 10, group_sizes(20, 3), 0.5, id="two sizes"),
        pytest.param(300, 10, group_sizes(16, 3), 0.5, id="a size that is wanted once"),
        pytest.param(500, 10, group_sizes(100, 4), 0.0, id="K=100"),
        pytest.param(500, 10, group_sizes(100, 4), 0.5, id="K=100 with a price"),
        pytest.param(600, 52, group_sizes(40, 8), 0.0, id="many classes"),
    ],
)
def test_no_exchange_improves_what_the_search_found(
    monkeypatch: pytest.MonkeyPatch,
    num_clients: int,
    num_classes: int,
    wanted: NDArray[np.int64],
    local_skew: float,
    *,
    effort: int,
) -> None:
    """The result is a local optimum, from one start or many, and repeats."""
    monkeypatch.setattr(group_choice, "_SEARCH_EFFORT", effort)
    clients = skewed_clients(num_clients, num_classes, seed=5)
    sums, sizes = grouped_sums(clients, int(wanted.sum()), int(wanted.min()), seed=5)
    chosen = best_groups(sums, sizes, wanted, local_skew).tolist()
    assert chosen == sorted(set(chosen))
    assert sorted(sizes[index] for index in chosen) == wanted.tolist()
    reached = score(sums, chosen, local_skew)
    for leaves in chosen:
        joins = np.setdiff1d(np.flatnonzero(np.array(sizes) == sizes[leaves]), chosen)
        exchanged = sums[chosen].sum(axis=0) - sums[leaves] + sums[joins]
        assert np.all(scores_of(exchanged, local_skew) >= reached)
    assert best_groups(sums, sizes, wanted, local_skew).tolist() == chosen


@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_all_batches_is_taken(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch size changes the memory in use, not the result."""
    sums, sizes = grouped_sums(skewed_clients(160, 10, seed), 20, 4, seed)
    whole = best_groups(sums, sizes, [4] * 5)
    monkeypatch.setattr(group_choice, "_BATCH_ELEMENTS", 10_000)
    assert best_groups(sums, sizes, [4] * 5).tolist() == whole.tolist()


@pytest.mark.parametrize("num_groups", [5, 60])
def test_identical_clients_and_empty_classes(num_groups: int) -> None:
    """If all groups are identical, the right number of them is still chosen."""
    sums = np.tile([3 * FIXED_POINT_SCALE, 0, 0, 3 * FIXED_POINT_SCALE], (num_groups, 1))
    chosen = best_groups(sums, [3] * num_groups, [3, 3, 3, 3])
    assert len(set(chosen.tolist())) == 4
    assert chosen.max() < num_groups


@pytest.mark.parametrize("num_groups", [8, 60])
def test_groups_of_other_sizes_are_left_out(num_groups: int) -> None:
    """Groups of a size that is not wanted change nothing, however good they are."""
    sums, sizes = grouped_sums(skewed_clients(4 * num_groups, 10, seed=3), 20, 4, seed=3)
    alone = best_groups(sums, sizes, [4] * 5)
    others = np.tile([5 * FIXED_POINT_SCALE // 10] * 10 + [FIXED_POINT_SCALE // 2], (3, 1))
    mixed = best_groups(np.concatenate([others, sums, others]), [5] * 3 + sizes + [5] * 3, [4] * 5)
    assert mixed.tolist() == (alone + 3).tolist()


def test_too_few_groups_are_refused() -> None:
    """Choosing more groups of a size than were formed is an error."""
    with pytest.raises(SettingsError, match="1 groups of 4 clients"):
        best_groups([[3, 0, 3], [4, 0, 4]], [3, 4], [4, 4])


@pytest.mark.parametrize("local_skew", [-0.1, float("nan"), 1001.0])
def test_price_out_of_range_is_refused(local_skew: float) -> None:
    """A price is at least 0 and small enough for exact integers."""
    with pytest.raises(SettingsError, match="local_skew"):
        scores_of([[1, 1, 2]], local_skew)
