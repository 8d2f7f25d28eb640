"""Tests of grouped determination on the server: small groups, of which an agent names the best."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    epoch_of,
    session_state,
    skewed_counts,
)

from dubhe_flwr.core import (
    best_groups,
    fixed_point_distribution,
    generator,
    group_sizes,
    with_square,
)
from dubhe_flwr.protocol import Batch, CoordinatorState, NodeFailure, Plan, Stage

NUM_CLIENTS = 40
COUNTS = skewed_counts(NUM_CLIENTS)
FIXED = np.array([with_square(fixed_point_distribution(row)) for row in COUNTS])
SETTINGS: dict[str, Any] = {
    "num_participants": 10,
    "reference_set": (1, 4),
    "thresholds": {1: 0.6},
    "tries": 4,
    "group_size": 3,
    "determination": "grouped",
}


def federation(num_clients: int = NUM_CLIENTS, **overrides: Any) -> Federation[CoordinatorState]:
    """Return nodes and a server that forms groups: of 3, 3 and 4 clients."""
    return dubhe(COUNTS[:num_clients], **SETTINGS | overrides)


def asked(nodes: Federation[CoordinatorState], stage: Stage) -> list[int]:
    """Return the nodes that were asked at a stage, in order."""
    return [exchange.node_id for exchange in nodes.exchanges if exchange.stage == stage]


def agents_in_turn(nodes: Federation[CoordinatorState], server_round: int = 1) -> list[int]:
    """Return the nodes in the order in which they are to determine a round of the first epoch."""
    order = generator(7, "agents", 1).permutation(len(nodes.ids))
    return [nodes.ids[row] for row in np.roll(order, -(server_round - 1))]


def check_groups(nodes: Federation[CoordinatorState], plan: Plan) -> None:
    """Check that the plan is made of disjoint groups without their agent."""
    drawn = nodes.state.rounds[plan.server_round]
    members = np.concatenate(drawn.selections).tolist()
    assert len(set(members)) == len(members)
    assert drawn.agent not in members
    assert {len(group) for group in drawn.selections} <= {3, 4}
    assert drawn.chosen is not None
    assert plan.chosen == drawn.chosen
    assert plan.num_selections == len(drawn.selections)
    union = sorted(row for index in drawn.chosen for row in drawn.selections[index].tolist())
    assert plan.participants == tuple(nodes.ids[row] for row in union)
    assert len(set(plan.participants)) == 10


class TestGroups:
    """Groups of the volunteers, of which those are taken that are best together."""

    @pytest.mark.parametrize("rounds_per_draw", [1, 5])
    def test_the_best_groups_train(self, rounds_per_draw: int) -> None:
        """Each round's agent is asked for the sums of its groups, which are then the best."""
        nodes = federation(rounds_per_draw=rounds_per_draw)
        agents = []
        for server_round in range(1, 11):
            plan = nodes.play(server_round)
            check_groups(nodes, plan)
            assert plan.notes == ()
            drawn = nodes.state.rounds[server_round]
            sums = [FIXED[group].sum(axis=0) for group in drawn.selections]
            sizes = [len(group) for group in drawn.selections]
            assert plan.chosen == tuple(best_groups(sums, sizes, group_sizes(10, 3)).tolist())
            assert drawn.agent is not None
            agents.append(nodes.ids[drawn.agent])
        assert agents == agents_in_turn(nodes)[:10]
        assert sorted(asked(nodes, Stage.DETERMINE)) == sorted(agents)
        volunteers, groups = 20, 6
        assert epoch_of(nodes).groups_per_round == volunteers // 3 == groups

    def test_no_agent_sees_its_own_data(self) -> None:
        """What an agent decrypts are the sums of groups of others."""
        nodes = federation()
        for server_round in range(1, 6):
            nodes.exchanges.clear()
            nodes.play(server_round)
            (exchange,) = [e for e in nodes.exchanges if e.stage == Stage.DETERMINE]
            groups = nodes.state.rounds[server_round].selections
            sums, state = exchange.request["sums"], session_state(nodes, exchange.node_id)
            assert isinstance(sums, bytes)
            size = len(sums) // len(groups)
            found = [
                decrypted(state, "distribution", sums[start : start + size])
                for start in range(0, len(sums), size)
            ]
            np.testing.assert_array_equal(found, [FIXED[group].sum(axis=0) for group in groups])
            assert nodes.ids.index(exchange.node_id) not in np.concatenate(groups)
            assert state.num_sums == len(groups)
            assert epoch_of(nodes).num_sums[exchange.node_id] == len(groups)

    def test_one_draw_a_round(self) -> None:
        """A node tells a single yes or no, which counts as often as there are K volunteers."""
        nodes = federation(tries=100, registration_interval=10)
        nodes.play(1)
        assert epoch_of(nodes).num_draws == 2
        assert {e.request["num-tries"] for e in nodes.exchanges if e.stage == "participate"} == {1}
        assert {session_state(nodes, node_id).num_draws for node_id in nodes.ids} == {2}

    @pytest.mark.parametrize(("most_sums", "rounds"), [(5, 20), (6, 40)])
    def test_an_epoch_ends_when_its_agents_have_spent_their_sums(
        self, most_sums: int, rounds: int
    ) -> None:
        """Twenty nodes determine one or two rounds of three groups each."""
        nodes = federation(
            20,
            num_participants=5,
            group_size=3,
            tries=100,
            registration_interval=50,
            max_sums_per_epoch=most_sums,
            max_draws_per_epoch=5000,
        )
        first = nodes.play(1).epoch
        assert epoch_of(nodes).groups_per_round == 3
        assert nodes.play(rounds).epoch == first
        assert nodes.play(rounds + 1).epoch != first

    def test_the_rounds_of_a_draw_have_their_groups(self) -> None:
        """One request for each agent; the same sets as one by one."""
        runs = []
        for rounds_per_draw in (1, 4):
            nodes = federation(rounds_per_draw=rounds_per_draw, participation="calibrated")
            runs.append([nodes.play(r).aliases for r in range(1, 9)])
        assert runs[0] == runs[1]

    def test_an_agent_of_several_rounds(self) -> None:
        """The answer is split by round."""
        nodes = federation(rounds_per_draw=3)
        batch = nodes.until(Stage.PARTICIPATE)
        stand_in = nodes.ids[4]
        spent = {node_id: 19 for node_id in nodes.ids if node_id != stand_in}
        nodes.state = replace(nodes.state, epoch=replace(epoch_of(nodes), num_sums=spent))
        outcome = nodes.step(nodes.deliver(batch))
        assert isinstance(outcome, Batch)
        assert list(outcome.requests) == [stand_in]
        plan = nodes.step(nodes.deliver(outcome))
        assert isinstance(plan, Plan)
        assert plan.notes == ()
        for server_round in (1, 2, 3):
            plan = nodes.play(server_round) if server_round > 1 else plan
            check_groups(nodes, plan)
            groups = nodes.state.rounds[server_round].selections
            sums = [FIXED[group].sum(axis=0) for group in groups]
            sizes = [len(group) for group in groups]
            assert plan.chosen == tuple(best_groups(sums, sizes, group_sizes(10, 3)).tolist())


