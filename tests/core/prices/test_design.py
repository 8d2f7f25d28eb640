"""Tests of prices as a whole: the exchanges find what the derivation predicts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from core.prices.populations import Federation, Floats, half_normal, skewed, specialists, with_emd
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize
from scipy.special import entr, expit
from vectors.reference_prices import newton_minimum

from dubhe_flwr.core.prices import PriceDesign, PriceState
from dubhe_flwr.core.prices.synthetic import synthetic_clients
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.rules import Prices

COVERAGE = Prices.coverage
MODES = [(0.3, 0.0), (0.1, 1.0)]
"""Coverage and local skew."""


def primal(federation: Federation, chances: Floats) -> tuple[float, Floats]:
    """Return F(P) of the derivation and its gradient."""
    design, labels, weights = federation.design, federation.labels, federation.weights
    number = design.num_classes
    target = np.array(design.target or np.full(number, 1.0 / number))
    assert weights is not None
    x = labels - weights[:, None] * target
    squares, mean = (x**2).sum(axis=1), x.mean(axis=0)
    c = design.coverage * (squares.mean() - mean @ mean)
    volunteers, participants = design.num_volunteers, design.num_participants
    moment = chances @ x / volunteers
    entropy = (entr(chances) + entr(1.0 - chances)).sum()
    value = (participants - 1) * moment @ moment - c / volunteers * entropy
    value += (1.0 + design.local_skew) * chances @ squares / volunteers
    slope = 2.0 * (participants - 1) * x @ moment + c * np.log(chances / (1.0 - chances))
    return float(value), (slope + (1.0 + design.local_skew) * squares) / volunteers


def best_by_scipy(federation: Federation) -> Floats:
    """Minimise F over sum P = V, and sum P w = V times the mean of w."""
    weights = federation.weights
    assert weights is not None
    volunteers = federation.design.num_volunteers
    conditions = [np.ones(len(weights)), weights][: 1 + (np.ptp(weights) > 0)]
    wanted = [volunteers, volunteers * weights.mean()][: len(conditions)]
    start: Floats = np.full(len(weights), volunteers / len(weights))
    found = minimize(  # type: ignore[call-overload]
        lambda chances: primal(federation, chances)[0],
        start,
        jac=lambda chances: primal(federation, chances)[1],
        method="SLSQP",
        bounds=[(1e-6, 1.0 - 1e-6)] * len(weights),
        constraints=LinearConstraint(np.array(conditions), wanted, wanted),
        tol=1e-14,
        options={"maxiter": 1000},
    )
    assert found.success
    return np.asarray(found.x)


def best_by_dual(federation: Federation) -> Floats:
    """Minimise D over all labels, for clients of one weight, with Newton's method."""
    design, number = federation.design, federation.design.num_classes
    x = federation.labels - np.array(design.target or np.full(number, 1.0 / number))
    squares, mean = (x**2).sum(axis=1), x.mean(axis=0)
    c = design.coverage * (squares.mean() - mean @ mean)
    costs = (1.0 + design.local_skew) / c * squares
    rows = np.column_stack([np.ones(len(x)), x])
    ridge = np.append(0.0, np.full(number, c / (2 * (design.num_participants - 1))))

    def curve(values: Floats) -> tuple[float, Floats, Floats]:
        chances = expit(values - costs)
        total = np.logaddexp(0.0, values - costs).sum()
        slopes = np.array([chances, chances * (1.0 - chances)]) / design.num_volunteers
        return float(total / design.num_volunteers), *slopes

    linear, start = -np.eye(1 + number)[0], np.zeros(1 + number)
    start[0] = np.log(design.num_volunteers / len(x)) + costs.mean()
    return np.asarray(
        expit(rows @ newton_minimum(rows, curve, linear, ridge, start, reach=30.0) - costs)
    )


@pytest.mark.parametrize("local_skew", [0.0, 1.0])
@pytest.mark.parametrize("unequal", [False, True])
def test_the_exchanges_minimise_the_primal(local_skew: float, *, unequal: bool) -> None:
    """At the sums, scipy.optimize finds nearly the same P from F and its conditions alone."""
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 60) if unequal else None
    design = PriceDesign(4, 5, 18.0, 0.5, local_skew, largest_weight=4.0 if unequal else 1.0)
    federation = Federation(design, skewed(60, 4, seed=1), weights)
    federation.settle()
    assert federation.state.settled
    found, best = federation.at_sums(), best_by_scipy(federation)
    # With weights the opening gives the covariance, and so c, only roughly.
    assert found == pytest.approx(best, abs=0.04 if unequal else 0.02)
    gain = primal(federation, found)[0] - primal(federation, best)[0]
    assert abs(gain) < (0.02 if unequal else 0.003)


