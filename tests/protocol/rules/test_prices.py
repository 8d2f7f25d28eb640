"""Tests of the rule of prices; a second implementation checks its selections."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.rules import Frame, Own, Population, Prices

TARGET = (0.4, 0.3, 0.2, 0.1)


def test_the_budget_limits_the_sums_of_an_epoch() -> None:
    """It is four times the variance, of which an epoch spends at most two thirds.

    Later epochs have more noise; without noise or with too few nodes nothing is counted.
    """

    def of(num_clients: int, num_participants: int, frame: Frame) -> Population:
        return Population(frame, num_clients, num_participants, num_clients)

    first, later = Frame(10, 1000), Frame(10, 1000, continues=True)
    assert [Prices().sum_budget(of(99, 12, frame)) for frame in (first, later)] == [9, 36]
    assert [Prices().num_sums(frame) for frame in (first, later)] == [6, 9]
    assert 6 * Prices().heaviest ** 2 <= 9  # even for the heaviest node
    assert Prices(noise=2.0).sum_budget(of(99, 20, first)) == 16
    assert Prices(noise=1.0).num_sums(first) == 2
    exact = Prices(noise=0.0)
    assert (exact.sum_budget(of(99, 20, first)), exact.num_sums(first)) == (None, 9)
    too_few = of(19, 11, first)
    assert Prices().sum_budget(too_few) is Prices().sum_budget(of(12, 12, first)) is None
    bound = Prices().privacy(of(99, 40, Frame(10, 1000, 4.0)), 6)
    assert bound is not None
    assert bound.epoch < bound.budget
    assert Prices().privacy(too_few, 6) is exact.privacy(of(99, 40, first), 6) is None


def test_prices_that_start_afresh_in_each_epoch_are_still_prices() -> None:
    """Labels enter their sums, and every sum is counted."""

    class Afresh(Prices):
        def can_continue(self, population: Population) -> bool:
            return False

    population = Population(Frame(2, 99), 99, 12, 99)
    assert Afresh().sum_budget(population) == 9
    owns = [Own(np.array(counts)) for counts in ([5, 0], [0, 5])]
    first, second = (Afresh(noise=0.0).contribution(own, population) for own in owns)
    assert first.tolist() != second.tolist()


def test_the_description_shows_the_settings() -> None:
    """The log shows the settings; prices stay private."""
    assert Prices(0.1, 1.0, TARGET).describe((0.5,)) == (
        "prices: coverage 0.1, local skew 1, with a target"
    )


def test_a_target_fixes_the_number_of_classes() -> None:
    """The target's length is the number of classes; the federation's own mix fixes none.

    With one class, there is nothing to balance.
    """
    assert (Prices().num_classes, Prices(target=TARGET).num_classes) == (None, 4)
    assert Prices(target=(0.3, 0.7)).num_classes == 2
    assert Prices(target="own").num_classes is None
    with pytest.raises(SettingsError, match="num_classes=1 must be at least 2"):
        Prices().registration_slots(Frame(1, 100))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"coverage": "0.3"}, "coverage='0.3' must be a number"),
        ({"local_skew": None}, "local_skew=None must be a number"),
        ({"noise": "1"}, "noise='1' must be a number"),
        ({"coverage": 0}, "coverage=0 must be from 0.005 to 1000"),
        ({"coverage": float("nan")}, "coverage=nan must be from 0"),
        ({"coverage": 1001}, "coverage=1001 must be from 0.005 to 1000"),
        ({"local_skew": 30}, "coverage=0.15 must be at least 0.155 with local_skew=30"),
        ({"local_skew": -0.1}, "local_skew=-0.1 must be from 0"),
        ({"noise": 0.5}, "noise=0.5 must be at least 1, or 0"),
        *(
            ({"target": target}, "a share for each class; shares sum to 1")
            for target in (
                *([1.0], [1.0, 0.0], [1.5, -0.5], [[0.5, 0.5]], [float("nan"), 0.5]),
                *([0.5, 0.4], ["a", "b"], "others"),
            )
        ),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], match: str) -> None:
    """The error shows the value and what it must be."""
    with pytest.raises(SettingsError, match=match):
        Prices(**settings)


def test_few_classes_have_a_blur() -> None:
    """The threat model gives the default."""
    for noise, size, blur in ((1.5, 4, 0.15), (3.0, 4, 0.15), (1.5, 10, 0.0), (0.0, 4, 0.0)):
        assert Prices(noise=noise).blur(Frame(size, 9)) == pytest.approx(blur)


def test_lasting_noise_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing it for each sum took half of the time of a study with few classes."""
    drawing = Mock(wraps=generator)
    monkeypatch.setattr("dubhe_flwr.protocol.rules.prices.generator", drawing)
    rule, population = Prices(), Population(Frame(3, 99), 60, 12, 60, num_members=3)
    own = Own(np.array([90, 9, 1]), lasting_seed=1017)
    total = 60 * rule.contribution(own, population)
    for _ in range(2):
        rule.settle(own, population, None, total)
    drawing.assert_called_once_with(1017, "blur")
