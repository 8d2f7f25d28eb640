"""Tests of a node's numbers, of the noise that hides them, and of reading their sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core.prices import Position, PriceDesign, PriceNumbers, PriceState, noise_scale
from dubhe_flwr.core.randomness import CLIP
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Layout, Slots

OPENING = pytest.mark.parametrize("opening", [True, False])


def test_sigma_is_a_twelfth_of_the_pool_between_1_and_4() -> None:
    """Sigma is V / 12, but at least 1 and at most 4; another sigma can be set."""
    assert [noise_scale(pool) for pool in (1, 12, 30, 48, 5000)] == [1.0, 1.0, 2.5, 4.0, 4.0]
    assert PriceNumbers(3, 50, noise=0.5).sigma(100.0) == 0.5


def test_deviations_follow_the_design() -> None:
    """Classes share sigma, P has all of it, and the opening has N / V times a class's noise."""
    numbers = PriceNumbers(4, 2000, largest_weight=4.0)
    assert numbers.deviations(900, 24.0, opening=False).tolist() == [1.0] * 4 + [2.0]
    assert numbers.deviations(1200, 24.0, opening=True).tolist() == [50.0] * 6
    of_classes = PriceNumbers(4, 2000).deviations(900, 24.0, opening=False)
    assert np.linalg.norm(of_classes) == pytest.approx(2.0)  # P is their sum


@OPENING
def test_noise_of_all_nodes_adds_up(*, opening: bool) -> None:
    """The noise of 1000 nodes adds up to the full variance within 10 %, with mean 0."""
    numbers, rng = PriceNumbers(10, 2000), np.random.default_rng(3)
    deviations = numbers.deviations(1000, 100.0, opening=opening)
    draws = np.array(
        [sum(numbers.draw_noise(deviations, 1 / 1000, rng) for _ in range(1000)) for _ in range(60)]
    )
    scaled = draws / 2**18 / deviations
    assert scaled.mean() == pytest.approx(0.0, abs=4 / 600**0.5)
    assert scaled.var() == pytest.approx(1.0, rel=4 * (2 / 600) ** 0.5)


