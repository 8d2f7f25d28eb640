"""Tests of rounds that cannot go on: a typed error or random clients, as the operator chose."""

from typing import Any
from unittest.mock import Mock

import pytest
from protocol.nodes import set_policy
from protocol.server import Nodes, alter, lost, wills
from protocol.server import federation as usual

from dubhe_flwr.errors import InvalidCiphertextError, QuorumError, SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.coordinator.stages.participate import Participate
from dubhe_flwr.protocol.coordinator.stages.register import Register


def federation(**overrides: Any) -> Nodes:
    """Return twelve nodes and a server that falls back to random selection."""
    return usual(**{"on_failure": "random"} | overrides)


def silent(nodes: Nodes, stage: str, *answering: int) -> None:
    """Lose a stage's replies, except from these nodes."""
    alter(nodes, stage, lost, set(nodes.ids) - set(answering))


def by_chance(plan: Plan, nodes: set[int], number: int = 4) -> bool:
    """Return whether a plan has this number of these nodes, selected at random."""
    return plan.fallback and len({*plan.participants} & nodes) == len(plan.participants) == number


@pytest.mark.parametrize(
    ("error", "on_failure"),
    [
        (SettingsError("It cannot work."), "random"),
        (InvalidCiphertextError("No ciphertext."), "raise"),
    ],
)
def test_an_error_is_raised_as_it_is(
    error: Exception, on_failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings errors are always raised, since a run with a typo could go on for days."""
    nodes = federation(on_failure=on_failure)
    replies = nodes.deliver(nodes.until("register"))
    monkeypatch.setattr(Register, "take", Mock(side_effect=error))
    with pytest.raises(type(error)) as raised:
        nodes.step(replies)
    assert raised.value is error


@pytest.mark.parametrize("kind", [Register, Participate])
def test_other_errors_end_only_the_round(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan names the error. A settled epoch goes on."""
    nodes = federation()
    number = 1 if kind is Register else nodes.play(1).server_round + 1
    replies = nodes.deliver(nodes.until(kind.__name__.lower(), number))
    with monkeypatch.context() as patch:
        error = InvalidCiphertextError("No ciphertext.")
        patch.setattr(kind, "take", Mock(side_effect=error))
        plan = nodes.finish(nodes.step(replies))
    sentence = "No ciphertext. The clients of this round are chosen at random."
    assert (plan.fallback, plan.notes) == (True, (sentence,))
    assert (nodes.state.epoch is None) == (kind is Register)
    assert not nodes.play(number + 1).fallback


@pytest.mark.parametrize("label_counts", [[1] * 5, [-1] * 4])
def test_a_wrong_setting_ends_the_run(label_counts: list[int]) -> None:
    """If all nodes decline because of a wrong setting, no round will ever work."""
    nodes = federation()
    for node_id in nodes.ids:
        set_policy(nodes, node_id, label_counts=lambda: label_counts)
    with pytest.raises(QuorumError, match=r"reference_set|whole numbers") as error:
        nodes.play(1)
    assert "on_failure" not in str(error.value)


def test_nodes_without_data_do_not_end_a_run_that_others_have_left() -> None:
    """They may be all that is connected during an outage; the others come back."""
    nodes = federation(registration_interval=1)
    for node_id in (new := nodes.ids[9:]):
        set_policy(nodes, node_id, label_counts=lambda: [0] * 4)
    nodes.play(1)
    for number in (2, 3):
        assert by_chance(plan := nodes.play(number, new), set(), number=0)
        assert "fewer than quorum=3 (connected: 3, no data at join: 3)" in plan.notes[-1]
    assert not nodes.play(4).fallback


def test_nodes_that_declined_are_not_selected() -> None:
    """Nodes that declined are left out even if fewer than K remain, until they answer again."""
    nodes = federation(registration_interval=1)
    out = wills(nodes, range(9), lambda _round: False)
    rest = set(nodes.ids) - out
    for stage in ("appoint", "join"):
        silent(nodes, stage)
        plan = nodes.play(1)
        assert by_chance(plan, rest, number=3)
        assert (plan.epoch, plan.num_registered, plan.num_tries, plan.chosen) == (None, 0, 1, None)
    wills(nodes, range(9), lambda _round: True)
    silent(nodes, "appoint")
    assert out & set(nodes.play(2).participants)


def test_nodes_that_declined_in_a_draw_are_not_selected() -> None:
    """A node's answer in a draw holds for the round that begins later."""
    nodes = federation(rounds_per_draw=2)
    wills(nodes, range(4), lambda server_round: server_round != 2)
    nodes.play(1)
    plan = nodes.play(2, nodes.ids[:6])
    assert plan.stages == ()
    assert by_chance(plan, set(nodes.ids[4:6]), number=2)


def test_nodes_that_said_yes_come_first() -> None:
    """Nodes that said yes train for sure; a round that failed at its draw costs no registration."""
    nodes = federation(quorum=4)
    before = nodes.play(1).epoch
    silent(nodes, "participate", *nodes.ids[3:6])
    plan = nodes.play(2)
    assert set(nodes.ids[3:6]) < set(plan.participants)
    assert by_chance(plan, set(nodes.ids))
    assert (plan.epoch, plan.num_registered) == (before, 12)
    silent(nodes, "join")
    assert nodes.play(3).epoch == before