COLD: list[Any] = [
    pytest.param(lambda seed: with_emd(1000, 10, 1.5, seed), 20, (4, 4), id="EMD 1.5"),
    pytest.param(lambda seed: with_emd(1000, 10, 0.5, seed), 20, (5, 5), id="EMD 0.5"),
    pytest.param(lambda seed: with_emd(1000, 10, 1.5, seed), 100, (4, 4), id="K 100"),
    pytest.param(lambda seed: with_emd(1000, 2, 0.3, seed), 20, (4, 4), id="two classes"),
    pytest.param(lambda seed: with_emd(12, 10, 1.2, seed), 4, (8, 8), id="N 12"),
    pytest.param(lambda seed: specialists(1000, 10, seed), 20, (8, 8), id="specialists"),
    pytest.param(
        lambda seed: np.eye(10)[np.random.default_rng(seed).choice(10, 1000, p=half_normal(10))],
        20,
        (4, 5),
        id="one class each",
    ),
    pytest.param(
        lambda seed: with_emd(2000, 100, 1.3, seed), 20, (5, 5), id="100", marks=pytest.mark.slow
    ),
]


@pytest.mark.parametrize(("population", "num_participants", "most"), COLD)
@pytest.mark.parametrize("mode", [0, 1])
def test_a_first_period_takes_few_exchanges(
    population: Any, num_participants: int, most: tuple[int, int], mode: int
) -> None:
    """Without noise, volunteers are as near to uniform as with all labels known, and V is met."""
    rows = population(7)
    volunteers = min(5.0 * num_participants, 0.6 * len(rows))
    federation = Federation(
        PriceDesign(rows.shape[1], num_participants, volunteers, *MODES[mode]), rows
    )
    assert federation.settle() <= most[mode]
    assert federation.state.settled
    found, best = federation.at_sums(), best_by_dual(federation)
    assert federation.distance(found) == pytest.approx(federation.distance(best), abs=0.02)
    assert found.sum() == pytest.approx(volunteers, rel=0.04)


def test_a_registration_makes_its_synthetic_clients_once() -> None:
    """With a thousand classes, making them takes seconds."""
    synthetic_clients.cache_clear()
    assert Federation(PriceDesign(4, 8, 20.0, COVERAGE), skewed(60, 4, seed=1)).settle() > 1
    assert synthetic_clients.cache_info().misses == 1


@pytest.mark.parametrize(
    ("num_classes", "num_clients", "volunteers", "sigma", "missed"),
    [
        (100, 1000, 40.0, 1.5, 0.35),
        pytest.param(1000, 2000, 100.0, 0.0, 0.04, marks=pytest.mark.slow),
    ],
)
def test_many_classes_are_settled(
    num_classes: int, num_clients: int, volunteers: float, sigma: float, missed: float
) -> None:
    """V is met even if the noise of three members is as large as the sum of a class.

    Of a thousand classes, only the latest exchange is fitted by class.
    """
    rows = np.random.default_rng(0).dirichlet(20 * half_normal(num_classes), num_clients)
    design = PriceDesign(num_classes, 20, volunteers, COVERAGE, sigma=sigma)
    federation = Federation(design, rows, noise_in_sum=3.0)
    assert federation.settle() <= 5
    assert federation.at_sums().sum() == pytest.approx(volunteers, rel=missed)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_unusual_target_takes_few_exchanges(mode: int, *, weighted: bool) -> None:
    """A target of .95 for one class settles in few exchanges, even with log-normal weights."""
    rows, rng = with_emd(1000, 10, 1.0, seed=3), np.random.default_rng(3)
    weights = np.clip(rng.lognormal(0, 0.8, 1000), 0.25, 4.0) if weighted else None
    target = None if weighted else tuple(0.95 if row == 3 else 0.05 / 9 for row in range(10))
    heaviest = 4.0 if weighted else 1.0
    design = PriceDesign(10, 20, 100.0, *MODES[mode], target=target, largest_weight=heaviest)
    federation = Federation(design, rows, weights)
    assert federation.settle() <= 5
    assert federation.at_sums().sum() == pytest.approx(100, rel=0.04)
    assert federation.distance(federation.at_sums()) < (0.16 if weighted else 0.87)