def test_noise_is_gaussian_and_repeats_with_the_seed() -> None:
    """Its first four moments are within four standard errors, and the clip is at 6."""
    numbers, deviations = PriceNumbers(2, 10), np.ones(100_000)
    first, again, other = (
        numbers.draw_noise(deviations, 1.0, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
    drawn = first / 2**18
    assert drawn.mean() == pytest.approx(0.0, abs=4 / 1e5**0.5)
    assert drawn.var() == pytest.approx(1.0, abs=4 * (2 / 1e5) ** 0.5)
    assert (drawn**3).mean() == pytest.approx(0.0, abs=4 * (15 / 1e5) ** 0.5)
    assert (drawn**4).mean() == pytest.approx(3.0, abs=4 * (96 / 1e5) ** 0.5)
    assert np.abs(drawn).max() <= CLIP


@given(
    num_joined=st.integers(20, 2000),
    num_participants=st.integers(3, 500),
    num_classes=st.integers(2, 100),
    weight=st.sampled_from([1.0, 4.0]),
    noise=st.sampled_from([None, 0.5, 10.0]),
    opening=st.booleans(),
)
def test_a_slot_has_room_for_a_nodes_noise(  # noqa: PLR0917 - one for each strategy
    num_joined: int,
    num_participants: int,
    num_classes: int,
    weight: float,
    noise: float | None,
    opening: bool,
) -> None:
    """No number is clipped, in any federation with prices whose sums cover half of the nodes."""
    volunteers = min(5.0 * num_participants, 0.6 * num_joined)
    numbers = PriceNumbers(num_classes, 2000, weight, noise)
    deviations = numbers.deviations(num_joined, volunteers, opening=opening)
    worst = np.ceil(CLIP * deviations / (num_joined / 2) ** 0.5 * 2**18).astype(np.int64)
    own = np.full(deviations.size, weight)
    zero = numbers.encode(np.zeros(deviations.size), opening=opening)
    assert (numbers.encode(0 * own, -worst, opening=opening) == zero - worst).all()
    top = numbers.encode(own, worst, opening=opening)
    assert (top == zero + worst + int(weight * 2**18)).all()


@OPENING
def test_means_are_the_means_of_the_values(*, opening: bool) -> None:
    """The decoded means equal the values' means, up to half a unit of rounding."""
    numbers, rng = PriceNumbers(5, 100, largest_weight=4.0), np.random.default_rng(0)
    values = rng.uniform(0, 4, (80, numbers.num_slots(opening=opening)))
    sums = sum(numbers.encode(row, opening=opening) for row in values)
    found = numbers.means(sums, 80, np.zeros(values.shape[1]), opening=opening)
    assert found == pytest.approx(values.mean(axis=0), abs=2.0**-19)


@pytest.mark.parametrize("value", [-1.2, 2.2])
def test_means_beyond_the_slack_are_refused(value: float) -> None:
    """A mean outside the range of a node's numbers by more than the slack is refused."""
    numbers = PriceNumbers(3, 50)
    zero = 50 * numbers.encode(np.zeros(3), opening=False)
    sums = zero + np.array([int(50 * value * 2**18), 0, 0])
    assert numbers.means(sums, 50, np.full(3, 1.3), opening=False)[0] == pytest.approx(value)
    with pytest.raises(RefusedError, match="No nodes can have sent"):
        numbers.means(sums, 50, np.full(3, 1.1), opening=False)


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_a_contribution_has_first_moments_only(weight: float) -> None:
    """A node sends ``w p``, ``||w p||^2`` and ``w^2`` first, then ``P w p`` and P."""
    labels = weight / 2 * np.array([0.5, 0.25, 0.25])
    own, numbers = Position(labels, weight / 2), PriceNumbers(3, 50, weight)
    design, state = PriceDesign(5, 20.0), PriceState.first(numbers)
    zero = numbers.encode(np.zeros(4 + (weight > 1)), opening=True)
    found = (design.contribution(numbers, state, own) - zero) / 2**18
    squares = [labels @ labels / weight, weight / 4][: 1 + (weight > 1)]
    assert found == pytest.approx([*labels, *squares], abs=1e-5)


@pytest.mark.parametrize(
    ("num_classes", "num_clients", "largest_weight", "most"),
    [
        (2, 2000, 1.0, 1), (10, 100, 1.0, 1), (10, 2000, 1.0, 1), (52, 10_000, 1.0, 1),
        (60, 2000, 1.0, 1), (60, 2000, 4.0, 2), (100, 2000, 1.0, 2), (100, 2000, 4.0, 2),
        (1000, 2000, 4.0, 17),
    ],
)  # fmt: skip
@OPENING
def test_ciphertexts(
    num_classes: int, num_clients: int, largest_weight: float, most: int, *, opening: bool
) -> None:
    """A contribution takes one ciphertext of 2048 bits up to 60 classes, and two at 100."""
    numbers = PriceNumbers(num_classes, num_clients, largest_weight)
    slots = Slots(numbers.num_slots(opening=opening), numbers.max_value(opening=opening))
    assert Layout(2048, num_clients, {"prices": slots}).num_ciphertexts("prices") <= most


@pytest.mark.parametrize(
    "values",
    [
        (1, 10, 1.0),
        (2, 0, 1.0),
        (2, 10, 0.5),
        (2, 10, float("nan")),
        (2, 10, 1.0, -1.0),
        (2, 10, 1.0, float("nan")),
    ],
)
def test_unfit_sizes_are_refused(values: tuple[int, int, float]) -> None:
    """Fewer than two classes or one client, weights below 1 and negative noise are refused."""
    with pytest.raises(SettingsError, match=r"must be (at least|from 0)"):
        PriceNumbers(*values)
