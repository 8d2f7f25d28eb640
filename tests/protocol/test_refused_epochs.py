"""Tests of epochs that the nodes refuse: another one begins in the same round."""

from typing import Any

import numpy as np
import pytest
from protocol.dishonest import make_dishonest
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    encrypted,
    epoch_of,
    session_state,
    skewed_counts,
)

from dubhe_flwr.core import FIXED_POINT_SCALE, generator, overall_registry
from dubhe_flwr.errors import QuorumError, RefusedError, StaleMessageError
from dubhe_flwr.protocol import CoordinatorState, NodeFailure, Plan, Stage

NUM_CLIENTS = 12
COUNTS = skewed_counts(NUM_CLIENTS)
SETTINGS: dict[str, Any] = {
    "num_participants": 4,
    "reference_set": (1, 2, 4),
    "thresholds": {1: 0.6, 2: 0.3},
    "tries": 3,
    "max_clients": 20,
    "registration_interval": 10,
}
BOTH = pytest.mark.parametrize("participation", ["paper", "calibrated"])


def federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return twelve nodes and a server."""
    return dubhe(COUNTS, **SETTINGS | overrides)


def stages(plan: Plan) -> list[str]:
    """Return the stages of a round, in order."""
    return [report.stage for report in plan.stages]


def falsify(nodes: Federation[CoordinatorState], times: int) -> list[int]:
    """Let one node register in two categories at once, so often; return when it did."""
    liar = nodes.ids[5]
    lies: list[int] = []

    def alter(stage: str, node_id: int, reply: Any) -> Any:
        if (stage, node_id) != ("register", liar) or len(lies) >= times:
            return reply
        lies.append(nodes.state.server_round)
        slots = [1, 1, *[0] * (epoch_length(nodes) - 2)]
        return {**reply, "registry": encrypted(session_state(nodes, liar), "registry", slots)}

    nodes.alter_reply = alter
    return lies


def epoch_length(nodes: Federation[CoordinatorState]) -> int:
    """Return the number of slots of a registry."""
    assert nodes.state.enrolment is not None
    return nodes.state.enrolment.parameters.codebook.length


@BOTH
def test_one_false_registry_costs_one_more_registration(participation: str) -> None:
    """All nodes refuse the overall registry; the next epoch, in the same round, has a true one."""
    nodes = federation(participation=participation)
    falsify(nodes, times=1)
    plan = nodes.play(1)
    refusing = "moments" if participation == "calibrated" else "participate"
    calibration = ["moments", "calibrate"] if participation == "calibrated" else []
    registration = ["join", "keygen", "register"]
    assert stages(plan) == [
        *[*registration, refusing, *registration],
        *[*calibration, "participate", "determine"],
    ]
    assert plan.notes == (
        f"12 of 12 nodes refused at {refusing}; the epoch ends and all register.",
    )
    assert (plan.num_registered, len(plan.participants), plan.fallback) == (12, 4, False)
    assert {type(error) for error in nodes.errors} == {RefusedError}
    epoch = epoch_of(nodes)
    registry = decrypted(session_state(nodes, nodes.ids[0]), "registry", epoch.overall_registry)
    expected, _ = overall_registry(COUNTS, epoch.parameters.codebook, SETTINGS["thresholds"])
    np.testing.assert_array_equal(registry, expected)
    assert nodes.play(2).epoch == plan.epoch


def first_agent(nodes: Federation[CoordinatorState], purpose: str) -> int:
    """Return the node that the seed names first for a task in the first round."""
    return nodes.ids[int(generator(7, purpose, 1).permutation(NUM_CLIENTS)[0])]


def asked(nodes: Federation[CoordinatorState], stage: Stage) -> list[int]:
    """Return the nodes that were asked at a stage, in order."""
    return [exchange.node_id for exchange in nodes.exchanges if exchange.stage == stage]


@pytest.mark.parametrize("value", [FIXED_POINT_SCALE + 1, 2 * FIXED_POINT_SCALE])
def test_an_agent_whose_probabilities_are_out_of_range_is_not_asked_again(value: int) -> None:
    """All refuse what it encrypted; in the next epoch of the round another one calibrates."""
    nodes = federation(participation="calibrated")
    liar = first_agent(nodes, "calibrate")

    def alter(stage: str, node_id: int, reply: Any) -> Any:
        if (stage, node_id) != (Stage.CALIBRATE, liar):
            return reply
        length = epoch_of(nodes).parameters.codebook.length
        state = session_state(nodes, liar)
        return {**reply, "probabilities": encrypted(state, "probabilities", [value] * length)}

    nodes.alter_reply = alter
    plan = nodes.play(1)
    assert plan.notes == (
        "12 of 12 nodes refused at participate; the epoch ends and all register.",
    )
    assert (plan.num_registered, len(plan.participants), plan.fallback) == (12, 4, False)
    calibrating, making_keys = asked(nodes, Stage.CALIBRATE), asked(nodes, Stage.KEYGEN)
    assert calibrating[0] == liar != calibrating[1]
    assert [len(set(calibrating)), len(set(making_keys))] == [2, 2]
    assert epoch_of(nodes).probabilities


def test_a_checker_that_lets_a_broken_block_pass_is_not_asked_again() -> None:
    """All refuse the overall registry; in the next epoch another one finds the block."""
    nodes = federation(block_size=4)
    make_dishonest(nodes, {nodes.ids[5]: "twice"})
    dishonest, liar = nodes.alter_reply, first_agent(nodes, "check")
    nodes.alter_reply = lambda stage, node_id, reply: (
        {**reply, "passed": b"\xe0"}
        if (stage, node_id) == (Stage.CHECK, liar)
        else dishonest(stage, node_id, reply)
    )
    plan = nodes.play(1)
    assert plan.notes[0].endswith("nodes refused at participate; the epoch ends and all register.")
    assert "is left out of this epoch" in plan.notes[1]
    assert (plan.num_registered, plan.fallback) == (8, False)
    checking = asked(nodes, Stage.CHECK)
    assert checking[0] == liar != checking[1]


@pytest.mark.parametrize("on_failure", ["raise", "random"])
def test_a_node_that_always_lies_does_not_keep_the_server_busy(on_failure: str) -> None:
    """One more epoch in a round, no more; then it is given up as the operator says."""
    nodes = federation(on_failure=on_failure)
    lies = falsify(nodes, times=99)
    if on_failure == "raise":
        with pytest.raises(QuorumError, match="12 error reply at participate"):
            nodes.play(1)
    else:
        assert nodes.play(1).fallback
    assert lies == [1, 1]


def test_a_server_that_was_set_back_begins_a_new_epoch() -> None:
    """Nodes have answered those requests before and refuse them; all register anew."""
    nodes = federation()
    nodes.play(1)
    stored = nodes.state
    nodes.play(2)
    nodes.play(3)
    nodes.state = stored
    plan = nodes.play(2)
    assert stages(plan) == ["participate", "join", "keygen", "register", "participate", "determine"]
    assert {type(error) for error in nodes.errors} == {StaleMessageError}
    assert plan.epoch != stored.epoch.identity  # type: ignore[union-attr]
    assert "12 of 12 nodes refused at participate" in plan.notes[0]
    assert nodes.play(3).notes == ()


def test_all_nodes_restarted_without_their_state() -> None:
    """They know of no epoch, so that a new one begins."""
    nodes = federation()
    first = nodes.play(1)
    nodes.memories.clear()
    plan = nodes.play(2)
    assert plan.epoch != first.epoch
    assert (plan.num_registered, plan.fallback) == (12, False)


def test_a_node_restarted_without_its_state_waits_for_the_next_epoch() -> None:
    """It answers no stage and does not train; then it registers as all do."""
    nodes = federation(registration_interval=6, tries=2)
    plans = [nodes.play(1)]
    lost = plans[0].participants[0]
    del nodes.memories[lost]
    plans += [nodes.play(server_round) for server_round in range(2, 9)]
    epochs = [plan.epoch for plan in plans]
    assert [epochs.index(epoch) for epoch in epochs] == [0] * 6 + [6] * 2
    assert all(lost not in plan.participants for plan in plans[1:6])
    assert [plan.stages[0].dropped for plan in plans[1:6]] == [{"error reply": 1}] * 5
    assert lost in epoch_of(nodes).registered
    assert lost in nodes.memories
    agents = [e.node_id for e in nodes.exchanges if e.stage == "determine"]
    assert lost not in agents[1:6]


def test_many_restarted_nodes_register_after_a_while() -> None:
    """A third of the nodes without their state count as unregistered, like those that were lost."""
    nodes = federation(registration_interval=10)
    first = nodes.play(1)
    for node_id in nodes.ids[:4]:
        del nodes.memories[node_id]
    plans = [nodes.play(server_round) for server_round in range(2, 5)]
    assert [plan.epoch == first.epoch for plan in plans] == [True, False, False]
    assert [plan.notes for plan in plans] == [()] * 3
    assert plans[-1].stages[0].dropped == {}


def test_so_they_do_where_nothing_is_determined() -> None:
    """Who refused is noted whether or not an agent is asked in the round."""
    nodes = federation(registration_interval=10, tries=1)
    first = nodes.play(1)
    for node_id in nodes.ids[:4]:
        del nodes.memories[node_id]
    plans = [nodes.play(server_round) for server_round in range(2, 5)]
    assert [plan.epoch == first.epoch for plan in plans] == [True, False, False]


@pytest.mark.parametrize(("refusing", "renewed"), [(6, False), (7, True)])
def test_most_nodes_have_to_refuse(refusing: int, renewed: bool) -> None:
    """Up to half of them, the others go on."""
    nodes = federation()
    first = nodes.play(1)
    nodes.alter_reply = lambda stage, node_id, reply: (
        NodeFailure("?") if stage == "participate" and node_id in nodes.ids[:refusing] else reply
    )
    assert (nodes.play(2).epoch != first.epoch) == renewed


def test_or_as_many_as_the_quorum_needs() -> None:
    """Where the others are too few, a registration may help."""
    nodes = federation(quorum=9)
    first = nodes.play(1)
    nodes.alter_reply = lambda stage, node_id, reply: (
        NodeFailure("?")
        if (stage, nodes.state.num_renewals) == ("participate", 0) and node_id in nodes.ids[:4]
        else reply
    )
    plan = nodes.play(2)
    assert plan.epoch != first.epoch
    assert not plan.fallback


@BOTH
@pytest.mark.parametrize("stage", [Stage.MOMENTS, Stage.PARTICIPATE])
def test_silence_is_no_refusal(stage: Stage, participation: str) -> None:
    """Nodes that do not answer would not register either."""
    nodes = federation(participation=participation, on_failure="random")
    nodes.alter_request = lambda s, _node_id, request: None if s == stage else request
    nodes.play(1)
    assert nodes.stages().count("join") == 1


def test_nodes_that_come_late_register_once_they_are_many() -> None:
    """One by one they wait; from a cohort and a share on, all register."""
    nodes = federation(max_unregistered=0.25)
    num_registered = []
    for server_round, present in enumerate((9, 10, 11, 12, 12), start=1):
        num_registered.append(nodes.play(server_round, nodes.ids[:present]).num_registered)
    assert num_registered == [9, 9, 9, 12, 12]