@pytest.mark.parametrize(
    ("coverage", "most", "missed"), [(0.3, 0.08, 0.15), (Prices.coverage, 0.16, 0.26)]
)
@pytest.mark.parametrize("seed", range(3))
def test_noise_costs_little_distance(
    coverage: float, most: float, missed: float, seed: int
) -> None:
    """With a committee's noise, volunteers stay near the optimum in classes and in number.

    The less coverage counts, the more prices depend on what the noise hides. All this holds at the
    sums and for draws.
    """
    design = PriceDesign(10, 20, 40.0, coverage, sigma=1.5)
    rows = with_emd(1000, 10, 1.0, seed)
    federation = Federation(design, rows, noise_in_sum=3.0, seed=seed)
    assert federation.settle() <= 5
    drawn = replace(design, num_volunteers=design.num_drawn)
    for aim, found in (
        (federation, federation.at_sums()),
        (replace(federation, design=drawn), federation.probabilities()),
    ):
        assert aim.distance(found) < aim.distance(best_by_dual(aim)) + most
        assert found.sum() == pytest.approx(aim.design.num_volunteers, rel=missed)


@pytest.mark.parametrize(("num_clients", "emd"), [(1000, 1.5), (150, 1.0)])
def test_warm_periods_take_one_sum(num_clients: int, emd: float) -> None:
    """Warm periods balance nearly as well as first ones, though each replaces 5 % of the clients.

    Their sums have twice the noise.
    """
    sums, warm, cold = list[int](), list[float](), list[float]()
    rng, design = np.random.default_rng(5), PriceDesign(10, 20, 40.0, COVERAGE, sigma=1.5)
    others = with_emd(num_clients, 10, emd, seed=1)
    labels = with_emd(num_clients, 10, emd, seed=0)
    federation = Federation(design, labels, noise_in_sum=3.0)
    federation.settle()
    federation.design = replace(design, sigma=3.0)
    for period in range(10):
        federation.labels = federation.labels.copy()
        new = rng.choice(num_clients, num_clients // 20, replace=False)
        federation.labels[new] = others[rng.choice(num_clients, new.size)]
        federation.state = federation.state.renewed()
        sums.append(federation.settle())
        first = Federation(design, federation.labels, seed=period, noise_in_sum=3.0)
        first.settle()
        warm.append(federation.distance())
        cold.append(first.distance())
    assert np.median(sums) == 1
    assert np.mean(warm) < 1.25 * np.mean(cold)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_spent_budgets_hardly_move_prices(*, warm: bool, weighted: bool) -> None:
    """If four of five clients withhold their values, the others volunteer half to 1.5 times as due.

    With zeros in place of these values, nearly all of the others would volunteer in each round.
    """
    rows, number = with_emd(150, 10, 1.0, seed=1), 30
    weights = np.random.default_rng(1).uniform(0.4, 1.2, 150) if weighted else np.ones(150)
    heaviest = 4.0 if weighted else 1.0
    design = PriceDesign(10, 10, 40.0, COVERAGE, largest_weight=heaviest, sigma=1.5)
    federation = Federation(design, rows, weights, noise_in_sum=3.0)
    due = design.num_drawn * number / 150
    if warm:
        federation.settle()
        due = federation.probabilities()[:number].sum()
    for _ in range(6):
        values = design.values(federation.state, federation.labels, weights)
        values[number:] = design.neutral(federation.state, 150)
        federation.state = design.advance(federation.state, values.mean(axis=0), 150, 3.0)
    assert federation.probabilities()[:number].sum() == pytest.approx(due, rel=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_weights_that_noise_hides_do_not_run_away(seed: int) -> None:
    """The opening may say that all clients weigh the same; then g stays small, and V is met."""
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.4, 0.8, 1.2], 100)
    design = PriceDesign(10, 10, 32.0, COVERAGE, largest_weight=4.0, sigma=1.5)
    federation = Federation(design, with_emd(100, 10, 1.5, seed), weights, 3.0, seed)
    federation.settle()
    assert abs(federation.state.point[-1]) < 25
    assert federation.at_sums().sum() == pytest.approx(32, rel=0.2)


@pytest.mark.parametrize("seed", [0, 1, 9])
def test_an_opening_that_hides_unequal_sizes_costs_no_volunteers(seed: int) -> None:
    """Synthetic clients differ in weight all the same; if not, V is missed by a factor of 3."""
    sizes = np.random.default_rng(seed).lognormal(0.0, 0.8, 1000)
    weights = np.clip(sizes, 0.25, Prices().heaviest)
    design = PriceDesign(10, 20, 40.0, COVERAGE, largest_weight=4.0, sigma=Prices.noise)
    federation = Federation(design, with_emd(1000, 10, 1.0, seed), weights, 3.0, seed)
    assert federation.settle() <= 5
    assert federation.at_sums().sum() == pytest.approx(40, rel=0.2)


