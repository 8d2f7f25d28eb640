"""Tests of what a selector remembers."""

import json
from typing import Any

import pytest

from dubhe_flwr.baselines.past import Past
from dubhe_flwr.errors import CheckpointError

PAST = Past().followed_by(["5", "2"]).followed_by(["7"]).followed_by(["5"])


def test_rounds_and_choices_are_counted() -> None:
    """Each round counts once, each client as often as it was chosen."""
    assert PAST.num_rounds == 3
    assert PAST.times_of([2, 5, 7, 9]).tolist() == [1, 2, 1, 0]
    assert Past().times_of([2]).tolist() == [0]


def test_who_was_chosen_last_stands_last() -> None:
    """A client that is chosen again moves to the end; within a round the order of choice holds."""
    assert PAST.recent(2) == ["7", "5"]
    assert PAST.recent(9) == ["2", "7", "5"]
    assert PAST.recent(0) == []
    assert Past().followed_by(["3", "1"]).recent(1) == ["1"]


def test_the_past_does_not_change() -> None:
    """A round makes another past and leaves the old one alone."""
    before = Past(1, {"4": 1})
    before.followed_by(["4", "6"])
    assert before == Past(1, {"4": 1})


@pytest.mark.parametrize("past", [PAST, Past()])
def test_it_is_read_as_it_was_written(past: Past) -> None:
    """Through JSON, with the order."""
    read = Past.from_json(json.loads(json.dumps(past.to_json())), "past")
    assert read == past
    assert list(read.times) == list(past.times)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"times": [1, 2]}, "past: 2 counts of 3 clients in 3 rounds do not fit together"),
        ({"aliases": ["5", "5", "7"]}, "past: 3 counts of 2 clients"),
        ({"times": [1, 0, 2]}, "do not fit together"),
        ({"num_rounds": 0}, "do not fit together"),
        ({"aliases": [], "times": [], "num_rounds": -1}, "do not fit together"),
        ({"aliases": [2, 7, 5]}, "past.aliases: 'int' is not what belongs here"),
        ({"times": ["1", "1", "2"]}, "past.times: 'str' is not what belongs here"),
        ({"num_rounds": None}, "past.num_rounds: 'NoneType' is not what belongs here"),
        ({"extra": 1}, "past: key 'extra' is unknown"),
    ],
)
def test_what_was_damaged_is_refused(change: dict[str, Any], sentence: str) -> None:
    """Keys, kinds and numbers must fit."""
    with pytest.raises(CheckpointError, match=sentence):
        Past.from_json({**PAST.to_json(), **change}, "past")
