"""Tests of the search on the server: what it costs, when it runs, and what it survives."""

from dataclasses import replace
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
from protocol.server import COUNTS, FAULTS, NUM_CLIENTS, SETTINGS, asked, report_of

from dubhe_flwr.core import (
    best_candidate,
    fixed_point_distribution,
    overall_registry,
    search_contribution,
)
from dubhe_flwr.errors import QuorumError, RefusedError
from dubhe_flwr.protocol import Coordinator, CoordinatorState, Plan, Settings, Stage
from dubhe_flwr.protocol.search import fewest_answers, search_agents, search_tries

NUM_OF_TRIES = 24
"""Clients with whom an agent may decrypt three tries of each of three candidates."""


def federation(thresholds: str = "search", **overrides: Any) -> Federation[CoordinatorState]:
    """Return nodes and a server that searches."""
    options = SETTINGS | {"thresholds": thresholds, "registration_interval": 2}
    counts = COUNTS
    if thresholds == "search-tries":
        counts = skewed_counts(NUM_OF_TRIES)
        options |= {"reference_set": (1, 4), "max_clients": NUM_OF_TRIES}
    return dubhe(counts, **options | overrides)


def agents_in_turn(nodes: Federation[CoordinatorState]) -> list[int]:
    """Return the nodes in the order in which they are asked in the first epoch."""
    return [nodes.ids[row] for row in search_agents(7, 1, len(nodes.ids))]


def searched(plan: Plan) -> bool:
    """Tell whether thresholds were searched for in a round."""
    return any(report.stage == Stage.EXPECT for report in plan.stages)


def best_in_the_clear(rows: list[int]) -> dict[int, float]:
    """Return the best thresholds by what some of the twelve clients expect."""
    settings = Settings(key_bits=512, **SETTINGS | {"thresholds": "search"})
    registered = [overall_registry(COUNTS, settings.codebook, c) for c in settings.candidates]
    overall = [counts for counts, _ in registered]
    tables = [
        search_contribution(
            fixed_point_distribution(COUNTS[row]),
            [slots[row] for _, slots in registered],
            overall,
            4,
        )
        for row in rows
    ]
    return dict(settings.candidates[best_candidate(sum(tables, np.zeros_like(tables[0])))])


def fallback(nodes: Federation[CoordinatorState]) -> Any:
    """Return the thresholds that hold if a search fails."""
    assert isinstance(nodes.selector, Coordinator)
    settings = nodes.selector.settings
    return settings.candidates[settings.fallback_candidate]


class TestCost:
    """The whole grid takes one registration and one more exchange with all nodes."""

    @pytest.mark.parametrize("reference_set", [(1, 4), (1, 2, 4), (1, 2, 3, 4)])
    def test_two_exchanges_with_all_and_one_with_an_agent(
        self, reference_set: tuple[int, ...]
    ) -> None:
        """Whatever the size of the grid, and nobody is asked to register twice."""
        nodes = federation(reference_set=reference_set, determination="one-off")
        nodes.play(1)
        assert nodes.stages() == ["join", "keygen", "register", "expect", "search", "participate"]
        assert asked(nodes, Stage.REGISTER) == asked(nodes, Stage.EXPECT) == nodes.ids
        assert asked(nodes, Stage.SEARCH) == agents_in_turn(nodes)[:1]
        assert len(epoch_of(nodes).parameters.candidates) == 3 ** (len(reference_set) - 1)

    def test_tries_cost_no_more_exchanges(self) -> None:
        """As in the paper, but all tries of all candidates at once."""
        nodes = federation("search-tries", determination="one-off")
        nodes.play(1)
        assert nodes.stages() == ["join", "keygen", "register", "expect", "search", "participate"]
        assert {e.request["num-tries"] for e in nodes.exchanges if e.stage == Stage.EXPECT} == {3}

    @pytest.mark.parametrize(
        ("overrides", "charged"), [({}, 9), ({"determination": "grouped", "group_size": 3}, 27)]
    )
    def test_tries_are_charged_on_both_sides(self, overrides: Any, charged: int) -> None:
        """Nodes draw three times for each candidate, for groups three times as many volunteers."""
        nodes = federation("search-tries", **overrides)
        nodes.until(Stage.PARTICIPATE)
        assert epoch_of(nodes).num_draws == charged + 3
        assert {session_state(nodes, node_id).num_draws for node_id in nodes.ids} == {charged}
        agent = agents_in_turn(nodes)[0]
        assert session_state(nodes, agent).num_sums == epoch_of(nodes).num_sums[agent] == 9

    def test_where_an_agent_may_decrypt_too_little_no_tries_are_made(self) -> None:
        """Twelve clients allow five sums, not one for each of nine candidates."""
        options = SETTINGS | {"thresholds": "search-tries", "registration_interval": 2}
        nodes = dubhe(COUNTS, **options)
        plan = nodes.play(1)
        assert {e.request["num-tries"] for e in nodes.exchanges if e.stage == Stage.EXPECT} == {0}
        assert report_of(plan, "search").accepted == 1
        assert (plan.notes, nodes.errors) == ((), [])


