"""Tests of the checks of the settings: what cannot work is refused before the first message."""

from typing import Any

import pytest

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings

VALID: dict[str, Any] = {"num_participants": 20, "reference_set": (1, 2, 10)}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"num_participants": 0}, "num_participants=0 must be at least 1"),
        ({"tries": 0}, "tries=0 must be at least 1"),
        ({"registration_interval": 0}, "registration_interval=0 must be at least 1"),
        ({"rounds_per_draw": 0}, "rounds_per_draw=0 must be at least 1"),
        ({"min_cohort": 1}, "min_cohort=1 must be at least 2"),
        ({"agent_attempts": 0}, "agent_attempts=0 must be at least 1"),
        ({"max_sums_per_epoch": -1}, "max_sums_per_epoch=-1 must be at least 0"),
        ({"num_participants": 2}, "min_cohort=3 is above num_participants=2; select more"),
        ({"quorum": 2}, "quorum=2 is below min_cohort=3; raise it"),
        ({"quorum": -1}, "quorum=-1 must be at least 0"),
        ({"quorum": 3.0}, "quorum=3.0 must be a whole number"),
        ({"tries": 2.5}, "tries=2.5 must be a whole number"),
        ({"num_participants": "20"}, "num_participants='20' must be a whole number"),
        ({"key_bits": None}, "key_bits=None must be a whole number"),
        ({"seed": 7.0}, "seed=7.0 must be a whole number"),
        ({"num_classes": [10]}, r"num_classes=\[10\] must be a whole number"),
        ({"num_classes": "10"}, "num_classes='10' must be a whole number"),
        ({"num_classes": 10.5}, "num_classes=10.5 must be a whole number"),
        ({"max_clients": 19}, "num_participants=20 is above max_clients=19; raise max_clients"),
        ({"max_unregistered": 1.1}, "max_unregistered=1.1 must be a share from 0 to 1"),
        ({"max_unregistered": -0.1}, "max_unregistered=-0.1 must be a share"),
        ({"max_unregistered": float("nan")}, "max_unregistered=nan must be a share"),
        ({"max_draws_per_epoch": 999}, "make 1000 draws, above max_draws_per_epoch=999; lower one"),
        (
            {"determination": "grouped", "max_draws_per_epoch": 999},
            "make 1000 draws, above max_draws_per_epoch=999; lower one",
        ),
        (
            {"determination": "tries", "thresholds": "search-tries", "registration_interval": 42},
            "registration_interval=42 rounds make up to 1020 draws, above max_draws_per_epoch=1000",
        ),
        (
            {"thresholds": "search-tries", "tries": 10, "registration_interval": 11},
            "make up to 1010 draws, above max_draws_per_epoch=1000; lower one of them, choose",
        ),
        ({"seed": -1}, "seed=-1 must be from 0 to"),
        ({"seed": 2**63}, "seed=9223372036854775808 must be from 0 to"),
        ({"participation": "uniform"}, r"participation='uniform' must be one of \('paper', 'cal"),
        ({"determination": ""}, r"determination='' must be one of \('auto', 'tries', 'grouped'"),
        (
            {"determination": "grouped", "group_size": 2},
            "group_size=2 must be from min_cohort=3 to num_participants=20",
        ),
        ({"determination": "grouped", "group_size": 21}, "group_size=21 must be from min_cohort=3"),
        ({"group_size": 21}, "group_size=21 must be from min_cohort=3"),
        ({"group_size": -1}, "group_size=-1 must be at least 0"),
        ({"group_size": 4.0}, "group_size=4.0 must be a whole number"),
        ({"max_changed": 1.1}, "max_changed=1.1 must be a share from 0 to 1"),
        ({"max_changed": float("nan")}, "max_changed=nan must be a share from 0 to 1"),
        ({"coverage": -0.1}, "coverage=-0.1 must be from 0 to 1000000"),
        ({"coverage": float("nan")}, "coverage=nan must be from 0 to 1000000"),
        ({"coverage": 1000001}, "coverage=1000001 must be from 0 to 1000000"),
        ({"floor": -0.1}, "floor=-0.1 must be a share from 0 to 1"),
        ({"floor": 1.1}, "floor=1.1 must be a share from 0 to 1"),
        ({"floor": float("nan")}, "floor=nan must be a share from 0 to 1"),
        ({"floor": None}, "floor=None must be a share from 0 to 1"),
        ({"max_changed": "0.2"}, "max_changed='0.2' must be a share from 0 to 1"),
        ({"coverage": "0.1"}, "coverage='0.1' must be from 0 to 1000000"),
        ({"local_skew": "no"}, "local_skew='no' must be from 0 to 1000"),
        ({"reference_set": 10}, r"reference_set=10 must hold whole numbers, as in \(1, 2, 10\)"),
        ({"reference_set": "1,2,10"}, "reference_set='1,2,10' must hold whole numbers"),
        ({"reference_set": (1, 2.5, 10)}, r"reference_set=\(1, 2.5, 10\) must hold whole numbers"),
        ({"thresholds": (0.7, 0.1)}, r"thresholds=\(0.7, 0.1\) must map sizes to shares, as in"),
        ({"thresholds": {1: "0.7", 2: 0.1}}, r"thresholds\[1\]='0.7' is no share"),
        ({"local_skew": -0.1}, "local_skew=-0.1 must be from 0 to 1000; 1 is a lot already"),
        ({"local_skew": 1000.1}, "local_skew=1000.1 must be from 0 to 1000"),
        ({"local_skew": float("nan")}, "local_skew=nan must be from 0 to 1000"),
        (
            {"determination": "one-off", "registration_interval": 1001},
            "make 1001 draws, above max_draws_per_epoch=1000; lower one",
        ),
        *(
            (
                {"tries": 2**11, "rounds_per_draw": 2**10, "determination": determination},
                "rounds_per_draw=1024 rounds are more than 1048576 draws in one message",
            )
            for determination in ("auto", "tries")
        ),
        ({"max_clients": 0}, "max_clients=0 must be at least 1"),
        ({"max_draws_per_epoch": 0}, "max_draws_per_epoch=0 must be at least 1"),
        ({"key_bits": 496}, "key_bits=496 must be at least 512"),
        ({"max_clients": 2**63}, r"max_clients=\d+ must be at least 1, and below 2\*\*63"),
        ({"block_size": -1}, "block_size=-1 must be at least 0"),
        ({"block_size": 3}, "block_size=3 must be above min_cohort=3"),
        ({"block_size": 10_001}, "block_size=10001 must be .* up to max_clients=10000"),
        ({"reference_set": (1, 2, 3, 4, 10)}, "has 81 candidates, above 64; leave out a size or"),
        ({"trusted_keys": "keys.txt"}, "trusted_keys is a str; read the keys from a file"),
        (
            {"tries": 2**11, "rounds_per_draw": 2**10, "max_draws_per_epoch": 2**20},
            "rounds_per_draw=1024 rounds are more than 1048576 draws in one message",
        ),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change: dict[str, Any], sentence: str) -> None:
    """The error is one sentence with the value and the remedy."""
    with pytest.raises(SettingsError, match=sentence):
        Settings(**VALID | change)


