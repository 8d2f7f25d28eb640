"""Tests of the settings: what cannot work is refused before the first message."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dubhe_flwr.core import Codebook
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings, decode, encode
from dubhe_flwr.protocol.messages import JoinRequest
from dubhe_flwr.protocol.parameters import epoch_parameters

VALID: dict[str, Any] = {"num_participants": 20, "reference_set": (1, 2, 10)}


def test_defaults() -> None:
    """The paper's thresholds, calibration, twenty tries or groups of four, and a small quorum."""
    settings = Settings(**VALID)
    assert settings.thresholds == {1: 0.7, 2: 0.1}
    assert settings.codebook == Codebook((1, 2, 10))
    assert (settings.tries, settings.registration_interval, settings.rounds_per_draw) == (20, 50, 1)
    assert (settings.min_cohort, settings.quorum, settings.key_bits) == (3, 3, 2048)
    assert (settings.participation, settings.determination) == ("calibrated", "auto")
    assert settings.group_size == 4
    assert (settings.coverage, settings.floor, settings.local_skew) == (0.1, 0.1, 0.5)
    assert (settings.max_unregistered, settings.max_changed) == (0.2, 0.2)
    assert (settings.max_clients, settings.block_size, settings.agent_attempts) == (10_000, 0, 3)
    assert (settings.max_draws_per_epoch, settings.max_sums_per_epoch) == (1000, 500)
    assert (settings.seed, settings.trusted_keys, settings.on_failure) == (None, None, "raise")


@pytest.mark.parametrize(
    ("num_participants", "min_cohort", "group_size"), [(3, 2, 3), (3, 3, 3), (20, 3, 4), (20, 6, 6)]
)
def test_the_usual_group_fits_the_cohort_and_the_round(
    num_participants: int, min_cohort: int, group_size: int
) -> None:
    """Four clients, but no fewer than the cohort and no more than the participants."""
    settings = Settings(
        num_participants=num_participants, min_cohort=min_cohort, reference_set=(1, 2, 10)
    )
    assert settings.group_size == group_size


@pytest.mark.parametrize(
    ("determination", "grouped"),
    [("auto", (False, True)), ("tries", (False, False)), ("grouped", (True, True))],
)
def test_groups_where_there_are_enough_nodes(
    determination: Any, grouped: tuple[bool, bool]
) -> None:
    """By itself from five times as many nodes as participants on."""
    settings = Settings(**VALID, determination=determination)
    assert (settings.groups(99), settings.groups(100)) == grouped
    announced = [settings.announced(99), settings.announced(100)]
    assert tuple(a.group_size == 4 and a.volunteer_tries == 20 for a in announced) == grouped


@pytest.mark.parametrize(
    ("num_participants", "num_nodes", "grouped"),
    [(10, 231, False), (10, 232, True), (5, 1000, False), (8, 1000, True), (100, 1000, True)],
)
def test_no_groups_without_many_choices(
    num_participants: int, num_nodes: int, grouped: bool
) -> None:
    """Two groups of many leave few choices, and one group fewer than the tries."""
    settings = Settings(num_participants=num_participants, reference_set=(1, 2, 10))
    assert settings.groups(num_nodes) == grouped


def test_exactly_as_many_choices_as_are_many() -> None:
    """Three of twelve groups are 220 choices, twenty for each of eleven tries."""
    settings = Settings(num_participants=12, tries=11, reference_set=(1, 2, 10))
    assert settings.groups(96)
    assert not settings.groups(95)


