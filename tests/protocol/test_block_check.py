"""Tests of the stage `check`: a broken block is left out and named, and the rest goes on."""

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.dishonest import KINDS, forged, make_dishonest
from protocol.federation import Federation, decrypted, dubhe, epoch_of, session_state, skewed_counts

from dubhe_flwr.core import (
    fixed_point_distribution,
    generator,
    overall_registry,
    with_square,
)
from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.protocol import (
    Batch,
    Coordinator,
    CoordinatorState,
    Fields,
    Plan,
    Settings,
    Stage,
    alias_order,
)
from dubhe_flwr.protocol.blocks import cut_blocks

NUM_CLIENTS = 60
COUNTS = skewed_counts(NUM_CLIENTS)
SETTINGS: dict[str, Any] = {
    "num_participants": 6,
    "reference_set": (1, 2, 4),
    "thresholds": {1: 0.6, 2: 0.3},
    "participation": "paper",
    "determination": "tries",
    "tries": 6,
    "block_size": 6,
    "registration_interval": 10,
}


def federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return sixty nodes and a server that has their registrations checked."""
    return dubhe(COUNTS, **SETTINGS | overrides)


def check_against_the_rest(nodes: Federation[CoordinatorState], plan: Plan) -> list[int]:
    """Compare all sums of a round with those over the rest in plain numbers; return the rest."""
    assert isinstance(nodes.selector, Coordinator)
    settings = nodes.selector.settings
    epoch = epoch_of(nodes)
    rest = [int(alias) for alias in epoch.aliases.values()]
    insider = session_state(nodes, epoch.registered[0])
    expected = np.concatenate(
        [
            overall_registry(COUNTS[rest], settings.codebook, candidate)[0]
            for candidate in epoch.parameters.candidates
        ]
    )
    found = decrypted(insider, "registry", epoch.overall_registry)
    np.testing.assert_array_equal(found, expected)
    shares = np.array([with_square(fixed_point_distribution(row)) for row in COUNTS[rest]])
    drawn = nodes.state.rounds[plan.server_round]
    (asked,) = [e.request for e in nodes.exchanges if e.stage == Stage.DETERMINE]
    joined: Any = asked["sums"]
    size = len(joined) // len(drawn.selections)
    for index, members in enumerate(drawn.selections):
        own = decrypted(insider, "distribution", joined[index * size : (index + 1) * size])
        np.testing.assert_array_equal(own, shares[members].sum(axis=0))
    return rest


@pytest.mark.parametrize("kind", KINDS)
def test_one_dishonest_registry_costs_its_block(kind: str) -> None:
    """Of sixty nodes, its block is left out and named; the others train as if it had not been."""
    nodes = federation()
    culprit = nodes.ids[23]
    make_dishonest(nodes, {culprit: kind})
    plan = nodes.play(1)
    rest = check_against_the_rest(nodes, plan)
    left_out = sorted(set(range(NUM_CLIENTS)) - set(rest))
    assert len(left_out) == 6
    assert 23 in left_out
    (note,) = plan.notes
    in_order = alias_order({node_id: str(row) for row, node_id in enumerate(nodes.ids)})
    blocks = cut_blocks(in_order, 6, 29, 7, 1)
    (number,) = (n for n, members in enumerate(blocks, start=1) if culprit in members)
    assert note.startswith(f"Block {number} of 10 ")
    assert note.endswith(
        "of 10 does not add up and is left out of this epoch: nodes "
        f"{', '.join(map(str, left_out))}."
    )
    assert plan.num_registered == 54
    assert len(plan.participants) == 6
    assert culprit not in plan.participants
    assert nodes.errors == []


@pytest.mark.parametrize("num_blocks", [7, 8, 9])
def test_an_answer_has_a_bit_for_each_block(num_blocks: int) -> None:
    """It is read whether or not the bits fill whole bytes."""
    nodes = federation()
    make_dishonest(nodes, {nodes.ids[23]: "twice"})
    plan = nodes.play(1, nodes.ids[: 6 * num_blocks])
    assert plan.num_registered == 6 * (num_blocks - 1)
    (report,) = [report for report in plan.stages if report.stage == "check"]
    assert (report.sent, report.accepted) == (1, 1)


def test_the_smallest_block_is_checked() -> None:
    """Three nodes in one, where nodes put up with a cohort of two."""
    small = {"num_participants": 2, "min_cohort": 2, "block_size": 3, "tries": 1}
    nodes = dubhe(COUNTS[:3], {"min_cohort": 2}, **SETTINGS | small)
    plan = nodes.play(1)
    (report,) = [report for report in plan.stages if report.stage == "check"]
    assert (report.sent, report.accepted) == (1, 1)
    assert (plan.num_registered, plan.notes, nodes.errors) == (3, (), [])


def test_without_blocks_it_costs_the_epoch() -> None:
    """Every node refuses an overall registry that does not add up."""
    nodes = federation(block_size=0)
    make_dishonest(nodes, {nodes.ids[23]: "twice"})
    with pytest.raises(QuorumError):
        nodes.play(1)


def test_several_broken_blocks() -> None:
    """Each is named, and the sums of the others are still exact."""
    nodes = federation()
    kinds = dict(zip(nodes.ids[::13], KINDS, strict=False))
    make_dishonest(nodes, kinds)
    plan = nodes.play(1)
    rest = check_against_the_rest(nodes, plan)
    assert not set(range(0, NUM_CLIENTS, 13)) & set(rest)
    assert NUM_CLIENTS - len(rest) == 6 * len(plan.notes)


def test_honest_nodes_lose_nothing() -> None:
    """With blocks the same nodes are chosen as without, and one exchange with one node is new."""
    plain, nodes = federation(block_size=0), federation()
    first, second = plain.play(1), nodes.play(1)
    assert second.num_registered == NUM_CLIENTS
    assert second.notes == ()
    check_against_the_rest(nodes, second)
    stages = [report.stage for report in second.stages]
    assert stages == ["join", "keygen", "register", "check", "participate", "determine"]
    assert [s for s in stages if s != "check"] == [report.stage for report in first.stages]
    report = second.stages[3]
    assert (report.sent, report.accepted, dict(report.dropped)) == (1, 1, {})


def test_who_checks_is_drawn_by_the_seed() -> None:
    """In the order of the aliases, the same in the next version."""
    nodes = federation()
    nodes.play(1)
    (checker,) = [e.node_id for e in nodes.exchanges if e.stage == "check"]
    first = generator(7, "check", 1).permutation(NUM_CLIENTS)[0]
    assert checker == epoch_of(nodes).registered[first]


def test_whoever_was_in_a_broken_block_comes_back() -> None:
    """Blocks are cut anew in each epoch: honest neighbours of the culprit register again."""
    nodes = federation(registration_interval=2)
    culprit = nodes.ids[23]
    make_dishonest(nodes, {culprit: "twice"})
    times = Counter[int]()
    for server_round in range(1, 17):
        nodes.play(server_round)
        if server_round % 2:
            times.update(set(nodes.ids) - set(epoch_of(nodes).registered))
    assert times[culprit] == 8
    assert max(count for node, count in times.items() if node != culprit) < 5


def test_a_checker_that_does_not_answer() -> None:
    """Another one is asked the very same, and the first is agent for nothing else either."""
    nodes = federation()
    make_dishonest(nodes, {nodes.ids[23]: "twice"})
    dishonest = nodes.alter_reply
    asked: list[int] = []

    def lose_first(stage: str, node_id: int, reply: Fields) -> Any:
        if stage != Stage.CHECK:
            return dishonest(stage, node_id, reply)
        asked.append(node_id)
        return None if len(asked) == 1 else reply

    nodes.alter_reply = lose_first
    plan = nodes.play(1)
    assert plan.num_registered == 54
    assert plan.notes[0] == "An agent did not check the blocks."
    assert epoch_of(nodes).checkers == set(asked)
    assert len(set(asked)) == 2
    first, second = [e.request for e in nodes.exchanges if e.stage == Stage.CHECK]
    assert {**first, "sequence": 0} == {**second, "sequence": 0}


def test_nobody_checks() -> None:
    """Where no agent answers all go on, and the log says that they are unchecked."""
    nodes = federation(agent_attempts=2)
    nodes.alter_request = lambda s, _n, request: None if s == Stage.CHECK else request
    plan = nodes.play(1)
    assert plan.num_registered == NUM_CLIENTS
    assert [report.stage for report in plan.stages].count("check") == 2
    assert plan.notes[-1] == "No agent checked the blocks; all go on unchecked."
    assert len(plan.participants) == 6


@pytest.mark.parametrize("passed", [b"", b"\xff", b"\xff\xff\xff"])
def test_a_reply_of_another_size_is_no_answer(passed: bytes) -> None:
    """There is one bit for each block, in whole bytes."""
    nodes = federation(agent_attempts=1)
    nodes.alter_reply = lambda s, _n, r: {**r, "passed": passed} if s == Stage.CHECK else r
    plan = nodes.play(1)
    assert plan.stages[3].dropped == {"wrong number of blocks": 1}
    assert plan.num_registered == NUM_CLIENTS


def test_too_few_for_a_block() -> None:
    """Fewer nodes than a block has go on unchecked, and the log says so."""
    nodes = federation(num_participants=3)
    kept = nodes.ids[:5]
    nodes.alter_reply = lambda s, n, r: r if n in kept or s != Stage.JOIN else None
    plan = nodes.play(1)
    assert plan.num_registered == 5
    assert plan.notes == ("Only 5 nodes registered, too few for a block of 6; unchecked.",)


def test_too_few_in_blocks_that_add_up() -> None:
    """The sentence says so, and the next round tries again."""
    nodes = federation(block_size=30, quorum=40)
    make_dishonest(nodes, {nodes.ids[23]: "twice"})
    with pytest.raises(QuorumError, match="30 nodes are registered in blocks that add up, fewer"):
        nodes.play(1)
    nodes.alter_reply = lambda _s, _n, reply: reply
    assert nodes.play(2).num_registered == NUM_CLIENTS


def answers(nodes: Federation[CoordinatorState], passed: list[bytes | None]) -> None:
    """Let the checkers answer this one after the other, and then what they found; None is lost."""
    others, left = nodes.alter_reply, iter(passed)

    def alter(stage: str, node_id: int, reply: Fields) -> Any:
        if stage != Stage.CHECK:
            return others(stage, node_id, reply)
        lie = next(left, b"as found")
        return reply if lie == b"as found" else lie and {**reply, "passed": lie}

    nodes.alter_reply = alter


@pytest.mark.parametrize(("passed", "broken", "kept"), [(b"\0\0", 10, 0), (b"\x80\0", 9, 6)])
def test_one_checker_does_not_end_a_round(passed: bytes, broken: int, kept: int) -> None:
    """Where it leaves fewer nodes than the quorum, another one is asked the very same."""
    nodes = federation(quorum=7)
    make_dishonest(nodes, {nodes.ids[23]: "twice"})
    answers(nodes, [passed])
    plan = nodes.play(1)
    assert 23 not in check_against_the_rest(nodes, plan)
    assert plan.num_registered == 54
    found, left_out = plan.notes
    assert found == (
        f"An agent found {broken} of 10 blocks broken, so that {kept} nodes are left; another one "
        "is asked."
    )
    assert "is left out of this epoch" in left_out
    first, second = [e.request for e in nodes.exchanges if e.stage == Stage.CHECK]
    assert {**first, "sequence": 0} == {**second, "sequence": 0}
    assert len(epoch_of(nodes).checkers) == 2


@pytest.mark.parametrize("passed", [[b"\0\0"] * 9, [None, b"\0\0", None], [b"\0\0", None, None]])
def test_the_last_answer_of_a_checker_holds(passed: list[bytes | None]) -> None:
    """Agents that are silent after it do not make up for blocks that were found broken."""
    nodes = federation()
    answers(nodes, passed)
    with pytest.raises(QuorumError, match="0 nodes are registered in blocks that add up, fewer"):
        nodes.play(1)
    assert [e.stage for e in nodes.exchanges].count("check") == 3


def test_as_many_as_the_quorum_are_enough() -> None:
    """Then no more nodes are shown the blocks than one."""
    nodes = federation(quorum=6, on_failure="random")
    answers(nodes, [b"\x80\0"])
    nodes.play(1)
    assert [e.stage for e in nodes.exchanges].count("check") == 1


@pytest.mark.parametrize(("max_sums", "num_blocks"), [(500, 10), (7, 7), (1, 1)])
def test_no_more_blocks_than_a_node_may_decrypt(max_sums: int, num_blocks: int) -> None:
    """A small budget makes larger blocks."""
    nodes = federation(max_sums_per_epoch=max_sums)
    batch = nodes.until(Stage.CHECK)
    ((_, request),) = batch.requests.items()
    covered: Any = request.num_clients  # type: ignore[union-attr]
    assert len(covered) == num_blocks
    assert sum(covered) == NUM_CLIENTS


def test_calibrated_and_grouped_go_on_with_the_rest() -> None:
    """What is past the paper works on the blocks that passed just as well."""
    nodes = federation(participation="calibrated", determination="grouped", group_size=3)
    make_dishonest(nodes, {nodes.ids[23]: "a huge slot"})
    plan = nodes.play(1)
    rest = check_against_the_rest(nodes, plan)
    assert len(rest) == 54
    assert nodes.errors == []


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        ({"block_size": 3}, "above min_cohort=3"),
        ({"block_size": 1}, "above min_cohort=3"),
        ({"block_size": -1}, "at least 0"),
        ({"block_size": 10_001}, "up to max_clients=10000"),
        ({"block_size": 4.5}, "whole number"),
    ],
)
def test_settings_that_cannot_work_are_refused(overrides: dict[str, Any], match: str) -> None:
    """A checker knows its own part, so that a block is larger than any other sum."""
    make = partial(Settings, num_participants=6, reference_set=(1, 2, 10))
    with pytest.raises(SettingsError, match=match):
        make(**overrides)
    assert make(block_size=4).announced(50).block_size == 4


def test_another_node_checks_in_each_epoch() -> None:
    """The checkers are drawn anew in each epoch and from the server's seed, so that runs repeat."""

    def checkers(seed: int) -> list[str]:
        nodes = federation(seed=seed, registration_interval=1)
        found = []
        for server_round in range(1, 7):
            nodes.play(server_round)
            (checker,) = epoch_of(nodes).checkers
            found.append(epoch_of(nodes).aliases[checker])
        return found

    first = checkers(1)
    assert len(set(first)) > 3
    assert first == checkers(1) != checkers(2)


