"""Tests of the settings: what cannot work is refused before the first message."""

from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dubhe_flwr.core import Codebook
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings, decode, encode
from dubhe_flwr.protocol.messages import JoinRequest

VALID: dict[str, Any] = {"num_participants": 20, "reference_set": (1, 2, 10)}


def test_defaults_are_the_papers() -> None:
    """The paper's thresholds, ten tries, and a quorum of the smallest cohort."""
    settings = Settings(**VALID)
    assert settings.thresholds == {1: 0.7, 2: 0.1}
    assert settings.codebook == Codebook((1, 2, 10))
    assert (settings.tries, settings.registration_interval, settings.rounds_per_draw) == (10, 50, 1)
    assert (settings.min_cohort, settings.quorum, settings.key_bits) == (3, 3, 2048)


def test_a_reference_set_is_put_in_order() -> None:
    """Any iterable of sizes will do, and it is read once."""
    settings = Settings(
        num_participants=5, reference_set=iter([10, 1, 2, 1]), thresholds={2: 0.2, 1: 0.5}
    )
    assert settings.reference_set == (1, 2, 10)
    assert settings.thresholds is not None
    assert list(settings.thresholds.items()) == [(1, 0.5), (2, 0.2)]


def test_what_is_announced_is_what_was_set() -> None:
    """Each parameter that a node checks reaches it."""
    settings = Settings(
        num_participants=4,
        reference_set=(1, 3),
        thresholds={1: 0.5},
        tries=6,
        registration_interval=7,
        min_cohort=2,
        key_bits=512,
        max_clients=80,
        max_draws_per_epoch=90,
        max_sums_per_epoch=11,
        seed=5,
    )
    assert settings.announced() == JoinRequest(
        *((1, 3), (0.5,), 4, 512, 80, 2, 90, 11, 5),
        *(1, 0, False, 1.0, 0.1, 0.0),
    )


def test_what_is_announced_of_calibration_and_groups() -> None:
    """Numbers travel as floats, and the size of the groups only where there are groups."""
    options: dict[str, Any] = VALID | {"tries": 6, "group_size": 5, "coverage": 2, "floor": 1}
    calibrated = Settings(**options, participation="calibrated", local_skew=1).announced()
    assert (calibrated.volunteer_tries, calibrated.group_size) == (1, 0)
    assert calibrated.calibrated is True
    weights = calibrated.coverage, calibrated.floor, calibrated.local_skew
    assert weights == (2.0, 1.0, 1.0)
    assert {type(weight) for weight in weights} == {float}
    grouped = Settings(**options, determination="grouped").announced()
    assert (grouped.volunteer_tries, grouped.group_size, grouped.calibrated) == (6, 5, False)
    alone = Settings(**options, determination="one-off").announced()
    assert (alone.volunteer_tries, alone.group_size) == (1, 0)


@pytest.mark.parametrize(("determination", "draws"), [("tries", 6), ("grouped", 1), ("one-off", 1)])
def test_only_tries_are_drawn_one_by_one(determination: Any, draws: int) -> None:
    """Groups are cut from the volunteers of a single draw."""
    settings = Settings(**VALID, tries=6, determination=determination)
    assert settings.draws_per_round == draws


def test_numbers_of_numpy_become_plain_ones() -> None:
    """They can then travel, and seed a generator."""
    names = ("num_participants", "tries", "quorum", "min_cohort", "seed", "max_clients")
    settings = Settings(**VALID | {name: np.int64(20) for name in names} | {"tries": np.int8(9)})
    assert {type(getattr(settings, name)) for name in names} == {int}
    assert decode(JoinRequest, encode(settings.announced())) == settings.announced()