class TestFound:
    """What the agent names holds, and its own data is in nothing that it decrypts."""

    def test_the_best_candidate_holds(self) -> None:
        """By the expectations of all but the agent."""
        nodes = federation()
        plan = nodes.play(1)
        agent = nodes.ids.index(agents_in_turn(nodes)[0])
        found = best_in_the_clear([row for row in range(NUM_CLIENTS) if row != agent])
        assert plan.thresholds == nodes.state.thresholds == found
        assert found != fallback(nodes)
        assert {session_state(nodes, i).candidate for i in nodes.ids} == {epoch_of(nodes).candidate}

    def test_another_agent_searches_without_its_own_data(self) -> None:
        """Its sum is one of its own, not the first one's."""
        nodes = federation()
        first, second, *_ = agents_in_turn(nodes)
        nodes.alter_reply = lambda stage, node_id, reply: (
            None if (stage, node_id) == (Stage.SEARCH, first) else reply
        )
        plan = nodes.play(1)
        row = nodes.ids.index(second)
        assert plan.thresholds == best_in_the_clear([k for k in range(NUM_CLIENTS) if k != row])
        assert plan.notes == ("An agent did not search for thresholds.",)
        requests = [e.request for e in nodes.exchanges if e.stage == Stage.SEARCH]
        assert [request["num-clients"] for request in requests] == [11, 11]
        assert requests[0]["sums"] != requests[1]["sums"]

    @pytest.mark.parametrize("thresholds", ["search", "search-tries"])
    def test_rounds_repeat_from_a_seed(self, thresholds: str) -> None:
        """Thresholds and sets do not depend on ids or keys."""
        plans = [federation(thresholds).play(1) for _ in range(2)]
        assert plans[0].thresholds == plans[1].thresholds
        assert plans[0].aliases == plans[1].aliases


class TestWhen:
    """The first epoch searches, and a later one if enough nodes came or went."""

    def test_once(self) -> None:
        """The second epoch announces what the first one found, and nothing else."""
        nodes = federation()
        first, _, second = (nodes.play(server_round) for server_round in (1, 2, 3))
        assert (searched(first), searched(second)) == (True, False)
        assert first.epoch != second.epoch
        assert second.thresholds == first.thresholds
        (announced,) = {
            e.request["thresholds"]
            for e in nodes.exchanges
            if e.stage == Stage.JOIN and e.request["epoch"] == second.epoch
        }
        assert announced == np.array(list(first.thresholds.values()), dtype=">f8").tobytes()

    @pytest.mark.parametrize(
        ("share", "gone", "again"),
        [(0.25, 3, False), (0.24, 3, True), (0.0, 0, False), (0, 1, True)],
    )
    def test_again_if_enough_nodes_left(self, share: float, gone: int, again: bool) -> None:
        """More than `max_changed` of those that registered or declined."""
        nodes = federation(max_changed=share)
        nodes.play(1)
        assert searched(nodes.play(3, nodes.ids[gone:])) == again

    @pytest.mark.parametrize(("share", "again"), [(0.34, False), (0.33, True)])
    def test_again_if_enough_nodes_came(self, share: float, again: bool) -> None:
        """Three of nine are a third."""
        nodes = federation(max_changed=share)
        nodes.play(1, nodes.ids[:9])
        assert searched(nodes.play(3)) == again

    def test_who_declines_does_not_change_anything(self) -> None:
        """Nodes that are there but stay out bring no search after search."""
        nodes = federation()
        for node_id in nodes.ids[:4]:
            nodes.policies[node_id] = replace(nodes.policies[node_id], willing=lambda _r: False)
        nodes.play(1)
        assert not searched(nodes.play(3))

    def test_who_was_lost_and_comes_back_does(self) -> None:
        """What they hold was in no sum of the search."""
        nodes = federation()
        nodes.alter_request = lambda stage, node_id, request: (
            None if (stage == Stage.JOIN and node_id in nodes.ids[:4]) else request
        )
        nodes.play(1)
        nodes.alter_request = lambda _s, _n, request: request
        assert searched(nodes.play(3))

    def test_on_request(self) -> None:
        """The operator's word begins an epoch with a search in the middle of another."""
        nodes = federation(registration_interval=9)
        first = nodes.play(1)
        assert not searched(nodes.play(2))
        assert isinstance(nodes.selector, Coordinator)
        nodes.state = nodes.selector.search_again(nodes.state)
        third = nodes.play(3)
        assert searched(third)
        assert third.epoch != first.epoch

    def test_given_thresholds_are_not_searched_for(self) -> None:
        """Not even on request: the nodes register anew, under the same thresholds."""
        nodes = dubhe(COUNTS, **SETTINGS)
        first = nodes.play(1)
        assert isinstance(nodes.selector, Coordinator)
        nodes.state = nodes.selector.search_again(nodes.state)
        second = nodes.play(2)
        assert not searched(second)
        assert second.epoch != first.epoch
        assert second.thresholds == first.thresholds == SETTINGS["thresholds"]


