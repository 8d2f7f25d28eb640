"""Tests of the moments and of the convex programme of calibrated participation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    Codebook,
    calibrated_probability,
    fixed_point_distribution,
    moments,
    overall_registry,
    participation_probability,
)
from dubhe_flwr.errors import SettingsError

CODEBOOK = Codebook((1, 2, 4))
THRESHOLDS = {1: 0.7, 2: 0.2}


def federation(
    num_clients: int, seed: int, empty_class: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return fixed-point distributions, slots, overall registry and moment sums."""
    rng = np.random.default_rng(seed)
    concentration = np.array([1.6, 0.8, 0.4, 0.2])
    shares = rng.dirichlet(concentration, size=num_clients)
    counts = np.array([rng.multinomial(64, share) for share in shares])
    if empty_class:
        counts[:, 0] += counts[:, 3]
        counts[:, 3] = 0
    overall, slots = overall_registry(counts, CODEBOOK, THRESHOLDS)
    distributions = np.array([fixed_point_distribution(row) for row in counts])
    sums = np.sum(
        [
            moments(row, int(slot), overall, CODEBOOK, 3)
            for row, slot in zip(distributions, slots, strict=True)
        ],
        axis=0,
    )
    return distributions, slots, overall, sums


def slopes(
    probability: NDArray[np.float64],
    overall: NDArray[np.int64],
    sums: NDArray[np.int64],
    num_participants: int,
    *,
    num_volunteers: int,
    coverage: float,
) -> NDArray[np.float64]:
    """Return the derivative of the documented objective by the weight of each filled category."""
    filled = overall > 0
    members = overall[filled]
    table = sums[filled] / FIXED_POINT_SCALE / members[:, None]
    means, squares = table[:, :-1], table[:, -1]
    weights = probability[filled] * members / num_volunteers
    population = weights @ means
    bias = 2 * num_participants * means @ (population - 1 / means.shape[1])
    variance = squares - 2 * means @ population
    return np.asarray(bias + variance + 2 * coverage * num_volunteers * weights / members)


@given(
    num_clients=st.integers(5, 60),
    wanted=st.tuples(st.integers(1, 20), st.integers(1, 5)),
    coverage=st.sampled_from([0.0, 0.3, 1.0, 10.0]),
    floor=st.sampled_from([0.0, 0.1, 0.9]),
    seed=st.integers(0, 1000),
)
def test_probabilities_are_feasible_and_optimal(
    num_clients: int, wanted: tuple[int, int], coverage: float, floor: float, seed: int
) -> None:
    """Within the bounds, V volunteers in all, and no shift of weight lowers the objective.

    The programme is convex: it is solved if the objective slope off no faster by any weight that
    can be raised than by any that can be lowered (Karush-Kuhn-Tucker).
    """
    _, _, overall, sums = federation(num_clients, seed, empty_class=seed % 3 == 0)
    num_participants, volunteers = wanted[0], wanted[0] * wanted[1]
    probability = calibrated_probability(
        overall,
        sums,
        num_participants,
        num_volunteers=volunteers,
        coverage=coverage,
        floor=floor,
    )
    filled = overall > 0
    uniform = min(1.0, volunteers / num_clients)
    lowest, highest = floor * uniform, 1 - floor * (1 - uniform)
    assert np.all(probability[~filled] == 0)
    assert np.all(probability[filled] >= lowest - 1e-12)
    assert np.all(probability[filled] <= min(1.0, highest + 1e-12))
    assert probability @ overall == pytest.approx(min(volunteers, num_clients))
    if volunteers < num_clients:
        slope = slopes(
            probability,
            overall,
            sums,
            num_participants,
            num_volunteers=volunteers,
            coverage=coverage,
        )
        can_fall, can_rise = (
            slope[probability[filled] > lowest + 1e-4],
            slope[probability[filled] < highest - 1e-4],
        )
        if can_fall.size and can_rise.size:
            assert can_fall.max() <= can_rise.min() + 1e-3