@pytest.mark.parametrize("thresholds", ["search", "search-tries"])
def test_registrations_under_many_candidates_are_checked_too(thresholds: str) -> None:
    """Each candidate has its own total: a one too many under one makes up for none elsewhere."""
    nodes = federation(thresholds=thresholds, tries=2, num_participants=4)
    batch = nodes.until(Stage.REGISTER)
    culprit = nodes.ids[23]
    state = session_state(nodes, culprit)
    assert state.parameters.num_candidates > 1
    length = Coordinator(Settings(**SETTINGS)).settings.codebook.length

    def uneven(values: NDArray[np.object_]) -> NDArray[np.object_]:
        changed = values.copy()
        changed[:length], changed[length : 2 * length] = 0, changed[length : 2 * length] * 2
        return changed

    replies: Any = nodes.deliver(batch)
    spoilt = forged(session_state(nodes, culprit), "registry", replies[culprit]["registry"], uneven)
    replies[culprit] = {**replies[culprit], "registry": spoilt}
    outcome: Any = nodes.step(replies)
    while isinstance(outcome, Batch):
        outcome = nodes.step(nodes.deliver(outcome))
    rest = check_against_the_rest(nodes, outcome)
    assert len(rest) == 54
    assert 23 not in rest
    assert {e.stage for e in nodes.exchanges} >= {Stage.CHECK, Stage.EXPECT, Stage.SEARCH}
    assert nodes.errors == []