UNFIT = [
    (lambda v, _n: v[:-1], "wrong size of answer"),
    (lambda v, _n: v * 2, "wrong size of answer"),
    (lambda v, _n: b"", "wrong size of answer"),
    (lambda v, _n: bytes(len(v)), "invalid ciphertext"),
    (lambda v, _n: b"\xff" * len(v), "invalid ciphertext"),
    (lambda v, n: epoch_of(n).public_key.n.to_bytes(len(v), "big"), "invalid ciphertext"),
]


class TestAnswers:
    """Unfit answers are dropped alone; with too few the settings' thresholds hold."""

    @pytest.mark.parametrize(
        ("thresholds", "spoil", "reason"),
        [*(("search", *fault) for fault in FAULTS), ("search-tries", *FAULTS[0])],
    )
    def test_some_are_lost(self, thresholds: str, spoil: Any, reason: str) -> None:
        """The lost ones are no agents of the search, but they train like others."""
        nodes = federation(thresholds)
        victims = agents_in_turn(nodes)[:3]
        nodes.alter_reply = lambda stage, node_id, reply: (
            spoil(reply) if stage == Stage.EXPECT and node_id in victims else reply
        )
        plan = nodes.play(1)
        report = report_of(plan, Stage.EXPECT)
        assert report.dropped == {reason: 3}
        assert report.accepted == len(nodes.ids) - 3
        assert asked(nodes, Stage.SEARCH) == agents_in_turn(nodes)[3:4]
        assert plan.num_registered == len(nodes.ids)
        assert set(victims) <= set(asked(nodes, Stage.PARTICIPATE))
        assert (plan.notes, nodes.errors) == ((), [])

    @pytest.mark.parametrize(("spoil", "reason"), UNFIT)
    def test_what_is_no_answer_is_in_no_sum(self, spoil: Any, reason: str) -> None:
        """One node's nonsense costs its own answer only."""
        nodes = federation()
        odd = agents_in_turn(nodes)[-1]
        nodes.alter_reply = lambda stage, node_id, reply: (
            {**reply, "expectations": spoil(reply["expectations"], nodes)}
            if (stage, node_id) == (Stage.EXPECT, odd)
            else reply
        )
        plan = nodes.play(1)
        assert report_of(plan, Stage.EXPECT).dropped == {reason: 1}
        agent = agents_in_turn(nodes)[0]
        rows = [k for k, node_id in enumerate(nodes.ids) if node_id not in {odd, agent}]
        assert plan.thresholds == best_in_the_clear(rows)

    @pytest.mark.parametrize(
        ("thresholds", "field", "value"),
        [
            ("search", "decisions", b"\x00"),
            ("search-tries", "decisions", b"\x00"),
            ("search-tries", "decisions", bytes(3)),
            ("search-tries", "expectations", b"\x01" * 128),
        ],
    )
    def test_an_answer_of_the_other_kind_is_dropped(
        self, thresholds: str, field: str, value: bytes
    ) -> None:
        """Bits where expectations are wanted, the reverse, and bits of another number."""
        nodes = federation(thresholds)
        nodes.alter_reply = lambda stage, node_id, reply: (
            {**reply, field: value} if (stage, node_id) == (Stage.EXPECT, nodes.ids[0]) else reply
        )
        report = report_of(nodes.play(1), Stage.EXPECT)
        assert report.dropped == {"wrong size of answer": 1}

    @pytest.mark.parametrize(
        ("thresholds", "num_left", "enough"),
        [
            *(("search", 4, True), ("search", 3, False)),
            *(("search-tries", 5, True), ("search-tries", 4, False)),
        ],
    )
    def test_too_few(self, thresholds: str, num_left: int, enough: bool) -> None:
        """Beside the agent a cohort is needed, or K clients for a try."""
        nodes = federation(thresholds)
        assert isinstance(nodes.selector, Coordinator)
        assert fewest_answers(nodes.selector.settings, thresholds == "search-tries") == (
            5 if thresholds == "search-tries" else 4
        )
        nodes.alter_reply = lambda stage, node_id, reply: (
            None if stage == Stage.EXPECT and node_id not in nodes.ids[:num_left] else reply
        )
        plan = nodes.play(1)
        assert len(plan.participants) == 4
        if enough:
            assert plan.notes == ()
            assert len(asked(nodes, Stage.SEARCH)) == 1
        else:
            (note,) = plan.notes
            assert note.startswith("Too few answers came to search for thresholds.")
            assert note.endswith("Thresholds from the settings hold instead.")
            assert plan.thresholds == fallback(nodes)
            assert asked(nodes, Stage.SEARCH) == []

    def test_a_replay_of_the_registration_is_stale(self) -> None:
        """An answer of an earlier stage is none to this one."""
        nodes = federation()
        nodes.until(Stage.EXPECT)
        nodes.step({e.node_id: e.reply for e in nodes.exchanges if e.reply is not None})
        assert nodes.state.stages[-1].dropped == {"StaleMessageError": 12}
        assert nodes.state.thresholds is None