@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_two_categories_agree_with_a_fine_grid(coverage: float) -> None:
    """With one free weight the result is the best point of a grid over it."""
    overall = np.array([30, 10, 0])
    first, second = np.array([0.9, 0.1, 0.82]), np.array([0.1, 0.9, 0.82])
    sums = np.rint(FIXED_POINT_SCALE * np.array([30 * first, 10 * second, 0 * first]))
    weight = np.linspace(0, 1, 100_001)[:, None]
    population = weight * first + (1 - weight) * second
    bias = ((population[:, :2] - 0.5) ** 2).sum(axis=1)
    variance = population[:, 2] - (population[:, :2] ** 2).sum(axis=1)
    overlap = (weight**2 / 30 + (1 - weight) ** 2 / 10)[:, 0]
    objective = 5 * bias + variance + coverage * 5 * overlap
    objective[(1 - weight[:, 0]) * 5 > 10] = np.inf
    best = float(weight[np.argmin(objective), 0])
    probability = calibrated_probability(overall, sums, 5, coverage=coverage, floor=0.0)
    assert probability == pytest.approx([5 * best / 30, 5 * (1 - best) / 10, 0], abs=1e-5)


def test_hundreds_of_categories_are_solved() -> None:
    """The optimality of the small cases holds with 500 categories, with and without a ridge."""
    rng = np.random.default_rng(3)
    overall = rng.integers(1, 20, 500)
    means = rng.dirichlet(np.full(10, 0.2), 500)
    table = np.column_stack([means, (means**2).sum(axis=1)])
    sums = np.rint(FIXED_POINT_SCALE * overall[:, None] * table).astype(np.int64)
    for coverage in (0.0, 1.0):
        probability = calibrated_probability(overall, sums, 100, coverage=coverage)
        slope = slopes(probability, overall, sums, 100, num_volunteers=100, coverage=coverage)
        uniform = 100 / overall.sum()
        can_fall = slope[probability > 0.1 * uniform + 1e-4]
        can_rise = slope[probability < 1 - 0.1 * (1 - uniform) - 1e-4]
        assert can_fall.max() <= can_rise.min() + 1e-3


