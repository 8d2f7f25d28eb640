"""Tests of prices as a whole: what the exchanges find is what the derivation says."""

from dataclasses import replace

import numpy as np
import pytest
from core.prices.populations import Floats, positions, probabilities, settled, skewed, summed
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize
from scipy.special import entr

from dubhe_flwr.core.prices import Position, PriceDesign, PriceNumbers, PriceState
from dubhe_flwr.errors import SettingsError


def primal(design: PriceDesign, clients: list[Position], x: Floats) -> tuple[float, Floats]:
    """Return F(P) of the derivation and its gradient."""
    stands, squares = np.array([c.x for c in clients]), np.array([c.square for c in clients])
    mean = stands.mean(axis=0)
    c = design.coverage * (squares.mean() - mean @ mean)
    volunteers, participants = design.num_volunteers, design.num_participants
    moment = x @ stands / volunteers
    entropy = (entr(x) + entr(1.0 - x)).sum()
    value = (participants - 1) * moment @ moment - c / volunteers * entropy
    value += (1.0 + design.local_skew) * x @ squares / volunteers
    slope = 2.0 * (participants - 1) * stands @ moment + c * np.log(x / (1.0 - x))
    return float(value), (slope + (1.0 + design.local_skew) * squares) / volunteers


def best_by_scipy(design: PriceDesign, clients: list[Position]) -> Floats:
    """Minimise F over sum P = V, and sum P w = V times the mean of w."""
    weights = np.array([client.weight for client in clients])
    conditions = [np.ones(len(clients)), weights][: 1 + (np.ptp(weights) > 0)]
    wanted = [design.num_volunteers, design.num_volunteers * weights.mean()][: len(conditions)]
    start: Floats = np.full(len(clients), design.num_volunteers / len(clients))
    found = minimize(  # type: ignore[call-overload]
        lambda x: primal(design, clients, x)[0],
        start,
        jac=lambda x: primal(design, clients, x)[1],
        method="SLSQP",
        bounds=[(1e-6, 1.0 - 1e-6)] * len(clients),
        constraints=LinearConstraint(np.array(conditions), wanted, wanted),
        tol=1e-14,
        options={"maxiter": 1000},
    )
    assert found.success
    return np.asarray(found.x)


@pytest.mark.parametrize("local_skew", [0.0, 1.0])
@pytest.mark.parametrize("unequal", [False, True])
def test_the_exchanges_minimise_the_primal(local_skew: float, *, unequal: bool) -> None:
    """scipy.optimize finds the same probabilities from F, its conditions and bounds alone."""
    distributions = skewed(40, 4, seed=1)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 40) if unequal else None
    clients = positions(distributions, weights)
    design = PriceDesign(5, 12.0, coverage=0.5, local_skew=local_skew)
    numbers = PriceNumbers(4, 40, largest_weight=4.0 if unequal else 1.0)
    state = settled(design, numbers, clients)
    assert state.settled
    prices, kappa = state.prices()
    stands = np.array([state.features(client) for client in clients])
    squares = np.array([client.square for client in clients])
    found = 1.0 / (1.0 + np.exp(-(prices[0] + stands @ prices[1:] - kappa * squares)))
    best = best_by_scipy(design, clients)
    assert found == pytest.approx(best, abs=0.01)
    assert primal(design, clients, found)[0] == pytest.approx(
        primal(design, clients, best)[0], abs=1e-4
    )


