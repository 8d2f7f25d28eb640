"""Tests of the server: whatever is lost, late or spoilt on the way, the run goes on."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, decrypted, epoch_of, node_policies, session_state
from protocol.server import (
    COUNTS,
    FAULTS,
    SETTINGS,
    agents_in_turn,
    asked,
    federation,
    report_of,
)

from dubhe_flwr.core import generator, overall_registry
from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.protocol import Batch, Coordinator, NodeFailure, Settings, Stage, wire_size


class TestBeforeTheFirstMessage:
    """What cannot work is said at once."""

    @pytest.mark.parametrize("num_present", [0, 3])
    def test_more_participants_than_nodes(self, num_present: int) -> None:
        """K above N is refused before anything is sent, with both numbers."""
        nodes = federation()
        match = f"num_participants=4 is above the {num_present} nodes that are there"
        with pytest.raises(SettingsError, match=match):
            nodes.begin(1, nodes.ids[:num_present])
        assert nodes.exchanges == []
        assert isinstance(nodes.begin(1), Batch)

    def test_more_nodes_than_the_counters_hold(self) -> None:
        """N above `max_clients` is refused at first; who comes later stays out of the epoch."""
        nodes = federation(max_clients=11)
        with pytest.raises(SettingsError, match="max_clients=11 is below the 12 nodes"):
            nodes.begin(1)
        known = nodes.ids[:11]
        assert nodes.play(1, known).epoch == nodes.play(2).epoch
        assert nodes.play(3, known).notes == ()

    def test_surplus_nodes_are_left_out_of_an_epoch(self) -> None:
        """As many register as the counters hold, the plan says so, and nobody registers early."""
        nodes = federation(max_clients=9, registration_interval=10, max_unregistered=0.0, tries=1)
        nodes.play(1, nodes.ids[:4])
        plans = [nodes.play(server_round) for server_round in range(2, 13)]
        assert [plan.num_registered for plan in plans] == [9] * 11
        note = "max_clients=9 is below the 12 nodes that are there: 3 stay out of this epoch"
        said = [any(note in text for text in plan.notes) for plan in plans]
        assert said == [True, *[False] * 9, True]
        assert len({plan.epoch for plan in plans}) == 2
        assert len(asked(nodes, "join")) == 4 + 9 + 9
        assert len(set(asked(nodes, "join"))) > 9
        assert nodes.errors == []

    def test_who_stays_out_is_drawn_by_the_seed(self) -> None:
        """Each epoch on its own, and the same in the next version."""
        nodes = federation(max_clients=9, registration_interval=1, max_unregistered=0.0, tries=1)
        nodes.play(1, nodes.ids[:4])
        for server_round in (2, 3):
            nodes.exchanges.clear()
            nodes.play(server_round)
            lots = generator(7, "surplus", server_round).permutation(12).tolist()
            known = sorted(nodes.ids)
            assert set(asked(nodes, "join")) == {known[lot] for lot in lots[3:]}

    def test_a_later_round_goes_on_with_fewer_nodes_than_participants(self) -> None:
        """Then all that are there train, and the plan says so."""
        nodes = federation()
        nodes.play(1)
        plan = nodes.play(2, nodes.ids[:3])
        assert plan.participants == tuple(nodes.ids[:3])
        assert plan.notes == ("Only 3 of 4 clients can train.",)

    def test_a_step_needs_a_batch(self) -> None:
        """Replies without a request are an error of the adapter."""
        nodes = federation()
        with pytest.raises(SettingsError, match="call begin_round first"):
            nodes.step({})
        nodes.play(1)
        with pytest.raises(SettingsError, match="call begin_round first"):
            nodes.step({})

    def test_the_seed_is_the_operators_or_the_systems(self) -> None:
        """A given seed repeats, others differ."""
        options = {"key_bits": 512, **SETTINGS}
        assert Coordinator(Settings(seed=5, **options)).initial_state().seed == 5
        assert Coordinator(Settings(seed=0, **options)).initial_state().seed == 0
        drawn = {Coordinator(Settings(**options)).initial_state().seed for _ in range(8)}
        assert len(drawn) == 8
        assert all(0 <= seed < 2**63 for seed in drawn)
        assert Coordinator(Settings(**options)).num_participants == 4


class TestLosses:
    """Each unfit reply is dropped, counted and reported, and the others go on."""

    @pytest.mark.parametrize("stage", [Stage.JOIN, Stage.REGISTER, Stage.PARTICIPATE])
    @pytest.mark.parametrize(("spoil", "reason"), FAULTS)
    def test_some_nodes_are_lost(self, stage: Stage, spoil: Any, reason: str) -> None:
        """The lost ones do not train; the rest select among themselves."""
        nodes = federation(registration_interval=2)
        victims = nodes.ids[1:4]
        nodes.alter_reply = lambda s, node_id, reply: (
            spoil(reply) if s == stage and node_id in victims else reply
        )
        plan = nodes.play(1)
        report = report_of(plan, stage)
        assert report.dropped == {reason: 3}
        assert (report.sent, report.accepted) == (12, 9)
        assert len(plan.participants) == 4
        assert not set(plan.participants) & set(victims)
        assert plan.num_registered == (12 if stage == Stage.PARTICIPATE else 9)
        assert not set(asked(nodes, "determine")) & set(victims)
        nodes.alter_reply = lambda _s, _n, reply: reply
        plan = nodes.play(2)
        assert all(report.dropped == {} for report in plan.stages)
        assert nodes.play(3).num_registered == 12

    @pytest.mark.parametrize("stage", list(Stage)[1:])
    def test_replies_of_nodes_that_were_not_asked_are_ignored(self, stage: Stage) -> None:
        """Strangers change nothing, whatever they send."""
        nodes = federation(participation="calibrated", thresholds="search", block_size=4)
        same = federation(participation="calibrated", thresholds="search", block_size=4)
        batch = nodes.until(stage)
        replies: Any = nodes.deliver(batch)
        known = next(iter(replies.values()))
        strangers = {1: known, 2: NodeFailure("?"), -5: {}, 2**70: {"stage": stage}}
        outcome = nodes.step(replies | strangers)
        while isinstance(outcome, Batch):
            assert not set(outcome.requests) & set(strangers)
            outcome = nodes.step(nodes.deliver(outcome))
        assert outcome.participants == same.play(1).participants
        assert all(not report.dropped for report in outcome.stages)

    @pytest.mark.parametrize("stage", [Stage.REGISTER, Stage.PARTICIPATE, Stage.DETERMINE])
    def test_replies_of_an_earlier_stage_are_stale(self, stage: Stage) -> None:
        """A duplicate that comes late is no answer to the next request."""
        nodes = federation(agent_attempts=1)
        nodes.until(stage)
        earlier = {e.node_id: e.reply for e in nodes.exchanges if e.reply is not None}
        if stage == Stage.DETERMINE:
            nodes.step(earlier)
            assert nodes.state.stages[-1].dropped == {"StaleMessageError": 1}
        else:
            with pytest.raises(QuorumError, match=f"12 StaleMessageError at {stage}"):
                nodes.step(earlier)

    def test_a_whole_round_of_trouble(self) -> None:
        """Losses at every stage at once leave a valid selection."""
        nodes = federation(agent_attempts=3)
        unlucky = {"join": nodes.ids[0], "register": nodes.ids[1], "participate": nodes.ids[2]}
        nodes.alter_request = lambda stage, node_id, request: (
            None if unlucky.get(stage) == node_id else request
        )
        first: dict[str, int] = {}

        def lose_first_agent(stage: str, node_id: int, reply: Any) -> Any:
            if stage in {"keygen", "determine"} and first.setdefault(stage, node_id) == node_id:
                return None
            return reply

        nodes.alter_reply = lose_first_agent
        plan = nodes.play(1)
        assert len(plan.participants) == 4
        assert not set(plan.participants) & set(unlucky.values())
        assert [(r.stage, r.accepted) for r in plan.stages] == [
            ("join", 11),
            ("keygen", 0),
            ("keygen", 1),
            ("register", 10),
            ("participate", 9),
            ("determine", 0),
            ("determine", 1),
        ]

    def test_bytes_are_those_of_the_messages(self) -> None:
        """The plan adds up what was sent and what was accepted."""
        nodes = federation()
        plan = nodes.play(1)
        assert plan.bytes_down == sum(wire_size(e.request) for e in nodes.exchanges)
        replies: list[Any] = [e.reply for e in nodes.exchanges]
        assert plan.bytes_up == sum(wire_size(reply) for reply in replies)

    @pytest.mark.parametrize(
        "spoil", [lambda d: d[1:], lambda d: d + b"\0", lambda _d: b"", lambda d: d * 99]
    )
    @pytest.mark.parametrize("field", ["decisions", "unwilling"])
    def test_draws_of_another_number_are_dropped(self, field: str, spoil: Any) -> None:
        """Bits for more or fewer rounds than asked are no draws."""
        nodes = federation(rounds_per_draw=9)
        odd = nodes.ids[3]
        nodes.alter_reply = lambda stage, node_id, reply: (
            {**reply, field: spoil(reply[field])}
            if (stage, node_id) == ("participate", odd)
            else reply
        )
        plan = nodes.play(1)
        assert report_of(plan, "participate").dropped == {"wrong number of draws": 1}
        assert odd not in plan.participants

    @pytest.mark.parametrize("num_rounds", [1, 7, 8])
    def test_nodes_that_cannot_tell_whether_their_labels_moved(self, num_rounds: int) -> None:
        """Their mask ends with the last round, and is as good as one that says no."""
        nodes = federation(rounds_per_draw=num_rounds, tries=2)
        wanted = -(-num_rounds // 8)
        old = nodes.ids[:5]
        nodes.alter_reply = lambda stage, node_id, reply: (
            {**reply, "unwilling": bytes(wanted)}
            if stage == "participate" and node_id in old
            else reply
        )
        plan = nodes.play(1)
        assert report_of(plan, "participate").dropped == {}
        assert epoch_of(nodes).moved == frozenset()
        assert nodes.state.rounds[1].available.all()


class TestQuorum:
    """Too few nodes end a round with a sentence, and the next round can go on."""

    def test_too_few_registered_nodes_are_there(self) -> None:
        """Known before anything is sent."""
        nodes = federation()
        nodes.play(1)
        carried = len(nodes.exchanges)
        with pytest.raises(QuorumError) as error:
            nodes.play(2, nodes.ids[:2])
        assert str(error.value) == (
            "Round 2: 2 nodes are registered and there, fewer than quorum=3 (no reply was "
            "dropped); wait for more nodes or lower the quorum. "
            'With on_failure="random" such a round goes by chance.'
        )
        assert len(nodes.exchanges) == carried
        assert len(nodes.play(3).participants) == 4

    def test_too_few_are_willing(self) -> None:
        """Silence and unwillingness both count."""
        nodes = federation()
        for node_id in nodes.ids[:6]:
            nodes.policies[node_id] = replace(
                nodes.policies[node_id], willing=lambda server_round: server_round != 1
            )
        nodes.alter_reply = lambda stage, node_id, reply: (
            None if stage == "participate" and node_id in nodes.ids[8:] else reply
        )
        with pytest.raises(QuorumError) as error:
            nodes.play(1)
        assert str(error.value) == (
            "Round 1: 2 nodes are registered and willing, fewer than quorum=3 (4 no reply at "
            "participate); wait for more nodes or lower the quorum. "
            'With on_failure="random" such a round goes by chance.'
        )

    def test_a_drawn_round_without_its_nodes(self) -> None:
        """Nodes may vanish between the draw and the round."""
        nodes = federation(rounds_per_draw=2)
        for node_id in nodes.ids[4:]:
            nodes.policies[node_id] = replace(nodes.policies[node_id], willing=lambda r: r != 2)
        nodes.play(1)
        carried = len(nodes.exchanges)
        with pytest.raises(QuorumError, match="2 nodes are registered, willing and there"):
            nodes.play(2, nodes.ids[2:])
        assert len(nodes.exchanges) == carried

    def test_a_quorum_may_be_above_the_number_of_participants(self) -> None:
        """It counts the nodes that could train, not those that are chosen."""
        nodes = federation(quorum=10)
        assert len(nodes.play(1).participants) == 4
        assert len(nodes.play(2, nodes.ids[:10]).participants) == 4
        with pytest.raises(QuorumError, match="9 nodes are registered and there, fewer than quo"):
            nodes.play(3, nodes.ids[:9])

    def test_a_round_of_exactly_the_quorum(self) -> None:
        """Enough is enough."""
        nodes = federation(quorum=5)
        nodes.play(1)
        nodes.alter_reply = lambda stage, node_id, reply: (
            None if stage == "participate" and node_id not in nodes.ids[:5] else reply
        )
        assert set(nodes.play(2).participants) <= set(nodes.ids[:5])


def trains(row: int, server_round: int) -> bool:
    """Tell whether a node is willing that rests in every third round."""
    return server_round == 0 or (server_round + row) % 3 != 0


class TestWilling:
    """A node that is not willing is never drafted, neither to train nor as an agent."""

    def test_unwilling_nodes_are_left_out(self) -> None:
        """Over many rounds, with several rounds a draw, each unwillingness is heeded."""
        nodes = federation(rounds_per_draw=4, registration_interval=12, num_participants=6)
        for row, node_id in enumerate(nodes.ids):
            nodes.policies[node_id] = replace(nodes.policies[node_id], willing=partial(trains, row))
        for server_round in range(1, 13):
            plan = nodes.play(server_round)
            drafted = [row for row in map(int, plan.aliases) if (server_round + row) % 3 == 0]
            assert drafted == []
            assert len(plan.participants) == 6
            agent = nodes.state.rounds[server_round].agent
            assert agent is not None
            assert (server_round + agent) % 3 != 0

    def test_who_is_not_eligible_is_in_no_try(self) -> None:
        """A node that rests is summed in no try, and determines nothing."""
        nodes = federation()
        resting = agents_in_turn(nodes)[:5]
        nodes.play(1, eligible=[node_id for node_id in nodes.ids if node_id not in resting])
        drawn = nodes.state.rounds[1]
        rows = {nodes.ids.index(node_id) for node_id in resting}
        assert all(not rows & set(members.tolist()) for members in drawn.selections)
        assert not set(asked(nodes, "determine")) & set(resting)

    def test_who_is_not_eligible_later_is_replaced(self) -> None:
        """Eligibility is asked of each round when it begins, as presence is."""
        nodes, same = federation(rounds_per_draw=2), federation(rounds_per_draw=2)
        nodes.play(1)
        same.play(1)
        resting = same.play(2).participants[:2]
        plan = nodes.play(2, eligible=[i for i in nodes.ids if i not in resting])
        assert plan.stages == ()
        assert len(plan.participants) == 4
        assert not set(resting) & set(plan.participants)

    def test_an_agent_is_willing_in_its_round(self) -> None:
        """Who will not train in a round is not asked to determine it."""
        nodes = federation()
        first, second, *_ = agents_in_turn(nodes)
        nodes.policies[first] = replace(nodes.policies[first], willing=lambda r: r != 1)
        nodes.play(1)
        assert asked(nodes, "determine") == [second]


class TestEpochs:
    """When a registration begins, and what it reads."""

    def test_labels_are_read_anew(self) -> None:
        """Once in each epoch, and in no other stage."""
        reads: list[int] = []
        nodes = federation(registration_interval=2)
        node_id = nodes.ids[0]
        labels = [[9, 0, 0, 0], [0, 9, 0, 0]]

        def label_counts() -> list[int]:
            reads.append(len(reads))
            return labels[reads[-1]]

        nodes.policies[node_id] = replace(nodes.policies[node_id], label_counts=label_counts)
        registries = []
        for server_round in range(1, 5):
            nodes.play(server_round)
            overall = epoch_of(nodes).overall_registry
            registries.append(decrypted(session_state(nodes, node_id), "registry", overall))
        assert reads == [0, 1]
        codebook = epoch_of(nodes).parameters.codebook
        for row, registry in zip((0, 0, 1, 1), registries, strict=True):
            counts = np.vstack([labels[row], COUNTS[1:]])
            expected, _ = overall_registry(counts, codebook, SETTINGS["thresholds"])
            np.testing.assert_array_equal(registry, expected)

    def test_newcomers_do_not_train_before_they_register(self) -> None:
        """They wait for the next epoch."""
        nodes = federation(max_unregistered=1.0)
        known = set(nodes.ids[:6])
        nodes.play(1, nodes.ids[:6])
        for server_round in range(2, 6):
            assert set(nodes.play(server_round).participants) <= known

    def test_nodes_that_left_are_asked_nothing(self) -> None:
        """Requests go to nodes that are there."""
        nodes = federation()
        nodes.play(1)
        nodes.exchanges.clear()
        plan = nodes.play(2, nodes.ids[:7])
        assert set(asked(nodes, "participate")) == set(nodes.ids[:7])
        assert {e.node_id for e in nodes.exchanges} <= set(nodes.ids[:7])
        assert set(plan.participants) <= set(nodes.ids[:7])

    def test_an_early_registration_drops_the_rounds_drawn_before(self) -> None:
        """What was drawn in one epoch is not trained in another."""
        nodes = federation(rounds_per_draw=5, max_unregistered=0.0)
        nodes.play(1, nodes.ids[:9])
        plan = nodes.play(2)
        assert [report.stage for report in plan.stages][-2:] == ["participate", "determine"]
        assert plan.num_registered == 12

    def test_nor_are_they_after_a_round_that_was_given_up(self) -> None:
        """An epoch whose first draw failed begins with a draw of its own."""
        nodes = federation(rounds_per_draw=5, max_unregistered=0.0)
        nodes.play(1, nodes.ids[:9])
        nodes.alter_reply = lambda stage, _n, reply: None if stage == "participate" else reply
        with pytest.raises(QuorumError):
            nodes.play(2)
        nodes.alter_reply = lambda _s, _n, reply: reply
        plan = nodes.play(3)
        assert [report.stage for report in plan.stages] == ["participate", "determine"]


class TestRoundsPerDraw:
    """Several rounds drawn and determined in one exchange."""

    def test_a_round_for_which_too_few_drew_is_drawn_anew(self) -> None:
        """Who was away at the draw may be back when the others are gone."""
        nodes = federation(rounds_per_draw=5, registration_interval=20)
        away = set(nodes.ids[:8])
        nodes.alter_reply = lambda stage, node_id, reply: (
            None if stage == "participate" and node_id in away else reply
        )
        assert nodes.play(1).num_selections
        nodes.alter_reply = lambda _s, _n, reply: reply
        here = nodes.ids[:10]
        plan = nodes.play(2, here)
        assert [report.stage for report in plan.stages] == ["participate", "determine"]
        assert len(plan.participants) == 4
        assert set(plan.participants) <= set(here)
        assert nodes.play(3, here).stages == ()

    def test_who_said_no_is_not_asked_again(self) -> None:
        """A round below the quorum is one where all the others have said no."""
        nodes = federation(rounds_per_draw=5, registration_interval=20)
        for node_id in nodes.ids[:10]:
            nodes.policies[node_id] = replace(nodes.policies[node_id], willing=lambda r: r != 2)
        nodes.play(1)
        nodes.exchanges.clear()
        with pytest.raises(QuorumError, match="2 nodes are registered, willing and there"):
            nodes.play(2)
        assert not nodes.exchanges

    def test_the_same_sets_as_one_by_one(self) -> None:
        """With the same seed the number of rounds in a draw changes no set."""
        runs = []
        for rounds_per_draw in (1, 3, 10):
            nodes = federation(rounds_per_draw=rounds_per_draw, registration_interval=7)
            plans = [nodes.play(server_round) for server_round in range(1, 16)]
            runs.append([(plan.aliases, plan.chosen) for plan in plans])
        assert runs[0] == runs[1] == runs[2]

    def test_no_batch_in_between(self) -> None:
        """Two of three rounds begin with their plan, without a message."""
        nodes = federation(rounds_per_draw=3, registration_interval=7)
        carried = []
        for server_round in range(1, 9):
            nodes.exchanges.clear()
            outcome = nodes.begin(server_round)
            carried.append(isinstance(outcome, Batch))
            while isinstance(outcome, Batch):
                outcome = nodes.step(nodes.deliver(outcome))
            assert outcome.server_round == server_round
            assert bool(outcome.stages) == carried[-1]
        assert carried == [True, False, False, True, False, False, True, True]

    def test_a_draw_does_not_reach_beyond_its_epoch(self) -> None:
        """Nodes draw for the rounds that are left."""
        nodes = federation(rounds_per_draw=5, registration_interval=7)
        for server_round in range(1, 9):
            nodes.play(server_round)
        draws = [e.request for e in nodes.exchanges if e.stage == "participate"]
        asked_for = [(r["first-round"], r["num-rounds"]) for r in draws[:: len(nodes.ids)]]
        assert asked_for == [(1, 5), (6, 2), (8, 5)]

    def test_the_vanished_are_replaced(self) -> None:
        """A node that left after the draw is replaced from those that are registered and there."""
        nodes = federation(rounds_per_draw=4)
        same = federation(rounds_per_draw=4)
        nodes.play(1)
        same.play(1)
        drawn = same.play(2).participants
        gone = set(drawn[:2])
        plan = nodes.play(2, [node_id for node_id in nodes.ids if node_id not in gone])
        assert plan.stages == ()
        assert len(plan.participants) == 4
        assert set(drawn[2:]) <= set(plan.participants)
        assert not gone & set(plan.participants)

    def test_a_round_that_was_given_up_is_drawn_anew(self) -> None:
        """A batch that never came back leaves no half-determined round behind."""
        nodes = federation(rounds_per_draw=3)
        nodes.until(Stage.DETERMINE)
        plan = nodes.play(2)
        assert [report.stage for report in plan.stages] == ["participate", "determine"]
        assert len(plan.participants) == 4


class TestState:
    """The state goes in and comes out, and can be stored in between."""

    def test_a_step_can_be_repeated_from_a_stored_state(self) -> None:
        """The same replies to the same state give the same outcome, at every stage."""
        nodes = federation(rounds_per_draw=2)
        outcome = nodes.begin(1)
        while isinstance(outcome, Batch):
            stored, replies = nodes.state, nodes.deliver(outcome)
            outcome = nodes.step(replies)
            again = nodes.selector.step(stored, replies)[1]
            assert again == outcome

    def test_a_round_can_be_repeated_from_a_stored_state(self) -> None:
        """A server that restarts plans a drawn round as before."""
        nodes = federation(rounds_per_draw=2)
        nodes.play(1)
        stored = nodes.state
        assert nodes.play(2) == nodes.selector.begin_round(stored, 2, nodes.ids)[1]

    def test_a_plan_leaves_no_batch(self) -> None:
        """Between rounds nothing is awaited, and past rounds are forgotten."""
        nodes = federation(rounds_per_draw=2)
        for server_round in range(1, 6):
            nodes.play(server_round)
            assert nodes.state.batch is None
            assert nodes.state.asked_about == {}
            assert min(nodes.state.rounds) == server_round

    def test_notes_and_reports_belong_to_their_round(self) -> None:
        """What went wrong in one round is not told in the next."""
        nodes = federation(rounds_per_draw=2)
        nodes.alter_reply = lambda stage, _n, reply: None if stage == "determine" else reply
        assert nodes.play(1).notes
        plan = nodes.play(2)
        assert (plan.notes, plan.stages) == ((), ())

    def test_a_run_repeats_by_alias_whatever_the_node_ids(self) -> None:
        """Node ids are random in each run of Flower."""
        runs = []
        for ids in (0, 1, 2):
            settings = Settings(key_bits=512, seed=7, **SETTINGS)
            nodes = Federation(Coordinator(settings), node_policies(COUNTS), seed=ids)
            runs.append([nodes.play(server_round).aliases for server_round in range(1, 6)])
            assert nodes.ids != sorted(nodes.ids)
        assert runs[0] == runs[1] == runs[2]

    def test_the_order_of_arrival_changes_nothing(self) -> None:
        """Replies in any order give the same plan."""
        plans = []
        for backwards in (False, True):
            nodes = federation()
            outcome = nodes.begin(1, nodes.ids[::-1] if backwards else nodes.ids)
            while isinstance(outcome, Batch):
                replies = nodes.deliver(outcome)
                if backwards:
                    replies = dict(reversed(replies.items()))
                outcome = nodes.step(replies)
            plans.append(outcome)
        assert replace(plans[0], epoch=b"") == replace(plans[1], epoch=b"")