@pytest.mark.parametrize(
    "change",
    [
        {"num_participants": 3},
        {"num_participants": 2, "min_cohort": 2},
        {"quorum": 3},
        {"quorum": 500},
        {"max_clients": 20},
        {"max_unregistered": 0.0},
        {"max_unregistered": 1.0},
        {"max_draws_per_epoch": 1000},
        {"determination": "grouped", "tries": 100, "max_draws_per_epoch": 5000},
        {"determination": "one-off", "tries": 100, "max_draws_per_epoch": 50},
        {"determination": "tries", "thresholds": "search-tries", "registration_interval": 41},
        {"determination": "one-off", "thresholds": "search-tries", "registration_interval": 820},
        {"thresholds": "search-tries", "tries": 10, "registration_interval": 10},
        {"determination": "grouped", "group_size": 3},
        {"determination": "grouped", "group_size": 20},
        {"determination": "tries", "group_size": 21},
        {"determination": "one-off", "group_size": 1},
        {"max_changed": 0.0},
        {"max_changed": 1.0},
        {"coverage": 0, "floor": 0, "local_skew": 0},
        {"coverage": 1e6, "floor": 1, "local_skew": 1000},
        {"max_sums_per_epoch": 0},
        {"key_bits": 512},
        {"block_size": 0},
        {"block_size": 4},
        {"block_size": 10_000},
        {"seed": 0},
        {"seed": 2**63 - 1},
        {"num_classes": 10},
        {"tries": 2**10, "rounds_per_draw": 2**10, "max_draws_per_epoch": 2**20},
        {"tries": 2**11, "rounds_per_draw": 2**10, "determination": "one-off"},
    ],
)
def test_a_setting_at_the_limit_is_accepted(change: dict[str, Any]) -> None:
    """The limits themselves are within."""
    assert Settings(**VALID | change).codebook.num_classes == 10