class TestAgents:
    """One agent, another one if it fails, and the settings' thresholds if all do."""

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            *FAULTS,
            (lambda r: {**r, "candidate": 9}, "no such candidate"),
            (lambda r: {**r, "candidate": -1}, "no such candidate"),
            (lambda r: {**r, "candidate": 2**62}, "no such candidate"),
            (lambda r: {**r, "candidate": True}, "MalformedMessageError"),
        ],
    )
    def test_an_agent_that_fails_is_replaced(self, spoil: Any, reason: str) -> None:
        """By the next one in turn, with a note."""
        nodes = federation()
        first, second, *_ = agents_in_turn(nodes)
        nodes.alter_reply = lambda stage, node_id, reply: (
            spoil(reply) if (stage, node_id) == (Stage.SEARCH, first) else reply
        )
        plan = nodes.play(1)
        assert asked(nodes, Stage.SEARCH) == [first, second]
        assert report_of(plan, Stage.SEARCH).dropped == {reason: 1}
        assert plan.notes == ("An agent did not search for thresholds.",)

    @pytest.mark.parametrize("thresholds", ["search", "search-tries"])
    @pytest.mark.parametrize("attempts", [1, 3, 50])
    def test_at_last_the_settings_hold(self, thresholds: str, attempts: int) -> None:
        """The round goes on and says so, and the next epoch searches again."""
        nodes = federation(thresholds, agent_attempts=attempts, determination="one-off")
        nodes.alter_reply = lambda stage, _n, reply: None if stage == Stage.SEARCH else reply
        plan = nodes.play(1)
        attempts = min(attempts, len(nodes.ids))
        assert asked(nodes, Stage.SEARCH) == agents_in_turn(nodes)[:attempts]
        assert plan.notes == (
            *["An agent did not search for thresholds."] * attempts,
            "No agent searched for thresholds. Thresholds from the settings hold instead.",
        )
        assert plan.thresholds == fallback(nodes)
        assert len(plan.participants) == 4
        assert nodes.errors == []
        nodes.alter_reply = lambda _s, _n, reply: reply
        later = nodes.play(3)
        assert searched(later)
        assert later.notes == ()

    @pytest.mark.parametrize("thresholds", ["search", "search-tries"])
    def test_one_false_answer_costs_the_search_of_an_epoch(self, thresholds: str) -> None:
        """No agent can tell whose it is; the settings hold, and the next epoch searches again."""
        nodes = federation(thresholds)
        liar = agents_in_turn(nodes)[3]  # not asked to search, and in one of the tries
        if thresholds == "search-tries":
            make_dishonest(nodes, {liar: "two distributions"})

        def alter(stage: str, node_id: int, reply: Any) -> Any:
            if (stage, node_id) != (Stage.EXPECT, liar):
                return reply
            state = session_state(nodes, liar)
            table = decrypted(state, "expectations", reply["expectations"])
            return {**reply, "expectations": encrypted(state, "expectations", table * 0 + 2**20)}

        if thresholds == "search":
            nodes.alter_reply = alter
        nodes.until(Stage.PARTICIPATE)
        assert nodes.state.notes == (
            *["An agent did not search for thresholds."] * 3,
            "No agent searched for thresholds. Thresholds from the settings hold instead.",
        )
        assert {type(error) for error in nodes.errors} == {RefusedError}
        nodes.alter_reply = lambda _s, _n, reply: reply
        assert searched(nodes.play(3))

    def test_sums_of_an_agent_that_failed_are_spent(self) -> None:
        """It is not asked for more in this epoch than it may decrypt."""
        nodes = federation("search-tries", registration_interval=5)
        first, second, *_ = agents_in_turn(nodes)
        nodes.alter_reply = lambda stage, node_id, reply: (
            None if (stage, node_id) == (Stage.SEARCH, first) else reply
        )
        nodes.until(Stage.PARTICIPATE)
        assert epoch_of(nodes).num_sums == {first: 9, second: 9}
        for server_round in range(2, 6):
            assert nodes.play(server_round).notes == ()
        assert not {first, second} & set(asked(nodes, Stage.DETERMINE))
        assert nodes.errors == []