def answer(*indices: int) -> bytes:
    """Return indices as they travel."""
    return np.array(indices, dtype=">i8").tobytes()


WRONG: list[tuple[Any, str]] = [
    (lambda _r, _s: None, "no reply"),
    (lambda _r, _s: NodeFailure("out of memory"), "error reply"),
    (lambda r, _s: {**r, "chosen": b"1234567"}, "MalformedMessageError"),
    (lambda r, _s: {**r, "chosen": b""}, "no such try or groups"),
    (lambda r, _s: {**r, "chosen": answer(0, 1)}, "no such try or groups"),
    (lambda r, _s: {**r, "chosen": answer(0, 1, 2, 3)}, "no such try or groups"),
    (lambda r, _s: {**r, "chosen": r["chosen"] * 2}, "no such try or groups"),
    (lambda r, _s: {**r, "chosen": answer(0, 0, 2)}, "no such try or groups"),
    (lambda r, _s: {**r, "chosen": answer(2, 2, 2)}, "no such try or groups"),
    (lambda r, s: {**r, "chosen": answer(0, 2, len(s))}, "no such try or groups"),
    (lambda r, _s: {**r, "chosen": answer(0, 1, -1)}, "no such try or groups"),
    (lambda r, _s: {**r, "chosen": answer(2**62, 0, 1)}, "no such try or groups"),
    (lambda r, s: {**r, "chosen": answer(*of_sizes(s, [3, 3, 3]))}, "no such try or groups"),
    (lambda r, s: {**r, "chosen": answer(*of_sizes(s, [3, 4, 4]))}, "no such try or groups"),
]


