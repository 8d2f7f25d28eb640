"""Tests of the numbers of a node and of what their sums say."""

from dataclasses import replace

import numpy as np
import pytest
from core.prices.populations import Floats, positions, skewed, summed
from hypothesis import given, settings
from hypothesis import strategies as st

from dubhe_flwr.core.prices import Position, PriceNumbers, PriceState
from dubhe_flwr.core.prices.evaluation import Evaluation
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Layout, Slots


def state_at(numbers: PriceNumbers, point: Floats, kappa: float = 2.0) -> PriceState:
    """Return a state in the middle of an epoch, whose step began at equal probabilities."""
    base = (-1.0, *[0.0] * numbers.num_features)
    return replace(
        PriceState.first(numbers),
        evaluations=2,
        kappa=kappa,
        base=base,
        point=tuple(point.tolist()),
        mean_weight=1.5 if numbers.weighted else 1.0,
    )


def seen_by(numbers: PriceNumbers, state: PriceState, clients: list[Position]) -> Evaluation:
    """Return what is read from the sums over all clients."""
    return numbers.decode(summed(numbers, state, clients), len(clients), state.query())


def softplus_sum(state: PriceState, clients: list[Position], point: Floats) -> float:
    """Return the sum over clients of the softplus of their logits, in floats."""
    logits = [
        point[0] + point[1:] @ state.features(client) - state.kappa * client.square
        for client in clients
    ]
    return float(np.logaddexp(0.0, logits).sum())


