"""Tests of how numbers travel as integers, and of the room for their noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core.prices import UNIT, PriceDesign
from dubhe_flwr.core.prices.numbers import ROOM
from dubhe_flwr.he.layout import Layout
from dubhe_flwr.rules import Frame, Prices


@given(
    num_joined=st.integers(20, 2000),
    num_participants=st.integers(3, 500),
    num_classes=st.integers(2, 100),
    weight=st.sampled_from([1.0, 4.0]),
    noise=st.sampled_from([1.0, Prices.noise, 10.0]),
    opening=st.booleans(),
    continues=st.booleans(),
)
def test_a_slot_has_room_for_a_nodes_noise(  # noqa: PLR0917 - one for each strategy
    num_joined: int,
    num_participants: int,
    num_classes: int,
    weight: float,
    noise: float,
    opening: bool,
    continues: bool,
) -> None:
    """No number is clipped, in any federation with prices whose sums cover half of the nodes."""
    volunteers = max(12.0, min(5.0 * num_participants, 0.6 * num_joined))
    rule, frame = Prices(noise=noise), Frame(num_classes, 2000, weight, continues)
    numbers, sigma = rule._fixed_point(frame, opening=opening), rule._sigma(frame)
    design = PriceDesign(num_classes, 2, volunteers, 1.0, largest_weight=weight, sigma=sigma)
    deviations = design.deviations(num_joined, opening=opening)
    worst = np.ceil(ROOM * deviations / (num_joined / 2) ** 0.5 * UNIT).astype(np.int64)
    zero, own = np.zeros(worst.size), np.full(worst.size, weight)
    assert (numbers.encode(zero, -worst) == numbers.room - worst).all()
    assert (numbers.encode(own, worst) == numbers.room + worst + int(weight * UNIT)).all()
    assert (numbers.encode(2 * own, worst) == numbers.encode(own, worst)).all()
    sums = numbers.encode(own, worst) + numbers.encode(zero, -worst)
    assert numbers.means(sums, 2) == pytest.approx(own / 2)


def test_more_volunteers_lower_the_noise_only_so_far() -> None:
    """The opening has N / V times the noise of a class, but never less than 5 / 3 times."""
    for volunteers, ratio in [(24.0, 50.0), (720.0, 5 / 3), (1199.0, 5 / 3)]:
        design = PriceDesign(4, 6, volunteers, 1.0, sigma=2.0)
        assert design.deviations(1200, opening=True) == pytest.approx([ratio] * 5)


@pytest.mark.parametrize(
    ("num_classes", "num_clients", "largest_weight", "most"),
    [(52, 10_000, 1.0, 1), (60, 2000, 1.0, 1), (100, 2000, 4.0, 2), (1000, 2000, 4.0, 17)],
)
def test_ciphertexts(num_classes: int, num_clients: int, largest_weight: float, most: int) -> None:
    """A contribution takes one ciphertext of 2048 bits up to 60 classes, and two at 100."""
    frame = Frame(num_classes, num_clients, largest_weight)
    fields = {
        "opening": Prices().registration_slots(frame),
        "later": Prices().settlement_slots(frame),
    }
    layout = Layout(2048, num_clients, fields)
    assert max(map(layout.num_ciphertexts, fields)) <= most
