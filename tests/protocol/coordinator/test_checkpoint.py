"""Tests of the part of the server's state that outlives its process."""

import json
from typing import Any

import pytest
from protocol.server import PLAIN, POOL, SEARCH, Nodes, federation

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
    [
        ("join", SEARCH),
        ("register", PLAIN),
        ("settle", PLAIN | SEARCH),
        ("participate", POOL),
        ("determine", {}),
        (None, {}),
    ],
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
    assert not plan.fallback
    assert not plan.notes
    assert not any(report.dropped for report in plan.stages)


def test_another_seed_is_refused() -> None:
    """The error names both; without one the saved seed goes on."""
    nodes = federation()
    nodes.play(1)
    with pytest.raises(CheckpointError, match="seed=8 is not the seed 7 of the saved state"):
        federation(seed=8).selector.load_state_dict(saved(nodes))
    anyhow = federation(seed=None).selector.load_state_dict(saved(nodes))
    assert anyhow.run.seed == 7


@pytest.mark.parametrize(("settings", "is_same"), [({}, True), ({"seed": None}, False)])
def test_a_resumed_run_draws_a_new_seed_for_real_nodes(settings: Any, is_same: bool) -> None:
    """If the operator set no seed, a new one is drawn: the server may have forgotten a sum."""
    nodes = federation(simulation=None, policy={"simulated": False}, **settings)
    nodes.play(1)
    state = nodes.selector.load_state_dict(saved(nodes))
    assert (state.run.seed == nodes.state.run.seed) == is_same


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
        ({"seed": -1}, "selector.seed: -1 is negative"),
        ({"sequence": 2**53}, "no run sends 9007199254740992 batches; the state was changed"),
        ({"epoch": None}, "selector: key 'epoch' is unknown"),
    ],
)
def test_a_forged_state_is_refused(change: dict[str, Any], message: str) -> None:
    """A forged state is refused when it is loaded, instead of failing later."""
    nodes = federation()
    nodes.play(1)
    with pytest.raises(CheckpointError, match=message):
        nodes.selector.load_state_dict({**saved(nodes), **change})
