"""Settings of a comparison are checked before anything runs."""

import importlib.util
from typing import Any

import pytest
from small_comparison import small_settings

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.experiments import CompareSettings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset": "imagenet"}, r"dataset='imagenet' is unknown; choose one of digits, mnist"),
        ({"methods": ("random", "luck")}, r"'luck'; choose from random, dubhe-one-off"),
        ({"methods": ()}, "at least one method"),
        ({"methods": ("random", "random")}, "each once"),
        ({"cohort": "always"}, r"cohort='always' is unknown; choose one of auto, on, off"),
        ({"engine": "ray", "cohort": "on"}, "in one process; choose engine='inprocess'"),
        ({"engine": "spark"}, r"engine='spark' is unknown; choose one of inprocess, ray"),
        ({"num_clients": 0}, "num_clients=0 must be at least 1"),
        ({"num_samples": 0}, "num_samples=0"),
        ({"num_rounds": 0}, "num_rounds=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"epochs": -1}, "epochs=-1"),
        ({"evaluate_every": 0}, "evaluate_every=0"),
        ({"num_threads": 0}, "num_threads=0"),
        ({"tries": 0}, "tries=0"),
        ({"num_participants": 25}, "above num_clients=24; select fewer or simulate more"),
        ({"num_participants": 2}, "min_cohort=3 is above num_participants=2"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"seed": -1}, "seed=-1"),
        ({"key_bits": 100}, "key_bits=100"),
        ({"tries": 1001}, "tries=1001"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], message: str) -> None:
    """The sentence names value and remedy."""
    with pytest.raises(SettingsError, match=message):
        CompareSettings.for_dataset(
            given.get("dataset", "digits"),
            **{"num_clients": 24, **{name: given[name] for name in given if name != "dataset"}},
        )


def test_only_dubhe_needs_keys_and_cohorts() -> None:
    """Limits of the protocol do not bind the baselines."""
    assert small_settings(methods=("random",), num_participants=1, key_bits=1).key_bits == 1


def test_none_stands_for_the_default_of_the_data_set() -> None:
    """What the command line was not given does not shadow a default."""
    assert CompareSettings.for_dataset("digits", num_clients=None).num_clients == 150
    assert CompareSettings.for_dataset("mnist", num_clients=None).num_clients == 1000


@pytest.mark.parametrize("tries", [1, 20, 40, 1000])
def test_many_tries_shorten_the_epoch(tries: int) -> None:
    """The budget of draws holds for any number of tries, with one epoch for few of them."""
    protocol = small_settings(tries=tries).protocol_settings("dubhe")
    assert protocol.tries == tries
    assert protocol.registration_interval * tries <= protocol.max_draws_per_epoch
    assert protocol.registration_interval == 50 or tries > 20


def test_ray_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the message names it."""
    monkeypatch.setattr("dubhe_flwr.experiments.settings.find_spec", lambda _name: None)
    with pytest.raises(SettingsError, match=r"dubhe-flwr\[simulation\]"):
        small_settings(engine="ray")
    assert importlib.util.find_spec("numpy") is not None