class TestState:
    """A search that is cut short leaves nothing behind."""

    @pytest.mark.parametrize("stage", [Stage.EXPECT, Stage.SEARCH])
    @pytest.mark.parametrize("thresholds", ["search", "search-tries"])
    def test_a_round_that_is_given_up(self, thresholds: str, stage: Stage) -> None:
        """The next round registers anew, and nobody tells expectations twice in an epoch."""
        nodes = federation(thresholds)
        nodes.deliver(nodes.until(stage))
        unfinished = epoch_of(nodes).identity
        nodes.begin(2)
        assert nodes.state.expectations == {}
        assert nodes.state.batch is not None
        plan = nodes.play(3)
        assert plan.epoch != unfinished
        assert searched(plan)
        assert (plan.notes, nodes.errors) == ((), [])

    def test_nothing_of_it_stays_where_no_search_follows(self) -> None:
        """Those who had left are back, and the thresholds found before hold again."""
        nodes = federation()
        first = nodes.play(1)
        outcome: Any = nodes.begin(3, nodes.ids[4:])
        while outcome.header.stage != Stage.SEARCH:
            outcome = nodes.step(nodes.deliver(outcome))
        assert len(nodes.state.expectations) == 8
        plan = nodes.play(4)
        assert not searched(plan)
        assert plan.thresholds == first.thresholds
        assert nodes.state.expectations == {}

    def test_answers_are_kept_no_longer_than_the_search(self) -> None:
        """And are never written with the state."""
        nodes = federation()
        nodes.until(Stage.SEARCH)
        (reply, *_) = nodes.state.expectations.values()
        assert len(nodes.state.expectations) == NUM_CLIENTS
        assert repr(reply.expectations)[2:30] not in repr(nodes.state)
        nodes.play(2)
        assert nodes.state.expectations == {}

    def test_a_quorum_error_after_a_search_keeps_its_thresholds(self) -> None:
        """The search is not paid for twice."""
        nodes = federation()
        nodes.alter_reply = lambda stage, _n, reply: None if stage == Stage.PARTICIPATE else reply
        with pytest.raises(QuorumError):
            nodes.play(1)
        nodes.alter_reply = lambda _s, _n, reply: reply
        plan = nodes.play(2)
        assert not searched(plan)
        assert asked(nodes, Stage.EXPECT) == nodes.ids


def test_agents_are_a_random_order() -> None:
    """Each client once, another order in another epoch."""
    order = search_agents(7, 1, 30)
    assert sorted(order) == list(range(30)) != order
    assert search_agents(7, 51, 30) != order


def test_tries_leave_out_the_agent_and_those_who_are_silent() -> None:
    """Each try has K others, those of a candidate next to each other."""
    decisions = np.zeros((9, 4), dtype=bool)
    decisions[[0, 1, 2], 0] = decisions[[3, 4, 5], 3] = decisions[8] = True
    available = np.ones(9, dtype=bool)
    available[7] = False
    tries = search_tries(decisions, available, 8, 3, seed=1)
    assert [members.tolist() for members in tries][::3] == [[0, 1, 2], [3, 4, 5]]
    assert all(len(set(members.tolist()) - {7, 8}) == 3 for members in tries)
    assert available[8]
