"""Settings of a study are checked before anything runs."""

from typing import Any

import pytest

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.experiments import StudySettings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_clients": 0}, "num_clients=0 must be at least 1"),
        ({"num_samples": 0}, "num_samples=0"),
        ({"num_rounds": 0}, "num_rounds=0"),
        ({"tries": 0}, "tries=0"),
        ({"num_participants": 1001}, "above num_clients=1000; select fewer or simulate more"),
        ({"num_participants": 2}, "min_cohort=3 is above num_participants=2"),
        ({"generator": "zipf"}, r"generator='zipf' must be one of \('dirichlet', 'mixture'\)"),
        ({"participation": "luck"}, "participation='luck' must be one of"),
        ({"determination": "luck"}, "determination='luck' must be one of"),
        ({"determination": "grouped", "group_size": 2}, "group_size=2 must be from min_cohort=3"),
        ({"coverage": -1.0}, "coverage=-1.0"),
        ({"floor": 2.0}, "floor=2.0"),
        ({"local_skew": -1.0}, "local_skew=-1.0"),
        ({"thresholds": (0.7,)}, r"thresholds=\(0.7,\) must give one share for each .* \(1, 2\)"),
        ({"thresholds": (0.7, 1.1)}, r"thresholds\[2\]=1.1 is no share"),
        ({"reference_set": ()}, r"reference_set=\(\) must hold sizes"),
        ({"reference_set": (1, 52), "thresholds": "best"}, "'best' must be one of"),
        ({"num_classes": 52}, r"lacks num_classes=52 as its largest size; add it"),
        ({"registration_interval": 0}, "registration_interval=0 must be at least 1"),
        ({"registration_interval": 51}, "max_draws_per_epoch=1000"),
        ({"key_bits": 100}, "key_bits=100"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], message: str) -> None:
    """The sentence names value and remedy."""
    with pytest.raises(SettingsError, match=message):
        StudySettings(**given)


def test_thresholds_are_in_the_order_of_the_reference_set() -> None:
    """In whatever order that is given; the number of classes has none."""
    settings = StudySettings(reference_set=(10, 2, 1), thresholds=(0.1, 0.7))
    assert settings.protocol_settings().thresholds == {1: 0.7, 2: 0.1}
    assert StudySettings(reference_set=(10,), thresholds=()).protocol_settings().thresholds == {}


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        ({}, 50),
        ({"tries": 40}, 25),
        ({"tries": 1000}, 1),
        ({"tries": 40, "determination": "grouped"}, 25),
        ({"tries": 40, "determination": "one-off"}, 50),
        ({"registration_interval": 7}, 7),
    ],
)
def test_many_tries_shorten_the_epoch(given: dict[str, Any], interval: int) -> None:
    """The budget of draws holds, and is that of single draws where there are no tries."""
    settings = StudySettings(**given)
    assert settings.registration_interval == interval
    assert settings.protocol_settings().registration_interval == interval


@pytest.mark.parametrize("determination", ["tries", "grouped", "one-off"])
def test_a_search_by_tries_is_paid_for(determination: Any) -> None:
    """From the same budget, so that fewer rounds are left; where the paper has none, by default."""
    assert StudySettings(reference_set=(1, 52)).protocol_settings().thresholds == "search"
    settings = StudySettings(
        reference_set=(1, 52), tries=15, determination=determination, thresholds="search-tries"
    )
    interval = {"tries": 50, "grouped": 21, "one-off": 50}[determination]
    assert settings.registration_interval == interval


def test_everything_reaches_the_protocol() -> None:
    """Nothing that can be set is forgotten."""
    given: dict[str, Any] = {
        "num_participants": 30,
        "participation": "calibrated",
        "determination": "grouped",
        "tries": 7,
        "group_size": 5,
        "coverage": 2.0,
        "floor": 0.3,
        "local_skew": 0.4,
        "registration_interval": 9,
        "key_bits": 1024,
        "seed": 5,
    }
    protocol = StudySettings(**given, num_clients=123).protocol_settings()
    assert {name: getattr(protocol, name) for name in given} == given
    assert protocol.max_clients == 123
