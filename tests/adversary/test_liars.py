"""Clients that lie: one always says yes, and one also registers an invalid distribution."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from adversary.test_committee import federation as real_nodes
from protocol.federation import counts_with_rare_classes, dubhe
from protocol.nodes import signing_key

from dubhe_flwr.protocol.coordinator.context import Context, RoundProgress, Run
from dubhe_flwr.protocol.coordinator.sampling import committee_of, registering, sample
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.rules import Frame, Paper, Prices, Tries

COUNTS = counts_with_rare_classes(100)
K, ROUNDS = 10, 30
LIAR = 12


def played(rule: Any, determination: Tries, lie: Any, number: int = 1) -> Any:
    """Return an unencrypted federation in which one client, or several, may alter its replies."""
    nodes = dubhe(
        COUNTS,
        rule=rule,
        determination=determination,
        num_participants=K,
        simulation="plain",
        max_registered=200,
    )
    liars = nodes.ids[LIAR : LIAR + number]
    nodes.alter_reply = lambda stage, node, reply: lie(stage, reply) if node in liars else reply
    return nodes


def always(stage: str, reply: Any) -> Any:
    """Say yes, always."""
    if stage not in {"settle", "participate"} or "contribution" in reply:
        return reply
    name = "decisions" if stage == "participate" else "draws.decisions"
    return {**reply, name: b"\xff" * len(reply[name])}


def crowding(stage: str, reply: Any) -> Any:
    """Say yes, too, and in sums that many others volunteer, in numbers that a node may send."""
    if stage != "settle" or "contribution" not in reply:
        return always(stage, reply)
    slots = Prices().settlement_slots(Frame(10, 200))
    return {**reply, "contribution": np.full(slots.number, slots.largest, ">i8").tobytes()}


def spoiling(stage: str, reply: Any) -> Any:
    """Say yes, too, with a label distribution of zeros."""
    if stage != "register":
        return always(stage, reply)
    return {**reply, "distribution": bytes(len(reply["distribution"]))}


@pytest.mark.parametrize(
    ("rule", "determination", "lie", "trained"),
    [
        (Paper((1, 2, 10)), Tries(10), always, 26),
        (Prices(), Tries(1), always, 16),
        (Prices(), Tries(1), crowding, 30),
        pytest.param(Prices(), Tries(10), always, 28, marks=pytest.mark.slow),
    ],
    ids=lambda value: str(getattr(value, "name", getattr(value, "__name__", value))),
)
def test_a_client_that_always_says_yes(
    rule: Any, determination: Tries, lie: Any, trained: int
) -> None:
    """Such a client trains in far more than 3 of 30 rounds, since no node has to prove its draw.

    If it lies in the sums of prices, too, fewer of the others volunteer, and it always trains.
    """
    plans = played(rule, determination, lie).rounds(1, ROUNDS)
    # An operator can see who trains, over some rounds.
    assert sum(str(LIAR) in plan.aliases for plan in plans) == trained


def test_ten_clients_that_crowd_the_others_out() -> None:
    """They have nearly all places, with numbers that no node can tell from honest ones."""
    plans = played(Prices(), Tries(1), crowding, number=K).rounds(1, ROUNDS)
    liars = {str(LIAR + number) for number in range(K)}
    taken = [len(liars.intersection(plan.aliases)) / K for plan in plans]
    assert np.mean(taken) == pytest.approx(0.98, abs=0.005)


@pytest.mark.parametrize(
    ("rule", "honest", "spoilt"),
    [
        (Paper((1, 2, 10)), 0.38, 0.495),
        pytest.param(Prices(), 0.233, 0.28, marks=pytest.mark.slow),
    ],
    ids=["paper", "prices"],
)
def test_one_that_spoils_its_label_distribution_as_well(
    rule: Any, honest: float, spoilt: float
) -> None:
    """Such a client is in nearly every try. Agents skip these tries, so few are left."""
    shares = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    distances = []
    for lie in (lambda _stage, reply: reply, spoiling):
        plans = played(rule, Tries(10), lie).rounds(1, ROUNDS)
        chosen = [shares[list(map(int, plan.aliases))].mean(axis=0) for plan in plans]
        distances.append(np.mean([np.abs(mean - 0.1).sum() for mean in chosen]))
    assert distances == pytest.approx([honest, spoilt], abs=0.01)


@pytest.mark.parametrize("number", [5, 8, 11, 15, 24])
@pytest.mark.parametrize("num_candidates", [4, 5, 6])
def test_no_node_spoils_all_registrations_of_a_round(number: int, num_candidates: int) -> None:
    """With pinned keys, and a quorum just below four fifths, whichever node it is.

    As a member it fails, alone or so that all members are blamed, or sends garbage; otherwise it
    sends garbage, in any order.
    """
    trusted, nodes = [signing_key(row).public_key() for row in range(30)], range(number)
    quorum = max(3, number * 4 // 5 - 1)
    settings = Settings(num_participants=4, quorum=quorum, trusted_keys=trusted)
    ranks = {n: n if n < num_candidates else n + 6 for n in nodes}
    rest = RoundProgress(present=frozenset(nodes))
    aliases = dict(zip(nodes, map(str, nodes), strict=True))

    def most_spoilt(liar: int, run: Run, spoilt: int = 0) -> int:
        if spoilt == 7:
            return 7
        context = Context(settings, run, rest)
        members, turn = committee_of(context, settings.announced(run.seed), aliases, ranks)
        taken = registering(context, members, nodes, ranks)
        if liar not in taken:
            return spoilt
        context = context.with_run(committee_turn=turn + 1)
        blamed = [[liar], members] if liar in members else []
        refused = context.with_run(num_refused_epochs=run.num_refused_epochs + 1).doubting(taken)
        ways = [refused, *map(context.doubting, blamed)]
        return max(most_spoilt(liar, each.run, spoilt + 1) for each in ways)

    assert max(most_spoilt(liar, Run(seed)) for liar in nodes for seed in range(3)) <= 6


@pytest.mark.parametrize("liar", range(5))
@pytest.mark.parametrize("pinned", [True, False])
def test_a_node_that_lies_once_and_then_stops_answering(liar: int, *, pinned: bool) -> None:
    """One node more than the quorum is still there, in this small federation, too."""
    nodes = real_nodes(number=5, num_participants=3, pinned=pinned)

    def lie(stage: str, node_id: int, reply: Any) -> Any:
        if node_id != nodes.ids[liar] or stage not in {"register", "settle", "participate"}:
            return reply
        if nodes.state.run.num_refused_epochs:
            return reply if stage == "register" else None
        return {**reply, "registration": bytes(len(reply["registration"]))}

    nodes.alter_reply = lie
    for plan in nodes.rounds(1, 3):
        assert len(plan.participants) == 3
        assert not plan.fallback


@pytest.mark.parametrize(
    ("number", "pinned", "seed", "liar"), [(5, True, 2, 1), (5, False, 0, 0), (6, False, 0, 1)]
)
def test_a_node_that_lies_and_answers_nothing_as_a_member(
    number: int, seed: int, liar: int, *, pinned: bool
) -> None:
    """A committee that fails counts against its lost members as a refused sum does."""
    nodes = real_nodes(number=number, num_participants=3, pinned=pinned, seed=seed)

    def lie(stage: str, node_id: int, reply: Any) -> Any:
        if node_id != nodes.ids[liar] or stage not in {"appoint", "register"}:
            return reply
        spoilt = {"registration": bytes(len(reply.get("registration", b"")))}
        return {**reply, **spoilt} if stage == "register" else None

    nodes.alter_reply = lie
    assert not nodes.play(1).fallback


@pytest.mark.parametrize(("number", "pinned", "most"), [(20, False, 4), (8, True, 5)])
def test_two_nodes_that_spoil_every_registration(number: int, most: int, *, pinned: bool) -> None:
    """A round gives up if each of its samples has one of them; they may be any two of the nodes.

    With on_failure="raise", the run ends.
    """
    trusted = [signing_key(row).public_key() for row in range(number)] if pinned else None
    settings = Settings(
        num_participants=number // 2, max_registered=20, equal_weights=True, trusted_keys=trusted
    )
    nodes, spoilt = range(number), []
    ranks, aliases = dict(zip(nodes, nodes, strict=True)), {n: str(n) for n in nodes}
    rest = RoundProgress(present=frozenset(nodes))
    for seed in range(20):
        context, samples = Context(settings, Run(seed), rest), list[frozenset[int]]()
        for num_refused in range(1, 8):
            turn, taken = 0, sample(context, nodes)
            if pinned:
                committee, turn = committee_of(context, settings.announced(seed), aliases, ranks)
                taken = registering(context, committee, nodes, ranks)
            samples.append(frozenset(taken))
            context = context.doubting(taken).with_run(
                num_refused_epochs=num_refused, committee_turn=turn + 1
            )
        spoilt += [
            all(map(pair.intersection, samples)) for pair in map(set, combinations(nodes, 2))
        ]
        assert max(sum(node in each for each in samples) for node in nodes) <= most
    assert np.mean(spoilt) == pytest.approx(0.15, abs=0.02)