def clients_of(numbers: PriceNumbers, num_clients: int, seed: int) -> list[Position]:
    """Return skewed clients, with weights where there are any."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.25, 4.0, num_clients) if numbers.weighted else None
    return positions(skewed(num_clients, numbers.num_classes, seed), weights)


@pytest.mark.parametrize("num_classes", [3, 10])
@pytest.mark.parametrize("largest_weight", [1.0, 4.0])
def test_sums_are_the_derivatives_of_softplus(num_classes: int, largest_weight: float) -> None:
    """Moment and curvature are what differences of the softplus in floats say."""
    numbers = PriceNumbers(num_classes, 60, largest_weight)
    clients = clients_of(numbers, 60, seed=1)
    rng = np.random.default_rng(2)
    point = np.append(-1.0, rng.normal(size=numbers.num_features))
    # Components along (1, ..., 1) change no logit.
    point[1 : 1 + num_classes] -= point[1 : 1 + num_classes].mean()
    state = state_at(numbers, point)
    seen = seen_by(numbers, state, clients)
    second = seen.weight * (seen.covariance + np.outer(seen.mean, seen.mean))
    hessian = np.block(
        [
            [np.array([[seen.weight]]), seen.weight * seen.mean[None]],
            [seen.weight * seen.mean[:, None], second],
        ]
    )
    gradient = np.append(seen.volunteers, seen.moment)
    for direction in rng.normal(size=(6, point.size)):
        step = 1e-3 * direction
        ahead, here, behind = (
            softplus_sum(state, clients, point + part * step) for part in (1, 0, -1)
        )
        assert (ahead - behind) / 2e-3 == pytest.approx(gradient @ direction, abs=0.01)
        curvature = (ahead - 2 * here + behind) / 1e-6
        assert curvature == pytest.approx(direction @ hessian @ direction, rel=0.01, abs=0.05)


def test_softplus_is_summed_at_the_shorter_steps_too() -> None:
    """Of three points, each has its own sum."""
    numbers = PriceNumbers(4, 50)
    clients = clients_of(numbers, 50, seed=3)
    state = state_at(numbers, np.array([-2.0, 9.0, 3.0, -5.0, -7.0]))
    points = state.query().points
    base, point = np.array(state.base), np.array(state.point)
    assert points == pytest.approx(
        np.array([point, base + 0.5 * (point - base), base + 0.2 * (point - base)])
    )
    wanted = [softplus_sum(state, clients, at) for at in points]
    assert seen_by(numbers, state, clients).softplus == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("largest_weight", [1.0, 4.0])
def test_the_opening_says_how_clients_spread(largest_weight: float) -> None:
    """It has sums of s (s, x)."""
    numbers = PriceNumbers(5, 80, largest_weight)
    clients = clients_of(numbers, 80, seed=4)
    first = PriceState.first(numbers)
    stands = np.array([first.features(client) for client in clients])
    squares = np.array([client.square for client in clients])
    rows = np.column_stack([squares, stands])
    opened = seen_by(numbers, first, clients)
    assert opened.spread == pytest.approx(squares @ rows, abs=0.1 * largest_weight)
    assert opened.mean == pytest.approx(stands.mean(axis=0), abs=0.002)
    of_classes = stands[:, :5]
    assert opened.trace == pytest.approx(of_classes.var(axis=0).sum(), rel=0.01)


def test_far_clients_count_as_near_ones_in_the_curvature_only() -> None:
    """Within the radius nothing changes; beyond it the covariance shrinks, the moment does not."""
    numbers = PriceNumbers(3, 60)
    clients = clients_of(numbers, 60, seed=5)
    state = state_at(numbers, np.array([-1.0, 1.0, 0.0, -1.0]))
    near = seen_by(numbers, replace(state, radius=0.2), clients)
    far = seen_by(numbers, state, clients)
    assert near.moment == pytest.approx(far.moment, abs=1e-3)
    assert np.trace(near.covariance) < 0.5 * np.trace(far.covariance)
    assert near.trace <= 0.2**2


def test_above_32_classes_images_of_the_probes_are_summed() -> None:
    """The covariance maps the probes right, and its diagonal is nearly that of the clients."""
    numbers = PriceNumbers(40, 300)
    clients = clients_of(numbers, 300, seed=6)
    state = state_at(numbers, np.append(-1.0, np.zeros(40)), kappa=0.1)
    seen = seen_by(numbers, state, clients)
    stands, squares = (
        np.array([client.x for client in clients]),
        np.array([client.square for client in clients]),
    )
    shares = 1.0 / (1.0 + np.exp(1.0 + 0.1 * squares))
    exact = np.cov(stands.T, bias=True, aweights=shares * (1.0 - shares))
    probes = state.query().probes
    assert probes.shape == (40, 4)
    assert seen.covariance @ probes == pytest.approx(exact @ probes, abs=2e-5)
    assert np.diag(seen.covariance) == pytest.approx(np.diag(exact), rel=0.25)
    assert seen.trace == pytest.approx(np.trace(exact), rel=0.01)
    assert np.linalg.eigvalsh(seen.covariance)[0] > -1e-9


@given(
    num_classes=st.integers(2, 12),
    largest_weight=st.sampled_from([1.0, 4.0]),
    opening=st.booleans(),
    scale=st.sampled_from([1e-3, 1.0, 1e3, 1e6]),
    seed=st.integers(0, 1000),
)
@settings(deadline=None)
def test_numbers_fit_their_slots_at_any_point(
    num_classes: int, largest_weight: float, opening: bool, scale: float, seed: int
) -> None:
    """Each is from 0 to the largest of the field, however far the prices have gone."""
    numbers = PriceNumbers(num_classes, 1000, largest_weight)
    rng = np.random.default_rng(seed)
    client = clients_of(numbers, 1, seed)[0]
    point = scale * rng.normal(size=1 + numbers.num_features)
    state = replace(state_at(numbers, point), evaluations=0 if opening else 3)
    given_numbers = state.contribution(numbers, client, rng)
    assert given_numbers.dtype == np.int64
    assert given_numbers.shape == (numbers.num_slots(opening=opening),)
    assert given_numbers.min() >= 0
    assert given_numbers.max() <= numbers.max_value


def test_rounding_is_right_on_average() -> None:
    """Many nodes that are alike add up to what they are, far below a unit for each."""
    numbers = PriceNumbers(3, 2000)
    client = positions(np.array([[0.61, 0.29, 0.1]]))[0]
    state = state_at(numbers, np.array([-4.0, 0.3, 0.1, -0.4]))
    seen = seen_by(numbers, state, [client] * 2000)
    share = 1.0 / (1.0 + np.exp(4.0 - state.features(client) @ state.point[1:] + 2 * client.square))
    assert seen.volunteers / 2000 == pytest.approx(share, abs=0.1 / numbers.max_value)
    assert seen.moment / 2000 == pytest.approx(share * client.x, abs=0.2 / numbers.max_value)
    assert np.linalg.eigvalsh(seen.covariance)[0] > -1e-12


@pytest.mark.parametrize(
    ("num_classes", "num_clients", "largest_weight", "most"),
    [
        (10, 100, 1.0, (1, 1)), (10, 1000, 1.0, (1, 1)), (10, 2000, 1.0, (1, 1)),
        (10, 2000, 4.0, (1, 2)), (11, 2000, 1.0, (1, 2)), (10, 10_000, 1.0, (2, 2)),
        (10, 2**17, 4.0, (2, 2)), (52, 10_000, 1.0, (7, 7)), (100, 2000, 1.0, (12, 13)),
        (1000, 2000, 4.0, (112, 124)),
    ],
)  # fmt: skip
def test_ciphertexts_of_an_exchange_and_of_the_opening(
    num_classes: int, num_clients: int, largest_weight: float, most: tuple[int, int]
) -> None:
    """They take no more than this; up to 2047 nodes of ten classes an exchange is one."""
    numbers = PriceNumbers(num_classes, num_clients, largest_weight)
    for opening, largest in zip((False, True), most, strict=True):
        slots = Slots(numbers.num_slots(opening=opening), numbers.max_value)
        assert Layout(2048, num_clients, {"prices": slots}).num_ciphertexts("prices") <= largest


@pytest.mark.parametrize(
    ("slots", "value"),
    [
        pytest.param([0], -1, id="negative"),
        pytest.param([0], 51, id="beyond the largest"),
        pytest.param([6], 50, id="all volunteer"),
        pytest.param([6], 0, id="nobody volunteers"),
        pytest.param([7], 50, id="moment"),
        pytest.param([9], 50, id="weight"),
        pytest.param([12], 0, id="matrix"),
        pytest.param(range(6), 0, id="softplus"),
    ],
)
def test_sums_that_no_clients_can_have_given_are_refused(slots: list[int], value: int) -> None:
    """The refusal is the same sentence whatever is wrong."""
    numbers = PriceNumbers(3, 50)
    state = state_at(numbers, np.array([-1.0, 1.0, 0.0, -1.0]))
    sums = summed(numbers, state, clients_of(numbers, 50, seed=7))
    numbers.decode(sums, 50, state.query())
    for unfit in (sums[:-1], np.append(sums, 0)):
        with pytest.raises(RefusedError, match="are not those of nodes"):
            numbers.decode(unfit, 50, state.query())
    sums[list(slots)] = value * numbers.max_value
    with pytest.raises(RefusedError, match="are not those of nodes"):
        numbers.decode(sums, 50, state.query())


@pytest.mark.parametrize("values", [(1, 10, 1.0), (2, 0, 1.0), (2, 10, 0.5), (2, 10, float("nan"))])
def test_unfit_sizes_are_refused(values: tuple[int, int, float]) -> None:
    """There are two classes, a client, and no weight but from 1 up."""
    with pytest.raises(SettingsError, match="must be at least"):
        PriceNumbers(*values)
