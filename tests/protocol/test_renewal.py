"""Tests of the end of an epoch: after its interval, for newcomers, or when a budget is spent."""

import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
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
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import Batch, CoordinatorState, NodeFailure, Settings, Stage
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import HelloRequest
from dubhe_flwr.protocol.renewal import _presence, is_refused, num_rounds_of, num_tries_of_search


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


@pytest.mark.parametrize(
    ("back", "quorum", "saved"), [(4, 6, True), (4, 9, False), (6, 7, True), (8, 9, False)]
)
def test_nodes_that_come_back_under_other_ids_save_a_run(
    back: int, quorum: int, saved: bool
) -> None:
    """Below the quorum all register anew, if those that came and went hide each other."""
    nodes = federation(max_unregistered=1.0, quorum=quorum)
    first = nodes.play(1, nodes.ids[:9])
    here = [*nodes.ids[:back], *nodes.ids[9 : 9 + min(2, 9 - back)]]
    if saved:
        second = nodes.play(2, here)
        assert second.epoch != first.epoch
        assert second.num_registered == len(here)
        assert nodes.play(3, here).epoch == second.epoch
    else:
        with pytest.raises(QuorumError):
            nodes.play(2, here)


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


@pytest.mark.parametrize(
    ("good", "refusals", "lost", "refused"),
    [
        pytest.param(3, 0, 0, False, id="all agree"),
        pytest.param(0, 3, 0, True, id="all refuse"),
        pytest.param(5, 5, 0, False, id="half agree"),
        pytest.param(4, 5, 1, False, id="no majority refuses"),
        pytest.param(4, 6, 0, True, id="a majority refuses"),
        pytest.param(2, 1, 0, True, id="one short of a cohort, since one refuses"),
        pytest.param(2, 1, 7, True, id="the same where many are lost"),
        pytest.param(2, 0, 1, False, id="one short of a cohort, since one is lost"),
        pytest.param(1, 1, 8, False, id="too few even without the refusal"),
        pytest.param(0, 0, 3, False, id="all lost"),
        pytest.param(3, 0, 7, False, id="a cohort of many"),
        pytest.param(3, 2, 5, False, id="a cohort of many, and some refuse"),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_an_epoch_is_refused_by_most_or_by_those_that_are_missing(
    good: int, refusals: int, lost: int, refused: bool, *, backwards: bool
) -> None:
    """Lost replies refuse nothing; the order of arrival does not matter."""
    answers: list[Any] = [{}] * good + [NodeFailure("no")] * refusals + [None] * lost
    if backwards:
        answers.reverse()
    replies = {n: answer for n, answer in enumerate(answers) if answer is not None}
    requests = dict.fromkeys(range(len(answers)), HelloRequest())
    settings, state = Settings(**SETTINGS), CoordinatorState(seed=7)
    for stage in Stage:
        batch = Batch(Envelope(bytes(16), stage, sequence=1), requests)
        asks_all = stage in {Stage.EXPECT, Stage.MOMENTS, Stage.PARTICIPATE}
        assert is_refused(settings, state, batch, replies) == (refused and asks_all)
        assert not is_refused(settings, replace(state, num_renewals=1), batch, replies)


def test_fewer_draws_than_the_quorum_are_too_few() -> None:
    """Sums need a cohort, a draw the quorum that the operator wants."""
    settings = Settings(**SETTINGS | {"quorum": 5})
    replies: dict[int, Any] = {n: {} for n in range(4)} | {4: NodeFailure("no")}
    requests = dict.fromkeys(range(5), HelloRequest())
    for stage, refused in ((Stage.PARTICIPATE, True), (Stage.MOMENTS, False)):
        batch = Batch(Envelope(bytes(16), stage, sequence=1), requests)
        assert is_refused(settings, CoordinatorState(seed=7), batch, replies) == refused


@pytest.mark.parametrize(
    ("thresholds", "num_candidates", "sums_per_agent", "tries"),
    [
        ("search-tries", 9, 29, 3),
        ("search-tries", 9, 27, 3),
        ("search-tries", 9, 26, 2),
        ("search-tries", 9, 8, 0),
        ("search-tries", 9, 1000, 10),
        ("search-tries", 1, 1000, 0),
        ("search", 9, 1000, 0),
    ],
)
def test_a_search_by_tries_fits_the_sums_of_an_agent(
    thresholds: Any, num_candidates: int, sums_per_agent: int, tries: int
) -> None:
    """As many tries of each candidate as the operator wants, or as one agent may decrypt."""
    settings = Settings(
        num_participants=20,
        reference_set=(1, 2, 10),
        thresholds=thresholds,
        determination="tries",
        tries=10,
        registration_interval=1,
    )
    candidates = [{1: 0.5, 2: 0.1}] * num_candidates
    roster: Any = SimpleNamespace(
        sums_per_agent=sums_per_agent, parameters=SimpleNamespace(candidates=candidates)
    )
    assert num_tries_of_search(settings, roster) == tries


@pytest.mark.parametrize(
    ("sums_per_agent", "tries_of_search", "num_rounds"), [(8, 0, 12), (9, 1, 11), (18, 2, 22)]
)
def test_who_searched_by_tries_determines_no_more(
    sums_per_agent: int, tries_of_search: int, num_rounds: int
) -> None:
    """Even a search by a single try of each candidate costs one agent, and so its rounds."""
    settings = Settings(
        num_participants=20,
        reference_set=(1, 2, 10),
        thresholds="search-tries",
        determination="tries",
        registration_interval=30,
        max_draws_per_epoch=10_000,
    )
    roster: Any = SimpleNamespace(
        sums_per_agent=sums_per_agent,
        parameters=SimpleNamespace(
            candidates=settings.candidates, announced=settings.announced(100)
        ),
        aliases=dict.fromkeys(range(12), ""),
        checkers=frozenset(),
        sums_per_round=lambda _tries: 8,
    )
    assert num_tries_of_search(settings, roster) == tries_of_search
    assert num_rounds_of(settings, roster) == num_rounds


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