@given(
    num_clients=st.integers(30, 80),
    num_classes=st.integers(2, 6),
    concentration=st.sampled_from([0.3, 1.0, 4.0]),
    seed=st.integers(0, 1000),
    data=st.data(),
)
@settings(max_examples=25, deadline=None)
def test_what_holds_for_any_clients(
    num_clients: int, num_classes: int, concentration: float, seed: int, data: st.DataObject
) -> None:
    """P lies within the clamp, sums to V, and does not depend on the order of the classes.

    One in three hundred of the smallest federations is not settled in time; it has the clamp alone.
    """
    volunteers = data.draw(st.integers(6, num_clients // 2))
    distributions = skewed(num_clients, num_classes, seed, concentration)
    design = PriceDesign(6, float(volunteers))
    numbers = PriceNumbers(num_classes, num_clients)
    clients = positions(distributions)
    state = settled(design, numbers, clients)
    found = probabilities(design, state, clients)
    share = volunteers / num_clients
    assert found.min() >= 0.02 * share * (1 - 1e-9)
    assert found.max() <= (1.0 - 0.02 * (1.0 - share)) * (1 + 1e-9)
    others = positions(distributions[:, data.draw(st.permutations(range(num_classes)))])
    again = settled(design, numbers, others)
    assume(state.settled and again.settled)
    assert found.sum() == pytest.approx(volunteers, rel=0.03)
    moved = probabilities(design, again, others)
    assert moved == pytest.approx(found, abs=0.02)


@pytest.mark.parametrize(("num_classes", "unequal"), [(5, False), (5, True), (40, False)])
def test_a_later_epoch_begins_with_the_prices_of_the_last_one(
    num_classes: int, *, unequal: bool
) -> None:
    """The same clients settle in one exchange, slightly other ones no later than without."""
    distributions = skewed(200, num_classes, seed=7)
    weights = np.random.default_rng(7).uniform(0.25, 4.0, 200) if unequal else np.ones(200)
    clients, design = positions(distributions, weights), PriceDesign(10, 50.0, coverage=0.1)
    numbers = PriceNumbers(num_classes, 250, largest_weight=4.0 if unequal else 1.0)
    state = settled(design, numbers, clients)
    assert state.evaluations > 3
    prices = state.prices()[0]
    assert settled(design, numbers, clients, remembered=[prices] * 200).evaluations == 2
    newcomers = positions(skewed(30, num_classes, seed=8))
    others = clients[20:] + newcomers
    again = settled(design, numbers, others, remembered=[prices] * 180)
    assert again.settled
    fresh = settled(design, numbers, others)
    assert again.evaluations <= min(5, fresh.evaluations)
    assert probabilities(design, again, others) == pytest.approx(
        probabilities(design, fresh, others), abs=0.03
    )


@pytest.mark.parametrize(("num_remembering", "is_heeded"), [(49, False), (50, True)])
def test_few_who_remember_prices_are_not_heeded(*, num_remembering: int, is_heeded: bool) -> None:
    """A quarter of the clients has to, or one that lies could choose where all are to evaluate."""
    clients, design, numbers = (
        positions(skewed(200, 4, 3)),
        PriceDesign(10, 50.0),
        PriceNumbers(4, 200),
    )
    prices = np.array([-700.0, 400.0, -200.0, -100.0, -100.0])
    told = summed(
        numbers, PriceState.first(numbers), clients, remembered=[prices] * num_remembering
    )
    state = design.advance(numbers, PriceState.first(numbers), told, 200)
    near = np.array(state.point) == pytest.approx(prices, abs=0.1)
    assert near == is_heeded


@pytest.mark.parametrize("factor", [-1.0, 3.0, 10.0])
def test_prices_are_settled_from_wherever_they_begin(factor: float) -> None:
    """What is remembered may be of other clients and settings."""
    clients, design, numbers = (
        positions(skewed(200, 4, 3)),
        PriceDesign(10, 50.0),
        PriceNumbers(4, 200),
    )
    fresh = settled(design, numbers, clients)
    state = settled(design, numbers, clients, remembered=[factor * fresh.prices()[0]] * 200)
    assert state.settled
    assert probabilities(design, state, clients) == pytest.approx(
        probabilities(design, fresh, clients), abs=0.03
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_where_clients_are_alike_all_are_equally_likely(*, weighted: bool) -> None:
    """There is nothing to choose, and no exchange after the opening."""
    clients = positions(np.tile([0.5, 0.3, 0.2], (50, 1)))
    design = PriceDesign(5, 20.0)
    state = settled(design, PriceNumbers(3, 50, largest_weight=4.0 if weighted else 1.0), clients)
    assert (state.settled, state.evaluations) == (True, 1)
    assert set(probabilities(design, state, clients)) == {20 / 50}


@pytest.mark.parametrize(("apart", "differ"), [(0.012, False), (0.013, True)])
def test_clients_that_hardly_differ_are_alike(apart: float, *, differ: bool) -> None:
    """Where the trace of their covariance is below 3e-4."""
    shares = 0.5 + apart * np.outer([1.0, -1.0] * 25, [1.0, -1.0])
    state = settled(PriceDesign(5, 20.0), PriceNumbers(2, 50), positions(shares))
    assert (state.kappa > 0, state.evaluations > 1) == (differ, differ)


def test_before_any_sum_all_are_equally_likely() -> None:
    """With too few nodes for a single evaluation, participation is uniform."""
    design, clients = PriceDesign(5, 20.0), positions(skewed(50, 3, seed=0))
    state = PriceState.first(PriceNumbers(3, 50))
    assert set(probabilities(design, state, clients)) == {20 / 50}
    assert design.probability(state, clients[0], num_clients=20) == 1.0


@pytest.mark.parametrize("evaluations", range(1, 5))
@pytest.mark.parametrize("local_skew", [0.0, 1.0])
def test_any_number_of_evaluations_gives_an_answer(evaluations: int, local_skew: float) -> None:
    """V is about met, and the volunteers are nearer to uniform than all clients."""
    clients = positions(skewed(300, 6, seed=10, concentration=1.0))
    design, numbers = PriceDesign(15, 75.0, local_skew=local_skew), PriceNumbers(6, 300)
    state = PriceState.first(numbers)
    for _ in range(evaluations):
        state = design.advance(numbers, state, summed(numbers, state, clients), 300)
    found = probabilities(design, state, clients)
    stands = np.array([client.x for client in clients])
    assert found.sum() == pytest.approx(75, rel=0.25)
    union, before = found @ stands / found.sum(), stands.mean(axis=0)
    assert np.linalg.norm(union) < 0.9 * np.linalg.norm(before)


def test_levels_are_sixteen_and_right_on_average() -> None:
    """With a dither there are 16 probabilities, whose mean over the dither is the exact one."""
    clients = positions(skewed(200, 5, seed=11, concentration=0.5))
    design, numbers = PriceDesign(10, 50.0), PriceNumbers(5, 200)
    state = settled(design, numbers, clients)
    dithers = (np.arange(200) + 0.5) / 200
    found = np.array(
        [[design.probability(state, own, 200, dither) for dither in dithers] for own in clients]
    )
    assert len(np.unique(found)) <= 16
    assert max(len(np.unique(row)) for row in found) <= 2
    assert found.mean(axis=1) == pytest.approx(probabilities(design, state, clients), abs=0.005)


def nudged(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let every solve be wrong by 1e-12 of itself."""
    solve, rng = np.linalg.solve, np.random.default_rng(seed)

    def nudge(matrix: Floats, right: Floats) -> NDArray[np.float64]:
        exact = solve(matrix, right)
        return np.asarray(exact * (1.0 + 1e-12 * rng.choice([-1.0, 1.0], exact.shape)))

    monkeypatch.setattr(np.linalg, "solve", nudge)


@pytest.mark.parametrize("num_classes", [5, 40])
def test_prices_do_not_depend_on_the_last_bits_of_a_platform(
    num_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solves that differ by 1e-12 of themselves lead to the very same states."""
    clients = positions(skewed(120, num_classes, seed=12))
    design, numbers = PriceDesign(10, 30.0), PriceNumbers(num_classes, 120)
    exact = settled(design, numbers, clients)
    nudged(monkeypatch, seed=1)
    assert settled(design, numbers, clients) == exact


@pytest.mark.parametrize("num_classes", [2, 10, 52, 100])
def test_eight_exchanges_settle_many_classes_and_few(num_classes: int) -> None:
    """Prices are settled in eight exchanges, above 32 classes from a part of the curvature."""
    clients = positions(skewed(400, num_classes, seed=13))
    design, numbers = PriceDesign(20, 100.0), PriceNumbers(num_classes, 400)
    state = settled(design, numbers, clients)
    assert state.settled
    assert state.evaluations <= 1 + 8
    assert probabilities(design, state, clients).sum() == pytest.approx(100, rel=0.03)


@pytest.mark.parametrize("local_skew", [0.0, 1.0])
@pytest.mark.parametrize("num_participants", [20, 60])
def test_eight_exchanges_settle_small_coverage(num_participants: int, local_skew: float) -> None:
    """Where clients differ little, prices are in the hundreds and nearly all P at their bounds."""
    clients = positions(skewed(400, 10, seed=15, concentration=8.0))
    design = PriceDesign(num_participants, 100.0, 0.1, local_skew)
    state = settled(design, PriceNumbers(10, 2000), clients)
    assert state.settled
    assert np.abs(state.prices()[0]).max() > 100
    assert probabilities(design, state, clients).sum() == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("local_skew", [0.0, 1.0])
def test_what_is_left_to_gain_is_small_beside_what_cannot_be_gained(local_skew: float) -> None:
    """Where F stays far above the variance of clients, a thousandth of F is little."""
    clients = positions(skewed(400, 10, seed=1, concentration=4.0))
    design = PriceDesign(100, 200.0, 0.1, local_skew)
    state = settled(design, PriceNumbers(10, 2000), clients)
    assert state.settled
    found = probabilities(design, state, clients)
    assert found.sum() == pytest.approx(200, rel=0.05)
    anew = settled(design, PriceNumbers(10, 2000), clients, replace(state, settled=False))
    best = primal(design, clients, probabilities(design, anew, clients))[0]
    assert primal(design, clients, found)[0] == pytest.approx(best, rel=0.03)


def test_a_step_that_went_too_far_is_shortened() -> None:
    """Where softplus says so, the next point lies on the way to the one that was too far."""
    clients = positions(skewed(200, 4, seed=14, concentration=0.5))
    design, numbers = PriceDesign(20, 40.0, coverage=0.1), PriceNumbers(4, 200)
    state = PriceState.first(numbers)
    for _ in range(2):
        state = design.advance(numbers, state, summed(numbers, state, clients), 200)
    base = np.array(state.base)
    ahead = np.array(state.point) - base
    far = replace(state, reach=1.0, point=tuple((base + 5 * ahead).tolist()))
    back = design.advance(numbers, far, summed(numbers, far, clients), 200)
    way = (np.array(back.point) - base) / (5 * ahead)
    assert way == pytest.approx(np.full(5, way[0]), abs=0.01)
    assert min(abs(way[0] - part) for part in (0.5, 0.2, 0.05)) < 0.01
    assert settled(design, numbers, clients, back).settled


@pytest.mark.parametrize(
    "values",
    [
        {"num_participants": 1},
        {"num_volunteers": 0.0},
        {"coverage": 0.0},
        {"coverage": float("nan")},
        {"local_skew": -0.1},
        {"local_skew": 1001.0},
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, float]) -> None:
    """The message names the setting."""
    with pytest.raises(SettingsError, match=next(iter(values))):
        PriceDesign(**{"num_participants": 5, "num_volunteers": 10.0, **values})  # type: ignore[arg-type]


def test_all_clients_as_volunteers_are_refused() -> None:
    """With V at N there are no prices to find."""
    clients, numbers = positions(skewed(20, 3, seed=0)), PriceNumbers(3, 20)
    state = PriceState.first(numbers)
    with pytest.raises(SettingsError, match="below the 20 clients"):
        PriceDesign(5, 20.0).advance(numbers, state, summed(numbers, state, clients), 20)
