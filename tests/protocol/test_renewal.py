"""Tests of the end of an epoch: after its interval, for newcomers, or when a budget is spent."""

import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    epoch_of,
    session_state,
    skewed_counts,
)
from protocol.server import COUNTS, NUM_CLIENTS, SETTINGS, asked, federation

from dubhe_flwr.core import overall_registry
from dubhe_flwr.protocol import CoordinatorState, Settings, Stage
from dubhe_flwr.protocol.renewal import _presence


@pytest.mark.parametrize(("num_clients", "tries"), [(5, 2), (6, 2), (7, 3), (12, 5)])
def test_tries_stay_below_half_the_clients(num_clients: int, tries: int) -> None:
    """In a small federation there are fewer tries than the operator asked for."""
    nodes = federation(num_clients, num_participants=3, tries=10)
    assert nodes.play(1).num_selections == tries


def test_an_epoch_lasts_its_interval() -> None:
    """A new one begins every `registration_interval` rounds."""
    nodes = federation(registration_interval=3)
    epochs = [nodes.play(server_round).epoch for server_round in range(1, 8)]
    assert [epochs.index(epoch) for epoch in epochs] == [0, 0, 0, 3, 3, 3, 6]
    assert asked(nodes, "join").count(nodes.ids[0]) == 3


def test_an_epoch_ends_when_its_agents_have_spent_their_sums() -> None:
    """Five nodes with two sums each determine five rounds of two tries."""
    nodes = federation(5, num_participants=3, tries=10, registration_interval=50)
    epochs = [nodes.play(server_round).epoch for server_round in range(1, 12)]
    assert [epochs.index(epoch) for epoch in epochs] == [0] * 5 + [5] * 5 + [10]
    assert all(number == 2 for number in epoch_of(nodes).num_sums.values())


def test_without_determination_an_epoch_lasts_its_interval() -> None:
    """Sums that nobody decrypts end no epoch."""
    nodes = federation(4, num_participants=3, tries=1, registration_interval=9)
    epochs = [nodes.play(server_round).epoch for server_round in range(1, 11)]
    assert [epochs.index(epoch) for epoch in epochs] == [0] * 9 + [9]


@pytest.mark.parametrize(
    ("newcomers", "share", "early"),
    [(1, 0.0, False), (2, 0.0, False), (3, 0.0, True), (3, 0.25, True), (3, 0.26, False)],
)
def test_newcomers_bring_an_early_registration(newcomers: int, share: float, early: bool) -> None:
    """From a cohort and a share of the present nodes on, never for fewer."""
    nodes = federation(max_unregistered=share)
    known = nodes.ids[: NUM_CLIENTS - newcomers]
    first = nodes.play(1, known)
    second = nodes.play(2)
    assert (second.epoch != first.epoch) == early
    assert second.num_registered == (NUM_CLIENTS if early else len(known))
    assert nodes.play(3).epoch == second.epoch


def test_a_cohort_of_newcomers_is_as_large_as_the_operator_says() -> None:
    """`min_cohort` is the least number of newcomers, whatever the share."""
    nodes = federation(max_unregistered=0.0, min_cohort=4)
    first = nodes.play(1, nodes.ids[:9])
    assert nodes.play(2).epoch == first.epoch
    nodes = federation(max_unregistered=0.0, min_cohort=4)
    first = nodes.play(1, nodes.ids[:8])
    assert nodes.play(2).epoch != first.epoch


def test_who_was_asked_is_no_newcomer() -> None:
    """Nodes that stay out do not make everybody register again and again."""
    nodes = federation(max_unregistered=0.0)
    for node_id in nodes.ids[:6]:
        nodes.policies[node_id] = replace(nodes.policies[node_id], willing=lambda _r: False)
    first = nodes.play(1)
    assert nodes.play(2).epoch == first.epoch


def shifted(nodes: Federation[CoordinatorState], number: int) -> list[int]:
    """Give some nodes other labels, and return their ids."""
    moved = nodes.ids[:number]
    for row, node_id in enumerate(moved):
        now = COUNTS[row][::-1]
        policy = replace(nodes.policies[node_id], label_counts=partial(np.asarray, now))
        nodes.policies[node_id] = replace(policy, max_label_shift=0.05)
    return moved


