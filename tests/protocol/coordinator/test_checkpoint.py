"""Tests of what of the server's state survives its process, and when its epoch goes on."""

import json
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest
from protocol.federation import fingerprint
from protocol.server import GROUPS, PLAIN, SEARCH, Nodes, federation, wills

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol import Batch
from dubhe_flwr.protocol.coordinator.context import CoordinatorState, Rest

FOREIGN: tuple[Any, ...] = (
    *(None, True, 1, -1, 1.5, 2**64, "1", "not base64!"),
    *([], [[1]], [None], {}, {"a": 1}),
)
KINDS = pytest.mark.parametrize("settings", [{}, GROUPS, SEARCH, PLAIN | SEARCH], ids=str)


def saved(nodes: Nodes) -> Any:
    """Return the state of the server after its way through a file."""
    return json.loads(json.dumps(nodes.selector.state_dict(nodes.state)))


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in nested dictionaries."""
    if not isinstance(data, dict):
        return [path]
    return [leaf for key, item in data.items() for leaf in leaves(item, (*path, key))]


def parent(data: Any, path: tuple[Any, ...]) -> Any:
    """Return the dictionary that holds the value at a path."""
    for key in path[:-1]:
        data = data[key]
    return data


@KINDS
def test_at_every_point_of_a_run_the_state_comes_back(settings: dict[str, Any]) -> None:
    """Every field with type and order; no epoch amid an exchange, and none in the clear."""
    is_clear = settings.get("simulation") == "plain"
    nodes = federation(24, rounds_per_draw=2, registration_interval=3, **settings)
    wills(nodes, [2], lambda server_round: server_round % 2 == 0)
    wills(nodes, [3], lambda _round: False)
    points = []
    for server_round in range(1, 6):
        outcome = nodes.begin(server_round, nodes.ids[: 20 + server_round % 3])
        while True:
            at = nodes.state
            load = nodes.selector.load_state_dict
            goes_on = isinstance(at.stage, Rest) and not is_clear
            expected = CoordinatorState(at.run, stage=at.stage if goes_on else Rest())
            back = load(saved(nodes), interrupted=False)
            assert fingerprint(back) == fingerprint(expected)
            again = load(saved(nodes), interrupted=True)
            run = replace(at.run, has_varied=True)  # nodes may have read a sum
            assert fingerprint(again) == fingerprint(CoordinatorState(run))
            points.append(expected.epoch is not None)
            if not isinstance(outcome, Batch):
                break
            outcome = nodes.step(nodes.deliver(outcome))
    assert points.count(True) == (0 if is_clear else 5)
    assert len(points) > 14


@pytest.mark.parametrize(
    ("now", "goes_on"),
    [
        ({}, True),
        ({"registration_interval": 9, "quorum": 4, "on_failure": "random"}, True),
        ({"thresholds": {1: 0.33, 2: 0.12}}, False),
        ({"reference_set": (1, 4), "thresholds": {1: 0.6}}, False),
        ({"num_participants": 5}, False),
        ({"max_draws_per_epoch": 999}, False),
        (GROUPS, False),
        (PLAIN, False),
    ],
)
def test_an_epoch_goes_on_under_the_terms_that_nodes_agreed_to(now: Any, goes_on: bool) -> None:
    """Where the operator has changed what was announced, all register anew."""
    nodes = federation()
    first = nodes.play(1)
    changed = federation(**now).selector
    nodes.state = changed.load_state_dict(saved(nodes), interrupted=False)
    nodes.selector = changed
    assert (nodes.state.epoch is not None) == goes_on
    plan = nodes.play(2)
    assert (plan.epoch == first.epoch) == goes_on
    assert not plan.fallback


def test_another_seed_is_refused() -> None:
    """The error names both; without one the saved seed goes on."""
    nodes = federation()
    nodes.play(1)
    with pytest.raises(CheckpointError, match="seed=8 is not the seed 7 of the saved state"):
        federation(seed=8).selector.load_state_dict(saved(nodes), interrupted=True)
    anyhow = federation(seed=None).selector.load_state_dict(saved(nodes), interrupted=True)
    assert anyhow.run.seed == 7


def test_every_key_must_be_there_and_be_known() -> None:
    """Wherever a key is missing or too many, the error names it and its place."""
    nodes = federation(rounds_per_draw=3)
    nodes.play(1)
    whole, load = saved(nodes), nodes.selector.load_state_dict
    assert {*whole} == {"run", "epoch"}
    assert {*whole["run"]} == {field.name for field in fields(nodes.state.run)}
    for path in leaves(whole):
        place, name = parent(whole, path), path[-1]
        if name.isdigit():
            continue  # nodes and rounds may be any
        value = place.pop(name)
        with pytest.raises(CheckpointError, match=rf"selector.*'{name}' is missing"):
            load(whole, interrupted=False)
        with pytest.raises(CheckpointError, match=rf"selector.*'{name}' is missing"):
            load(whole, interrupted=True)
        place[name] = value
        place["extra"] = value
        with pytest.raises(CheckpointError, match=r"'extra' is unknown"):
            load(whole, interrupted=False)
        del place["extra"]
    assert load(whole, interrupted=False).epoch is not None


@pytest.mark.parametrize("settings", [{}, PLAIN], ids=str)
def test_a_value_of_another_type_is_refused(settings: dict[str, Any]) -> None:
    """Nothing but the package's own error comes out, whatever stands wherever."""
    nodes = federation(rounds_per_draw=3, **settings)
    nodes.play(1)
    whole = saved(nodes)
    refused = 0
    for path in leaves(whole):
        place, name = parent(whole, path), path[-1]
        before = place[name]
        for value in FOREIGN:
            place[name] = value
            refused += 1
            with suppress(CheckpointError):
                nodes.selector.load_state_dict(whole, interrupted=False)
                refused -= 1
        place[name] = before
    assert refused > 0.7 * len(FOREIGN) * len(leaves(whole))