def test_the_own_mix_is_a_target() -> None:
    """With the target "own", volunteers have the same label mix as all clients."""
    rows = with_emd(1000, 10, 1.0, seed=4)
    federation = Federation(
        PriceDesign(10, 20, 100.0, COVERAGE, local_skew=1.0, target="own"), rows
    )
    federation.settle()
    found = federation.probabilities()
    assert np.abs(found @ rows / found.sum() - rows.mean(axis=0)).sum() < 0.05


@given(seed=st.integers(0, 1000), exchanges=st.integers(0, 3), weighted=st.booleans())
@settings(max_examples=15)
def test_any_sums_are_refused_or_priced(seed: int, exchanges: int, *, weighted: bool) -> None:
    """Any sums either raise RefusedError or give probabilities from 0 to 1."""
    rng, heaviest = np.random.default_rng(seed), 4.0 if weighted else 1.0
    design = PriceDesign(4, 6, 20.0, COVERAGE, largest_weight=heaviest, sigma=1.0)
    weights = rng.uniform(0.25, 4.0, 40) if weighted else None
    federation = Federation(design, skewed(40, 4, seed), weights)
    for _ in range(exchanges):
        federation.step()
    size = design.deviations(40, opening=not federation.state.num_sums).size
    lies = rng.uniform(-0.2, 1.2 * heaviest, size)
    lies = rng.choice([lies, np.zeros(size), np.full(size, heaviest)])
    try:
        federation.state = design.advance(federation.state, lies, 40)
    except RefusedError:
        return
    assert all(np.isfinite(federation.state.as_floats()))
    found = federation.probabilities()
    assert 0.0 < found.min() <= found.max() < 1.0


@pytest.mark.parametrize(("value", "fits"), [(-0.3, True), (-0.5, False), (1.5, False)])
def test_means_beyond_the_noise_are_refused(value: float, *, fits: bool) -> None:
    """A mean may lie outside the range of a client's values by 8 deviations of its noise."""
    design = PriceDesign(4, 6, 20.0, COVERAGE, sigma=2.0)
    means = np.array([value, 0.3, 0.3, 0.4, 0.5])
    if fits:
        design.advance(PriceState(), means, 40)
        return
    with pytest.raises(RefusedError, match="No nodes can have sent numbers"):
        design.advance(PriceState(), means, 40)


def nudged(function: Any, rng: np.random.Generator) -> Any:
    """Return a function whose results are wrong by 1e-12 of themselves."""

    def nudge(*args: Any, **options: Any) -> Any:
        exact = np.asarray(function(*args, **options))
        return exact * (1.0 + 1e-12 * rng.choice([-1.0, 1.0], exact.shape))

    return nudge


@pytest.mark.parametrize("num_classes", [5, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_last_bits_do_not_matter(
    num_classes: int, monkeypatch: pytest.MonkeyPatch, *, weighted: bool
) -> None:
    """Solves, exponentials and logarithms off by 1e-12 of themselves change no price.

    Platforms differ by 1e-15 in an operation and by 1e-13 in a sum over the clients.
    """
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 150) if weighted else None
    rows = skewed(150, num_classes, seed=12)
    heaviest = 4.0 if weighted else 1.0
    design = PriceDesign(num_classes, 10, 50.0, COVERAGE, largest_weight=heaviest)
    exact = Federation(design, rows, weights)
    exact.settle()
    rng = np.random.default_rng(5)
    for owner, name in ((np.linalg, "solve"), (np, "exp"), (np, "logaddexp"), (np, "log")):
        monkeypatch.setattr(owner, name, nudged(getattr(owner, name), rng))
    again = Federation(exact.design, rows, weights)
    again.settle()
    assert again.state == exact.state


@pytest.mark.parametrize("num_sums", [1, 9])
def test_floats_hold_the_whole_state(num_sums: int) -> None:
    """The floats restore the state with its latest six exchanges; others are refused."""
    design = PriceDesign(3, 5, 20.0, COVERAGE, largest_weight=4.0)
    federation = Federation(design, skewed(60, 3, seed=1), np.linspace(0.5, 1.5, 60))
    for _ in range(num_sums):
        federation.step()
    values = federation.state.as_floats()
    again = design.restored(values)
    assert again == replace(federation.state, settled=False)
    assert len(again.history) == min(num_sums - 1, 6)
    wrong = [(*values[:-1], number) for number in (float("nan"), 1e300)]
    wrong.append((*values, *[0.5] * 7 * (design.width + 3 + 2)))  # with more than six sums
    for unfit in (values[:-1], (*values, 0.0), (0.0, *values[1:]), *wrong):
        with pytest.raises(RefusedError, match="does not belong to these prices"):
            design.restored(unfit)