@pytest.mark.parametrize(
    ("number", "share", "early"),
    [(2, 0.0, False), (3, 0.0, True), (3, 0.25, True), (3, 0.26, False)],
)
def test_moved_labels_bring_an_early_registration(number: int, share: float, early: bool) -> None:
    """From a cohort and a share on, after a fifth of the interval; all labels are read anew."""
    nodes = federation(max_unregistered=share, registration_interval=15)
    epochs = [nodes.play(1).epoch]
    moved = shifted(nodes, number)
    epochs += [nodes.play(server_round).epoch for server_round in range(2, 10)]
    assert [epochs.index(epoch) for epoch in epochs] == [0] * 3 + [3 if early else 0] * 6
    assert epoch_of(nodes).moved == (frozenset() if early else frozenset(moved))
    counts = COUNTS.copy()
    if early:
        counts[:number] = counts[:number, ::-1]
    settings = Settings(**SETTINGS)
    expected = overall_registry(counts, settings.codebook, settings.candidates[0])[0]
    found = decrypted(
        session_state(nodes, nodes.ids[5]), "registry", epoch_of(nodes).overall_registry
    )
    np.testing.assert_array_equal(found, expected)


def test_lost_and_moved_nodes_count_together() -> None:
    """The sums of both epochs then differ by as many clients."""
    nodes = federation(max_unregistered=0.0, registration_interval=15)
    lost = nodes.ids[-1]
    nodes.alter_reply = lambda s, n, reply: None if (s, n) == (Stage.REGISTER, lost) else reply
    first = nodes.play(1)
    shifted(nodes, 2)
    epochs = [nodes.play(server_round).epoch for server_round in range(2, 6)]
    assert [epoch == first.epoch for epoch in epochs] == [True, True, False, False]


def test_nodes_that_left_since_their_labels_moved_do_not_count() -> None:
    """Only who is there can register anew."""
    nodes = federation(max_unregistered=0.0, registration_interval=15)
    nodes.play(1)
    moved = shifted(nodes, 3)
    first = nodes.play(2)
    rest = [node_id for node_id in nodes.ids if node_id != moved[0]]
    epochs = [nodes.play(server_round, rest).epoch for server_round in range(3, 7)]
    assert set(epochs) == {first.epoch}


def test_spent_draws_bring_an_early_registration() -> None:
    """Draws of rounds that were given up count, so that no node is asked for too many."""
    nodes = federation(
        rounds_per_draw=4, registration_interval=4, max_draws_per_epoch=18, max_unregistered=1
    )
    nodes.until(Stage.DETERMINE)
    first = epoch_of(nodes).identity
    epochs, draws = [], []
    for server_round in (2, 3, 4):
        nodes.exchanges.clear()
        epochs.append(nodes.play(server_round).epoch)
        asked_for = [
            e.request["num-rounds"] for e in nodes.exchanges if e.stage == Stage.PARTICIPATE
        ]
        draws.append(asked_for[:1])
    assert [epoch == first for epoch in epochs] == [True, True, False]
    assert draws == [[2], [], [4]]
    assert nodes.errors == []


def test_nobody_came_or_went() -> None:
    """Where the nodes are the very same set, the short way leads to the same numbers."""
    nodes = federation(9)
    declining = nodes.ids[2]
    nodes.policies[declining] = replace(nodes.policies[declining], willing=lambda _r: False)
    nodes.play(1)
    epoch = replace(epoch_of(nodes), refused=frozenset(nodes.ids[:2]))
    assert epoch.declined == {declining}
    another_set = frozenset([*epoch.asked, -1]) - {-1}
    assert another_set is not epoch.asked
    assert _presence(epoch.asked, epoch) == _presence(another_set, epoch) == (6, 0, 2)


def calls_of_a_round(num_clients: int) -> Counter[str]:
    """Count the calls that the server makes in a round without a draw."""
    options = {"max_clients": 60, "rounds_per_draw": 5, "tries": 2}
    nodes = dubhe(skewed_counts(num_clients), **SETTINGS | options)
    assert len(nodes.ids) == num_clients
    present: Any = frozenset(nodes.ids)
    nodes.play(1, present)
    nodes.play(2, present)
    calls: Counter[str] = Counter()
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    try:
        nodes.selector.begin_round(nodes.state, 3, present)
    finally:
        sys.setprofile(None)
    return calls


def test_a_round_without_a_draw_takes_no_longer_with_more_nodes() -> None:
    """Where nobody came or went, no node is looked at but those that train."""
    assert calls_of_a_round(20) == calls_of_a_round(60)