def test_without_a_seed_none_is_announced() -> None:
    """Nodes then draw in private, whatever their policy."""
    assert Settings(**VALID).announced().seed == -1
    assert Settings(**VALID, seed=0).announced().seed == 0


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
        ({"max_clients": 19}, "num_participants=20 is above max_clients=19; raise max_clients"),
        ({"max_unregistered": 1.1}, "max_unregistered=1.1 must be a share from 0 to 1"),
        ({"max_unregistered": -0.1}, "max_unregistered=-0.1 must be a share"),
        ({"max_unregistered": float("nan")}, "max_unregistered=nan must be a share"),
        ({"max_draws_per_epoch": 499}, "make 500 draws, above max_draws_per_epoch=499; lower one"),
        ({"seed": -1}, "seed=-1 must be from 0 to"),
        ({"seed": 2**63}, "seed=9223372036854775808 must be from 0 to"),
        ({"num_classes": 9}, r"reference_set=\(1, 2, 10\) lacks num_classes=9"),
        ({"num_classes": 11}, r"reference_set=\(1, 2, 10\) lacks num_classes=11"),
        ({"reference_set": (1, 2, 11)}, "no default thresholds"),
        ({"reference_set": ()}, "must hold sizes of class sets"),
        ({"thresholds": {1: 0.7}}, "must name exactly the sizes"),
        ({"thresholds": {1: 0.7, 2: float("nan")}}, "no share of a client's data"),
        ({"key_bits": 1000}, "key_bits=1000 is no multiple of 16"),
        ({"key_bits": 16384}, "keys of 8192 bits, not 10 and 16384"),
        ({"participation": "uniform"}, r"participation='uniform' must be one of \('paper', 'cal"),
        ({"determination": ""}, r"determination='' must be one of \('tries', 'grouped', 'one-of"),
        (
            {"determination": "grouped", "group_size": 2},
            "group_size=2 must be from min_cohort=3 to num_participants=20",
        ),
        ({"determination": "grouped", "group_size": 21}, "group_size=21 must be from min_cohort=3"),
        ({"determination": "grouped", "group_size": 0}, "group_size=0 must be from min_cohort=3"),
        ({"coverage": -0.1}, "coverage=-0.1 must be from 0 to 1000000 and"),
        ({"coverage": float("nan")}, "coverage=nan must be from 0 to 1000000 and"),
        ({"coverage": 1000001}, "coverage=1000001 must be from 0 to 1000000 and"),
        ({"floor": -0.1}, "floor=-0.1 from 0 to 1"),
        ({"floor": 1.1}, "floor=1.1 from 0 to 1"),
        ({"floor": float("nan")}, "floor=nan from 0 to 1"),
        ({"local_skew": -0.1}, "local_skew=-0.1 must be from 0 to 1000; 1 is a lot already"),
        ({"local_skew": 1000.1}, "local_skew=1000.1 must be from 0 to 1000"),
        ({"local_skew": float("nan")}, "local_skew=nan must be from 0 to 1000"),
        (
            {"determination": "one-off", "registration_interval": 1001},
            "make 1001 draws, above max_draws_per_epoch=1000; lower one",
        ),
        ({"max_clients": 2**42}, "lower its max_value or max_clients"),
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
        {"max_draws_per_epoch": 500},
        {"determination": "grouped", "tries": 100, "max_draws_per_epoch": 50},
        {"determination": "grouped", "group_size": 3},
        {"determination": "grouped", "group_size": 20},
        {"group_size": 21},
        {"coverage": 0, "floor": 0, "local_skew": 0},
        {"coverage": 1e6, "floor": 1, "local_skew": 1000},
        {"max_sums_per_epoch": 0},
        {"seed": 2**63 - 1},
        {"num_classes": 10},
        {"tries": 2**10, "rounds_per_draw": 2**10, "max_draws_per_epoch": 2**20},
    ],
)
def test_a_setting_at_the_limit_is_accepted(change: dict[str, Any]) -> None:
    """The limits themselves are within."""
    assert Settings(**VALID | change).codebook.num_classes == 10


def test_trusted_keys_are_checked_and_not_announced() -> None:
    """Any iterable will do and is read once; nodes are told nothing of them."""
    keys = [Ed25519PrivateKey.generate().public_key() for _ in range(3)]
    settings = Settings(**VALID, trusted_keys=iter(keys))
    assert settings.trusted is not None
    assert len(settings.trusted) == len(Settings(**VALID, trusted_keys=keys).trusted or ()) == 3
    assert settings.announced() == Settings(**VALID).announced()
    assert Settings(**VALID).trusted is None
    for wrong in ([], [*keys, keys[0]], ["node.pub"]):
        with pytest.raises(SettingsError, match="trusted_keys"):
            Settings(**VALID, trusted_keys=wrong)  # type: ignore[arg-type]


def test_the_size_of_blocks_is_announced() -> None:
    """Nodes know from the start whether blocks are checked, and how small one may be."""
    assert Settings(**VALID).announced().block_size == 0
    assert Settings(**VALID, block_size=10).announced().block_size == 10
