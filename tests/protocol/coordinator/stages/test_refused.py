"""Tests of epochs that the nodes refuse: a new one begins in the same round, with fewer nodes."""

from typing import Any

import pytest
from protocol.federation import epoch_of
from protocol.server import (
    PLAIN,
    REGISTRATION,
    SEARCH,
    alter,
    altered,
    asked,
    everywhere,
    failed,
    federation,
    stages_of,
    wills,
    with_liars,
)

from dubhe_flwr.errors import QuorumError, RefusedError, StaleMessageError


@pytest.mark.parametrize("settings", [{}, SEARCH, PLAIN], ids=["usual", "search", "plain"])
def test_the_next_epoch_asks_half(settings: dict[str, Any]) -> None:
    """All refuse the sum; half of the nodes register, and the plan says why."""
    nodes = federation(registration_interval=2, **settings)
    with_liars(nodes, [nodes.ids[5]], "registration", everywhere, times=1)
    plan = nodes.play(1)
    registration = ["join", "register"] if settings == PLAIN else REGISTRATION
    sums = ["settle"] * 2 if settings == SEARCH else ["settle"]
    assert stages_of(plan) == [
        *[*registration, "settle"],
        *[*registration, *sums],  # of six, four are too many for an agent
    ]
    assert plan.notes == (
        "12 of 12 nodes refused at settle, so all nodes register again.",
        "Registrations refused in a row: 1; the next one takes 6 of 12 nodes, drawn at random.",
    )
    assert (plan.num_registered, len(plan.participants), plan.fallback) == (6, 4, False)
    assert {type(error) for error in nodes.errors} == {RefusedError}
    epoch = epoch_of(nodes)
    assert (len(epoch.registration.joined.asked), len(epoch.registration.joined.left_out)) == (6, 6)
    assert nodes.play(2).epoch == plan.epoch
    after = nodes.play(3)
    assert (after.num_registered, after.notes) == (12, ())


@pytest.mark.parametrize(("num_clients", "most"), [(9, 8), (24, 4)])
def test_a_node_that_always_lies_ends_no_run(num_clients: int, most: int) -> None:
    """A liar costs each epoch two registrations at most; after a good one, all are asked."""
    nodes = federation(num_clients, registration_interval=1, num_participants=most, **PLAIN)
    liar = nodes.ids[5]
    lies = with_liars(nodes, [liar], "registration", everywhere)
    for server_round in range(1, 13):
        plan = nodes.play(server_round)
        epoch = epoch_of(nodes)
        assert liar not in epoch.registered
        assert len(plan.participants) == min(most, len(epoch.registered)) >= 4
        assert len(epoch.registration.joined.asked) >= num_clients // 4
        assert lies.count(server_round) in {1, 2}
    assert 12 < len(lies) < 24


@pytest.mark.parametrize("who", ["nodes", "server"])
def test_a_new_epoch_begins_if_one_side_forgot(who: str) -> None:
    """Restarted nodes know no epoch; a server with an older state asks what was answered before.

    In both cases, all nodes register again.
    """
    nodes = federation()
    first, stored = nodes.play(1), nodes.state
    if who == "nodes":
        nodes.memories.clear()
    else:
        nodes.rounds(2, 3)
        nodes.state = stored
    plan = nodes.play(2)
    assert stages_of(plan) == ["participate", *REGISTRATION, "settle", "determine"]
    assert {type(error) for error in nodes.errors} == {StaleMessageError}
    assert plan.notes == ("12 of 12 nodes refused at participate, so all nodes register again.",)
    assert plan.epoch != first.epoch
    assert (plan.num_registered, plan.fallback) == (12, False)
    assert nodes.play(3).notes == ()


def test_a_node_that_declined_stays_out_of_replaced_epochs() -> None:
    """A node that declined stays out in the round's next epochs, too."""
    nodes = federation()
    nodes.play(1)
    out = wills(nodes, range(3), lambda server_round: server_round != 2)
    alter(nodes, "participate", failed, nodes.ids[3:])
    batch: Any = nodes.step(nodes.deliver(nodes.until("participate", 2)))
    alter(nodes, "settle", failed)
    while nodes.state.round.num_renewals < 2:
        batch = nodes.step(nodes.deliver(batch))
    assert nodes.state.round.unwilling == out


def test_a_node_that_sits_out_does_not_come_first_next_time() -> None:
    """Two liars could otherwise take turns: one sits out and then comes first."""
    nodes = federation()
    (idle,) = wills(nodes, [0], lambda _server_round: False)
    with altered(nodes, "settle", failed), pytest.raises(QuorumError):
        nodes.play(1)
    assert nodes.state.run.doubts[idle] >= 1


def test_six_epochs_may_be_refused_in_a_round() -> None:
    """If every registration fails, the server does not retry for ever: it gives up the round."""
    nodes = federation()
    sentence = "error reply at settle: 38, the last error: 'out of memory'"
    with altered(nodes, "settle", failed), pytest.raises(QuorumError, match=sentence):
        nodes.play(1)
    assert nodes.stages().count("join") == 7
    assert len(asked(nodes, "join")) == 12 + 6 + 5 * 4
    assert nodes.state.run.num_refused_epochs == 6
    plan = nodes.play(2)  # with just as few nodes
    assert (plan.fallback, plan.num_registered) == (False, 4)
    assert (nodes.state.run.num_refused_epochs, nodes.state.run.doubts) == (0, {})