def volunteering(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply in which the node has drawn a yes, if it is one on participation."""
    return reply | ({"decisions": b"\x80"} if "decisions" in reply else {})


def of_sizes(groups: Any, sizes: list[int]) -> tuple[int, ...]:
    """Return distinct groups of these sizes."""
    return next(
        indices
        for indices in combinations(range(len(groups)), len(sizes))
        if sorted(len(groups[index]) for index in indices) == sizes
    )


class TestWrongReplies:
    """Whatever an agent answers, exactly K distinct clients train."""

    @pytest.mark.parametrize(("spoil", "reason"), WRONG)
    def test_an_agent_that_fails_is_replaced(self, spoil: Any, reason: str) -> None:
        """The next one in turn determines groups that lack its data."""
        nodes = federation()
        first, second, *_ = agents_in_turn(nodes)
        nodes.alter_reply = lambda stage, node_id, reply: (
            spoil(reply, nodes.state.rounds[1].selections)
            if (stage, node_id) == (Stage.DETERMINE, first)
            else volunteering(reply)
        )
        plan = nodes.play(1)
        assert asked(nodes, Stage.DETERMINE) == [first, second]
        assert plan.stages[-2].dropped == {reason: 1}
        assert plan.notes == ("An agent did not determine.",)
        check_groups(nodes, plan)
        assert nodes.state.rounds[1].agent == nodes.ids.index(second)

    @pytest.mark.parametrize(("spoil", "_reason"), WRONG)
    def test_at_last_the_first_groups_are_taken(self, spoil: Any, _reason: str) -> None:
        """They are a random choice among the volunteers."""
        nodes = federation(agent_attempts=2)
        nodes.alter_reply = lambda stage, _node_id, reply: (
            spoil(reply, nodes.state.rounds[1].selections)
            if stage == Stage.DETERMINE
            else volunteering(reply)
        )
        plan = nodes.play(1)
        assert len(asked(nodes, Stage.DETERMINE)) == 2
        assert plan.chosen == (0, 1, 2)
        assert plan.notes == (
            "An agent did not determine.",
            "No agent determined; the choice is random.",
        )
        check_groups(nodes, plan)

    def test_any_groups_that_make_up_k_are_taken(self) -> None:
        """The server cannot tell which ones are best: the order does not matter either."""
        nodes = federation()
        wanted: list[tuple[int, ...]] = []

        def other(stage: str, _node_id: int, reply: Any) -> Any:
            if stage != Stage.DETERMINE:
                return reply
            wanted.append(of_sizes(nodes.state.rounds[1].selections, [3, 3, 4])[::-1])
            return {**reply, "chosen": answer(*wanted[0])}

        nodes.alter_reply = other
        plan = nodes.play(1)
        assert (plan.chosen, plan.notes) == (wanted[0], ())
        check_groups(nodes, plan)

    def test_when_no_agent_is_left_the_choice_is_random(self) -> None:
        """Nodes that have spent their sums are not asked."""
        nodes = federation()
        batch = nodes.until(Stage.PARTICIPATE)
        spent = dict.fromkeys(nodes.ids, 14)
        nodes.state = replace(nodes.state, epoch=replace(epoch_of(nodes), num_sums=spent))
        plan = nodes.step(nodes.deliver(batch))
        assert isinstance(plan, Plan)
        assert plan.notes == ("No agent is left to determine; the choice is random.",)
        assert (plan.chosen, plan.num_selections) == ((0,), 1)
        assert len(set(plan.participants)) == 10

    def test_one_wrong_round_of_two_is_enough(self) -> None:
        """An answer is taken as a whole or not at all."""
        nodes = federation(rounds_per_draw=2, agent_attempts=1)
        batch = nodes.until(Stage.PARTICIPATE)
        stand_in = nodes.ids[4]
        spent = {node_id: 19 for node_id in nodes.ids if node_id != stand_in}
        nodes.state = replace(nodes.state, epoch=replace(epoch_of(nodes), num_sums=spent))
        outcome = nodes.step(nodes.deliver(batch))
        assert isinstance(outcome, Batch)
        replies: Any = nodes.deliver(outcome)
        chosen = replies[stand_in]["chosen"]
        replies[stand_in] |= {"chosen": chosen[:24] + answer(0, 1, 1)}
        plan = nodes.step(replies)
        assert isinstance(plan, Plan)
        assert plan.notes == ("No agent determined; the choice is random.",)
        assert [nodes.state.rounds[r].chosen for r in (1, 2)] == [(0, 1, 2)] * 2


class TestPools:
    """Few or many volunteers, willing or gone."""

    @pytest.mark.parametrize("yes", [0, 3, 10, 39])
    def test_few_volunteers_are_filled_up(self, yes: int) -> None:
        """With fewer than K volunteers the willing others are drafted, uniformly."""
        nodes = federation()
        volunteers = set(nodes.ids[:yes])
        nodes.alter_reply = lambda stage, node_id, reply: (
            {**reply, "decisions": b"\x80" if node_id in volunteers else b"\x00"}
            if stage == Stage.PARTICIPATE
            else reply
        )
        drafted = set()
        for server_round in range(1, 13):
            plan = nodes.play(server_round)
            check_groups(nodes, plan)
            drawn = nodes.state.rounds[server_round]
            pool = {nodes.ids[row] for row in np.concatenate(drawn.selections)}
            agent = {nodes.ids[drawn.agent]} if drawn.agent is not None else set()
            if yes <= 10:
                assert volunteers - agent <= pool
                assert len(drawn.selections) == 3
            else:
                assert pool <= volunteers
                assert len(drawn.selections) == 6
            drafted |= pool - volunteers
        assert (len(drafted) > 20) == (yes < 10)

    def test_the_unwilling_are_in_no_group(self) -> None:
        """Their yes does not count."""
        nodes = federation(tries=100, registration_interval=10)
        for node_id in nodes.ids[::2]:
            nodes.policies[node_id] = replace(nodes.policies[node_id], willing=lambda r: r != 2)
        nodes.play(1)
        plan = nodes.play(2)
        check_groups(nodes, plan)
        members = np.concatenate(nodes.state.rounds[2].selections)
        assert (members % 2 == 1).all()

    @pytest.mark.parametrize(("willing", "determined"), [(10, False), (11, False), (12, True)])
    def test_just_enough_are_willing(self, willing: int, determined: bool) -> None:
        """There is a choice if beside the agent more than K are willing."""
        nodes = federation()
        for node_id in nodes.ids[willing:]:
            nodes.policies[node_id] = replace(nodes.policies[node_id], willing=lambda r: r == 0)
        plan = nodes.play(1)
        assert bool(asked(nodes, Stage.DETERMINE)) == determined
        assert len(set(plan.participants)) == 10
        assert plan.notes == ()

    def test_the_vanished_are_replaced(self) -> None:
        """Nodes of the chosen groups that left are replaced by others that are there."""
        nodes, same = federation(rounds_per_draw=3), federation(rounds_per_draw=3)
        nodes.play(1)
        same.play(1)
        drawn = same.play(2).participants
        gone = set(drawn[:4])
        plan = nodes.play(2, [node_id for node_id in nodes.ids if node_id not in gone])
        assert plan.stages == ()
        assert len(set(plan.participants)) == 10
        assert set(drawn[4:]) <= set(plan.participants)
        assert not gone & set(plan.participants)


class TestSmallFederations:
    """Whatever the numbers, K distinct clients train and nothing is asked in vain."""

    @pytest.mark.parametrize("participation", ["paper", "calibrated"])
    @pytest.mark.parametrize("determination", ["tries", "grouped"])
    @pytest.mark.parametrize("num_clients", range(3, 13))
    def test_all_combinations(
        self, num_clients: int, determination: str, participation: str
    ) -> None:
        """With K from all clients down to a cohort."""
        for num_participants in {num_clients, num_clients - 1, num_clients // 2, 3}:
            if num_participants < 3:
                continue
            nodes = federation(
                num_clients,
                num_participants=num_participants,
                determination=determination,
                participation=participation,
                rounds_per_draw=2,
            )
            for server_round in (1, 2, 3):
                plan = nodes.play(server_round)
                assert len(set(plan.participants)) == num_participants
                assert plan.notes == ()
            assert nodes.errors == []

    @settings(max_examples=25)
    @given(data=st.data())
    def test_any_federation(self, data: st.DataObject) -> None:
        """Sizes, groups, budgets and intervals of all kinds: K train, agents keep to budgets."""
        num_clients = data.draw(st.integers(3, 30))
        num_participants = data.draw(st.integers(3, data.draw(st.integers(3, num_clients))))
        interval = data.draw(st.integers(1, 6))
        nodes = federation(
            num_clients,
            num_participants=num_participants,
            group_size=data.draw(st.integers(3, num_participants)),
            tries=data.draw(st.integers(1, 12)),
            registration_interval=interval,
            rounds_per_draw=data.draw(st.integers(1, 4)),
            max_sums_per_epoch=data.draw(st.integers(0, 20)),
            agent_attempts=1,
        )
        for server_round in range(1, 7):
            plan = nodes.play(server_round)
            assert len(set(plan.participants)) == num_participants
            epoch = epoch_of(nodes)
            assert max(epoch.num_sums.values(), default=0) <= epoch.sums_per_agent
            assert epoch.sums_per_agent < num_clients / 2
            groups = nodes.state.rounds[server_round].selections
            assert plan.num_selections <= max(1, epoch.groups_per_round)
            assert all(len(group) >= 3 for group in groups)
            assert plan.notes == ()
        assert nodes.errors == []

    @pytest.mark.parametrize(
        "options",
        [
            {"determination": "tries", "num_participants": 9, "tries": 3},
            {"determination": "tries", "num_participants": 8, "tries": 3},
            {"num_participants": 6},
            {"num_participants": 9},
            {"determination": "one-off", "num_participants": 3},
        ],
    )
    def test_sums_that_nobody_decrypts_end_no_epoch(self, options: dict[str, Any]) -> None:
        """Without a choice the epoch lasts its interval."""
        nodes = federation(9, registration_interval=14, **options)
        epochs = [nodes.play(server_round).epoch for server_round in range(1, 16)]
        assert [epochs.index(epoch) for epoch in epochs] == [0] * 14 + [14]
        assert asked(nodes, Stage.DETERMINE) == []
