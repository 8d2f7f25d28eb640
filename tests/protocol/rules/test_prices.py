"""Tests of prices through real sessions: nodes fit the same prices to the same sums."""

from typing import Any

import pytest
from protocol.federation import (
    epoch_of,
    joined,
    priced,
    reading_of,
)

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.rules import Frame, Prices, Tries

TARGET = (0.4, 0.3, 0.2, 0.1)


def test_nodes_find_the_same_prices() -> None:
    """Nodes settle after some exchanges, at the same prices."""
    nodes = priced(num_participants=15)
    plan = nodes.play(1)
    assert (nodes.errors, plan.notes) == ([], ())
    assert 1 <= epoch_of(nodes).last_sum.exchange <= 8
    assert len({joined(nodes, node_id).state for node_id in nodes.ids}) == 1
    assert len({reading_of(nodes, node_id).probability for node_id in nodes.ids}) > 4
    assert plan.privacy is not None
    (spent,) = {joined(nodes, node_id).budget.spent for node_id in nodes.ids}
    assert spent == pytest.approx(plan.privacy.num_sums / plan.privacy.most_sums)


@pytest.mark.parametrize("num_participants", [4, 11])
def test_below_twelve_volunteers_there_are_no_prices(num_participants: int) -> None:
    """Noise would drown the sums; without noise there are prices all the same."""
    nodes = priced(num_participants=num_participants, determination=Tries(1))
    assert nodes.play(1).privacy is None
    found = {reading_of(nodes, node_id).probability for node_id in nodes.ids}
    assert found == {num_participants / 60}
    nodes = priced(num_participants=num_participants, rule=Prices(noise=0.0))
    assert nodes.play(1).privacy is None
    assert len({reading_of(nodes, node_id).probability for node_id in nodes.ids}) > 4


def test_the_budget_is_four_times_the_variance() -> None:
    """Later epochs have more noise; without noise or in too small a pool nothing is counted."""
    first, later = Frame(10, 1000), Frame(10, 1000, continues=True)
    assert [Prices().sum_budget(frame, 12) for frame in (first, later)] == [9, 36]
    assert Prices(noise=2.0).sum_budget(first, 20) == 16
    assert Prices(noise=0.0).sum_budget(first, 20) is None
    assert Prices().sum_budget(first, 11) is None


def test_an_epoch_spends_at_most_two_thirds_of_the_budget() -> None:
    """With noise, the budget limits an epoch's sums; without noise, prices may take all nine."""
    first, later = Frame(10, 1000), Frame(10, 1000, continues=True)
    assert [Prices().num_sums(frame, 1000) for frame in (first, later)] == [6, 9]
    assert Prices(noise=1.0).num_sums(first, 1000) == 2
    assert Prices(noise=0.0).num_sums(first, 1000) == 9
    assert 6 * Prices().heaviest ** 2 <= 9  # even for the heaviest node
    bound = Prices().privacy(Frame(10, 1000, 4.0), 40, 6)
    assert bound is not None
    assert bound.epoch < bound.budget


class TestSettings:
    """The operator's settings are what nodes read."""

    def test_the_description_shows_the_settings(self) -> None:
        """The log shows the settings; prices stay private."""
        assert Prices(0.1, 1.0, TARGET).describe((0.5,)) == (
            "prices: coverage 0.1, local skew 1, with a target"
        )

    def test_a_target_fixes_the_number_of_classes(self) -> None:
        """The target's length is the number of classes; the federation's own mix fixes none."""
        assert (Prices().num_classes, Prices(target=TARGET).num_classes) == (None, 4)
        assert Prices(target="own").num_classes is None

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"coverage": "0.3"}, "coverage='0.3' must be a number"),
            ({"local_skew": None}, "local_skew=None must be a number"),
            ({"coverage": 0}, "coverage=0.0 must be above 0"),
            ({"coverage": float("nan")}, "coverage=nan must be from 0"),
            ({"coverage": 1001}, "coverage=1001.0 must be from 0 to 1000"),
            ({"noise": 0.5}, "noise=0.5 must be at least 1, or 0"),
            ({"local_skew": -0.1}, "local_skew=-0.1 must be from 0"),
            ({"target": [1.0]}, "a share for each class"),
            ({"target": [1.0, 0.0]}, "a share for each class"),
            ({"target": [1.5, -0.5]}, "a share for each class"),
            ({"target": [[0.5, 0.5]]}, "a share for each class"),
            ({"target": [float("nan"), 0.5]}, "a share for each class"),
            ({"target": [0.5, 0.4]}, "shares sum to 1"),
            ({"target": ["a", "b"]}, "must have a share"),
            ({"target": "others"}, "must have a share"),
            ({"noise": -1.0}, "noise=-1.0 must be from 0"),
            ({"noise": "1"}, "noise='1' must be a number"),
        ],
    )
    def test_what_cannot_work_is_refused(self, settings: dict[str, Any], match: str) -> None:
        """The error shows the value and what it must be."""
        with pytest.raises(SettingsError, match=match):
            Prices(**settings)

    def test_one_class_has_no_prices(self) -> None:
        """With one class, there is nothing to balance."""
        with pytest.raises(SettingsError, match="num_classes=1 must be at least 2"):
            Prices().registration_slots(Frame(1, 100))