def test_as_many_moments_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is within."""
    parameters = epoch_parameters(Settings(**VALID).announced(10_000))
    number = parameters.layout.num_ciphertexts("moments")
    monkeypatch.setattr("dubhe_flwr.protocol.settings_limits._MOST_MOMENTS", number)
    assert Settings(**VALID).participation == "calibrated"
    monkeypatch.setattr("dubhe_flwr.protocol.settings_limits._MOST_MOMENTS", number - 1)
    with pytest.raises(SettingsError, match=f"takes {number} ciphertexts of each client"):
        Settings(**VALID)


def test_thresholds_are_searched_for_where_the_paper_gives_none() -> None:
    """The grid is announced whole, and after a search only what it found."""
    settings = Settings(num_participants=5, reference_set=(1, 3, 7))
    assert settings.thresholds == "search"
    assert len(settings.candidates) == settings.announced(50).num_candidates == 9
    assert settings.fallback_candidate == 4
    assert settings.announced(50, {1: 0.5, 3: 0.2}).thresholds == (0.5, 0.2)


def test_with_one_category_there_is_nothing_to_search() -> None:
    """C alone has no threshold."""
    settings = Settings(num_participants=5, reference_set=(7,), thresholds="search")
    assert settings.thresholds == {}
    assert settings.announced(50).num_candidates == 1


def test_a_search_falls_back_to_the_papers_thresholds() -> None:
    """Where the paper gives some."""
    settings = Settings(**VALID, thresholds="search")
    assert settings.candidates[settings.fallback_candidate] == {1: 0.7, 2: 0.1}


def test_a_reference_set_is_put_in_order() -> None:
    """Any iterable of sizes will do, and it is read once."""
    settings = Settings(
        num_participants=5, reference_set=iter([10, 1, 2, 1]), thresholds={2: 0.2, 1: 0.5}
    )
    assert settings.reference_set == (1, 2, 10)
    assert isinstance(settings.thresholds, dict)
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
    assert settings.announced(100) == JoinRequest(
        *((1, 3), (0.5,), 4, 512, 80, 2, 90, 11, 5),
        *(1, 0, True, 0.1, 0.1, 0.5),
    )


def test_what_is_announced_of_calibration_and_groups() -> None:
    """Numbers travel as floats, and the size of the groups only where there are groups."""
    options: dict[str, Any] = VALID | {"tries": 6, "group_size": 5, "coverage": 2, "floor": 1}
    calibrated = Settings(**options, determination="tries", local_skew=1).announced(100)
    assert (calibrated.volunteer_tries, calibrated.group_size) == (1, 0)
    assert calibrated.calibrated is True
    weights = calibrated.coverage, calibrated.floor, calibrated.local_skew
    assert weights == (2.0, 1.0, 1.0)
    assert {type(weight) for weight in weights} == {float}
    grouped = Settings(**options, participation="paper", determination="grouped").announced(100)
    assert (grouped.volunteer_tries, grouped.group_size, grouped.calibrated) == (6, 5, False)
    alone = Settings(**options, determination="one-off").announced(100)
    assert (alone.volunteer_tries, alone.group_size) == (1, 0)


def test_numbers_of_numpy_become_plain_ones() -> None:
    """They can then travel, and seed a generator."""
    names = ("num_participants", "tries", "quorum", "min_cohort", "seed", "max_clients")
    settings = Settings(**VALID | {name: np.int64(20) for name in names} | {"tries": np.int8(9)})
    assert {type(getattr(settings, name)) for name in names} == {int}
    assert decode(JoinRequest, encode(settings.announced(100))) == settings.announced(100)


def test_without_a_seed_none_is_announced() -> None:
    """Nodes then draw in private, whatever their policy."""
    assert Settings(**VALID).announced(100).seed == -1
    assert Settings(**VALID, seed=0).announced(100).seed == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"num_classes": 9}, r"reference_set=\(1, 2, 10\) lacks num_classes=9"),
        ({"num_classes": 11}, r"reference_set=\(1, 2, 10\) lacks num_classes=11"),
        ({"reference_set": (1, 2, 3, 4, 10)}, "has 81 candidates, above 64; leave out a size or"),
        ({"thresholds": "best"}, r"thresholds='best' must be one of \('search', 'search-tries'\)"),
        ({"reference_set": ()}, "must hold sizes of class sets"),
        ({"thresholds": {1: 0.7}}, "must name exactly the sizes"),
        ({"thresholds": {1: 0.7, 2: float("nan")}}, "no share of a client's data"),
        ({"key_bits": 1000}, "key_bits=1000 is no multiple of 16"),
        ({"key_bits": 16384}, "keys of 8192 bits, not 10 and 16384"),
        ({"max_clients": 2**42}, "lower its max_value or max_clients"),
        (
            {"reference_set": (1, 2, 62), "thresholds": {1: 0.7, 2: 0.1}, "key_bits": 512},
            "with the 1954 categories .*; choose participation='paper' or leave out a size",
        ),
    ],
)
def test_a_codebook_that_cannot_work_is_refused(change: dict[str, Any], sentence: str) -> None:
    """The error is one sentence with the value and the remedy."""
    with pytest.raises(SettingsError, match=sentence):
        Settings(**VALID | change)


def test_trusted_keys_are_checked_and_not_announced() -> None:
    """Any iterable will do and is read once; nodes are told nothing of them."""
    keys = [Ed25519PrivateKey.generate().public_key() for _ in range(3)]
    settings = Settings(**VALID, trusted_keys=iter(keys))
    assert settings.trusted is not None
    assert len(settings.trusted) == len(Settings(**VALID, trusted_keys=keys).trusted or ()) == 3
    assert settings.announced(100) == Settings(**VALID).announced(100)
    assert Settings(**VALID).trusted is None
    for wrong in ([], [*keys, keys[0]], ["node.pub"]):
        with pytest.raises(SettingsError, match="trusted_keys"):
            Settings(**VALID, trusted_keys=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [5, "keys.txt", Path("keys.txt"), b"key"])
def test_what_is_no_collection_of_keys_is_refused(keys: Any) -> None:
    """A file name is not read silently; the sentence says what reads it."""
    with pytest.raises(SettingsError, match=r"trusted_keys is a .*load_trusted_keys"):
        Settings(num_participants=5, reference_set=(1, 10), trusted_keys=keys)


def test_the_size_of_blocks_is_announced() -> None:
    """Nodes know from the start whether blocks are checked, and how small one may be."""
    assert Settings(**VALID).announced(100).block_size == 0
    assert Settings(**VALID, block_size=10).announced(100).block_size == 10