@pytest.mark.parametrize(("coverage", "most_steps"), [(0.0, 45), (0.1, 22), (1.0, 15)])
def test_a_few_steps_solve_hundreds_of_categories(
    coverage: float, most_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends by itself, long before its limit, the sooner the dearer a repetition."""
    rng = np.random.default_rng(3)
    overall = rng.integers(1, 20, 500)
    means = rng.dirichlet(np.full(10, 0.2), 500)
    table = np.column_stack([means, (means**2).sum(axis=1)])
    sums = np.rint(FIXED_POINT_SCALE * overall[:, None] * table).astype(np.int64)
    whole = calibrated_probability(overall, sums, 250, coverage=coverage)
    monkeypatch.setattr("dubhe_flwr.core.calibration._MOST_STEPS", most_steps)
    short = calibrated_probability(overall, sums, 250, coverage=coverage)
    assert short.tolist() == whole.tolist()


def test_calibration_removes_the_bias_of_equal_categories() -> None:
    """The expected population is at most half as far from uniform as with eq. 6."""
    distributions, slots, overall, sums = federation(400, seed=1)

    def bias(probability: NDArray[np.float64]) -> float:
        weights = probability[slots] / probability[slots].sum()
        return float(np.abs(weights @ distributions / FIXED_POINT_SCALE - 0.25).sum())

    calibrated = bias(calibrated_probability(overall, sums, 20, coverage=0.1))
    assert 2 * calibrated < bias(participation_probability(overall, 20))


def test_coverage_spreads_the_participation() -> None:
    """The dearer a repetition, the fewer volunteers two draws have in common."""
    _, _, overall, sums = federation(200, seed=2)
    common = [
        float(calibrated_probability(overall, sums, 10, coverage=coverage) ** 2 @ overall)
        for coverage in (0.0, 0.3, 1.0, 10.0, 1e6)
    ]
    assert common == sorted(common, reverse=True)
    assert common[0] > 2 * common[-1]
    assert common[-1] == pytest.approx(10 * 10 / 200, rel=1e-3)


def test_categories_that_hold_the_same_volunteer_alike() -> None:
    """Where all clients are identical, selection is uniform."""
    overall = np.array([5, 25, 0, 10])
    sums = overall[:, None] * np.array([1, 1, 1, 1]) * FIXED_POINT_SCALE // 3
    probability = calibrated_probability(overall, sums, 4)
    assert probability == pytest.approx([0.1, 0.1, 0, 0.1], abs=1e-6)


@pytest.mark.parametrize(
    ("overall", "num_participants", "expected"),
    [
        pytest.param([0, 8, 0], 2, [0, 0.25, 0], id="one category"),
        pytest.param([3, 1, 0], 4, [1, 1, 0], id="everybody is needed"),
        pytest.param([3, 1, 0], 9, [1, 1, 0], id="more than everybody"),
        pytest.param([0, 0, 0], 2, [0, 0, 0], id="nobody"),
    ],
)
def test_degenerate_federations(
    overall: list[int], num_participants: int, expected: list[float]
) -> None:
    """One category, K = N or nobody at all give the only probabilities there are."""
    sums = np.array(overall)[:, None] * np.array([1, 0, 1]) * FIXED_POINT_SCALE
    assert calibrated_probability(overall, sums, num_participants) == pytest.approx(expected)


def test_by_default_k_volunteer_at_the_price_of_one_and_a_floor_of_a_tenth() -> None:
    """What is left out is what the documentation says."""
    _, _, overall, sums = federation(100, seed=6)
    left_out = calibrated_probability(overall, sums, 10)
    given = calibrated_probability(overall, sums, 10, num_volunteers=10, coverage=1.0, floor=0.1)
    assert left_out.tolist() == given.tolist()
    for other in ({"num_volunteers": 11}, {"coverage": 1.1}, {"floor": 0.2}):
        changed = calibrated_probability(overall, sums, 10, **other)
        assert not np.allclose(left_out, changed, rtol=1e-4)


def test_floor_of_one_is_uniform_selection() -> None:
    """With floor 1 no category differs from another."""
    _, _, overall, sums = federation(100, seed=4)
    probability = calibrated_probability(overall, sums, 10, floor=1.0)
    assert probability[overall > 0] == pytest.approx(0.1)


def test_a_search_that_is_cut_short_gives_weights_that_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After any number of steps as many volunteer as are wanted, between floor and ceiling."""
    _, _, overall, sums = federation(60, seed=3)
    best = calibrated_probability(overall, sums, 10, coverage=0.1, floor=0.1)
    monkeypatch.setattr("dubhe_flwr.core.calibration._MOST_STEPS", 2)
    early = calibrated_probability(overall, sums, 10, coverage=0.1, floor=0.1)
    assert not np.allclose(early, best, atol=1e-3)
    assert early @ overall == pytest.approx(10)
    uniform = 10 / overall.sum()
    filled = early[overall > 0]
    assert filled.min() >= 0.1 * uniform - 1e-12
    assert filled.max() <= 1 - 0.1 * (1 - uniform) + 1e-12


def test_calibration_repeats() -> None:
    """The same sums give the same probabilities, to the bit."""
    _, _, overall, sums = federation(100, seed=5)
    first = calibrated_probability(overall, sums, 10)
    assert first.tolist() == calibrated_probability(overall, sums, 10).tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {"coverage": -0.1},
        {"coverage": float("nan")},
        {"floor": -0.1},
        {"floor": 1.1},
        {"num_volunteers": 1},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    """A negative price, a share outside 0 to 1, or fewer volunteers than K."""
    (name,) = settings
    with pytest.raises(SettingsError, match=name):
        calibrated_probability([5, 5], [[5, 0, 5], [0, 5, 5]], 2, **settings)  # type: ignore[arg-type]


@given(counts=st.lists(st.integers(0, 500), min_size=4, max_size=4).filter(any))
def test_moments_are_those_of_the_definition(counts: list[int]) -> None:
    """The own row holds p_l and its rounded squared norm; the others hold nothing."""
    distribution = fixed_point_distribution(counts)
    table = moments(distribution, 2, [0, 0, 3, *[0] * 8], CODEBOOK, min_cohort=3)
    assert table.shape == (CODEBOOK.length, 5)
    assert table[2, :-1].tolist() == distribution.tolist()
    square = float(((distribution / FIXED_POINT_SCALE) ** 2).sum())
    assert abs(table[2, -1] / FIXED_POINT_SCALE - square) <= 0.5000001 / FIXED_POINT_SCALE
    assert np.count_nonzero(np.delete(table, 2, axis=0)) == 0


@pytest.mark.parametrize("slot", range(CODEBOOK.length))
def test_small_categories_tell_nothing_of_their_clients(slot: int) -> None:
    """Below min_cohort, different clients contribute the same: the dominating classes alike."""
    overall = np.full(CODEBOOK.length, 2)
    tables = [
        moments(fixed_point_distribution(counts), slot, overall, CODEBOOK, min_cohort=3)
        for counts in ([8, 1, 1, 0], [0, 0, 3, 7])
    ]
    assert tables[0].tolist() == tables[1].tolist()
    category = CODEBOOK.unrank(slot)
    shares = tables[0][slot] / FIXED_POINT_SCALE
    assert np.flatnonzero(shares[:-1]).tolist() == list(category)
    assert shares[:-1].sum() == 1
    assert shares[-1] == pytest.approx(1 / len(category))
