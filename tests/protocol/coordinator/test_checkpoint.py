"""Tests of the part of the server's state that outlives its process."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from protocol.server import PLAIN, SEARCH, Nodes, federation

from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.protocol.coordinator.context import CoordinatorState, Run


def saved(nodes: Nodes) -> Any:
    """Return the state of the server after its way through a file."""
    return json.loads(json.dumps(nodes.selector.state_dict(nodes.state)))


def resume(nodes: Nodes) -> None:
    """Let another server continue from what this one saved."""
    nodes.state = nodes.selector.load_state_dict(saved(nodes))


@pytest.mark.parametrize(
    ("stage", "settings"),
    [("join", {}), ("settle", PLAIN | SEARCH), ("determine", {}), (None, {})],
)
def test_a_resumed_run_registers_anew_whenever_its_server_ended(
    stage: str | None, settings: dict[str, Any]
) -> None:
    """No node refuses anything, and nothing from the earlier epoch is used."""
    nodes = federation(registration_interval=1, **settings)
    earlier = nodes.play(1)
    if stage is not None:
        nodes.deliver(nodes.until(stage, 2))
    resume(nodes)
    assert nodes.state == CoordinatorState(Run(nodes.state.run.seed, nodes.state.run.sequence))
    plan = nodes.play(2)
    assert plan.epoch != earlier.epoch
    assert len(set(plan.participants)) == 4
    assert (plan.fallback, plan.notes, nodes.errors) == (False, (), [])


def test_the_saved_seed_goes_on() -> None:
    """Another seed is refused. For real nodes, an unset one is new: a sum may be forgotten."""
    state = saved(federation())
    with pytest.raises(CheckpointError, match="seed=8 is not the seed 7 of the saved state"):
        federation(seed=8).selector.load_state_dict(state)
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"seed": None}, True),
        ({"simulation": None}, True),
        ({"simulation": None, "seed": None}, False),
    ]
    for settings, is_same in cases:
        resumed = federation(**settings).selector.load_state_dict(state)
        assert (resumed.run.seed == 7) == is_same


def test_a_resumed_run_goes_on_with_fewer_nodes() -> None:
    """Too few connected nodes stop a run only at its beginning."""
    nodes = federation(8)
    with pytest.raises(SettingsError, match="num_participants=4"):
        nodes.play(1, nodes.ids[:3])
    nodes.play(1)
    resume(nodes)
    assert len(nodes.play(2, nodes.ids[:3]).participants) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _saved: ["seed"], "selector: a list is not a saved state; load a state that this"),
        (lambda saved: {"seed": saved["seed"]}, "selector: key 'sequence' is missing; load"),
        (lambda saved: saved | {"more": 1}, "selector: key 'more' is unknown; load"),
        (lambda saved: saved | {"seed": True}, "selector.seed: a bool does not belong there; load"),
        (lambda saved: saved | {"seed": -1}, "selector.seed: -1 is negative; load"),
        (lambda saved: saved | {"sequence": 2**53}, "no run sends 9007199254740992 batches; the"),
    ],
)
def test_a_forged_state_is_refused(change: Callable[[Any], Any], message: str) -> None:
    """A forged state is refused when it is loaded; the error says which key is wrong, and where."""
    nodes = federation()
    with pytest.raises(CheckpointError, match=message):
        nodes.selector.load_state_dict(change(saved(nodes)))
