"""Tests of rounds that cannot go on: a typed error, or clients by chance, by choice."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.federation import Federation, dubhe, epoch_of, skewed_counts

from dubhe_flwr.core import generator
from dubhe_flwr.errors import InvalidCiphertextError, QuorumError, SettingsError
from dubhe_flwr.protocol import (
    Batch,
    CoordinatorState,
    NodeFailure,
    Settings,
    Stage,
    alias_order,
)
from dubhe_flwr.protocol.fallback import goes_on

NUM_CLIENTS = 12
COUNTS = skewed_counts(NUM_CLIENTS)
SETTINGS: dict[str, Any] = {
    "num_participants": 4,
    "reference_set": (1, 2, 4),
    "thresholds": {1: 0.6, 2: 0.3},
    "tries": 3,
    "max_clients": 20,
    "on_failure": "random",
}


def federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return twelve nodes and a server that goes on by chance."""
    return dubhe(COUNTS, **SETTINGS | overrides)


def silent(nodes: Federation[CoordinatorState], stage: str, *answering: int) -> None:
    """Lose the replies of a stage, except those of these nodes."""
    nodes.alter_reply = lambda s, node_id, reply: (
        None if s == stage and node_id not in answering else reply
    )


def unwilling(nodes: Federation[CoordinatorState], rows: range, *rounds: int) -> set[int]:
    """Make nodes say no in these rounds, and return their ids."""
    ids = [nodes.ids[row] for row in rows]
    for node_id in ids:
        nodes.policies[node_id] = replace(
            nodes.policies[node_id], willing=lambda server_round: server_round not in rounds
        )
    return set(ids)


@pytest.mark.parametrize("stage", [Stage.JOIN, Stage.KEYGEN, Stage.REGISTER, Stage.PARTICIPATE])
def test_a_round_that_fails_goes_by_chance(stage: Stage) -> None:
    """K of those that are there train, plan and notes say so, and the next round is Dubhe's."""
    nodes = federation()
    silent(nodes, stage)
    plan = nodes.play(1)
    assert plan.fallback
    assert len(set(plan.participants)) == 4
    assert set(plan.participants) <= set(nodes.ids)
    assert plan.notes[-1].endswith("The clients of this round are chosen at random.")
    assert [report.stage for report in plan.stages][-1] == stage
    assert nodes.state.batch is None
    nodes.alter_reply = lambda _s, _n, reply: reply
    after = nodes.play(2)
    assert not after.fallback
    assert after.notes == ()
    assert nodes.errors == []


@pytest.mark.parametrize("stage", [Stage.JOIN, Stage.KEYGEN, Stage.REGISTER, Stage.PARTICIPATE])
def test_by_default_it_is_an_error(stage: Stage) -> None:
    """It is a QuorumError and nothing else, which names the other choice."""
    nodes = federation(on_failure="raise")
    silent(nodes, stage)
    with pytest.raises(QuorumError, match='on_failure="random"') as error:
        nodes.play(1)
    assert type(error.value) is QuorumError
    assert Settings(num_participants=4, reference_set=(1, 2, 10)).on_failure == "raise"


@pytest.mark.parametrize("on_failure", ["raise", "random"])
def test_settings_that_cannot_work_are_always_an_error(on_failure: str) -> None:
    """Chance does not mend them, so that a typing error is not trained through for days."""
    nodes = federation(on_failure=on_failure, max_clients=11)
    with pytest.raises(SettingsError, match="max_clients=11 is below the 12 nodes"):
        nodes.play(1)

    def step() -> Any:
        raise SettingsError("It cannot work.")

    with pytest.raises(SettingsError, match="It cannot work"):
        goes_on(nodes.selector.settings, nodes.state, step)  # type: ignore[attr-defined]


def test_by_default_an_error_of_a_step_passes_as_it_is() -> None:
    """The sentence and the type of what the server could not do are not covered up."""
    nodes = federation(on_failure="raise")
    step_fails = InvalidCiphertextError("An addend is no unit.")

    def step() -> Any:
        raise step_fails

    with pytest.raises(InvalidCiphertextError) as error:
        goes_on(nodes.selector.settings, nodes.state, step)  # type: ignore[attr-defined]
    assert error.value is step_fails


def test_chance_is_that_of_the_seed() -> None:
    """The same clients in each repetition of a round, and in the next version."""
    nodes = federation()
    silent(nodes, Stage.JOIN)
    order = alias_order({node_id: str(node_id) for node_id in nodes.ids})
    for server_round in (1, 2):
        lots = generator(7, "fallback", server_round).permutation(NUM_CLIENTS).tolist()
        plan = nodes.play(server_round)
        assert set(plan.participants) == {order[lot] for lot in lots[:4]}


def test_who_joined_is_called_by_its_alias() -> None:
    """Too few joined; the plan names those that did as any other plan would."""
    nodes = federation(quorum=12)
    silent(nodes, Stage.JOIN, *nodes.ids[:11])
    plan = nodes.play(1)
    assert plan.fallback
    names = {n: str(row) if row < 11 else str(n) for row, n in enumerate(nodes.ids)}
    assert plan.aliases == tuple(names[node_id] for node_id in plan.participants)


def test_any_other_choice_is_refused() -> None:
    """The sentence names both."""
    with pytest.raises(SettingsError, match=r"on_failure='ignore' must be one of .*'random'"):
        federation(on_failure="ignore")


def test_who_declined_is_not_drafted() -> None:
    """Nodes that did not join for whatever reason stay out, even if that leaves fewer than K."""
    nodes = federation()
    out = unwilling(nodes, range(10), 0)
    plan = nodes.play(1)
    assert plan.fallback
    assert set(plan.participants) == set(nodes.ids) - out


def test_who_said_no_for_the_round_is_not_drafted() -> None:
    """Nodes that are not willing in the round stay out; the silent ones may be lost or not."""
    nodes = federation()
    out = unwilling(nodes, range(9), 1)
    silent(nodes, "participate", *nodes.ids[:11])
    plan = nodes.play(1)
    assert plan.fallback
    assert set(plan.participants) == set(nodes.ids[9:])
    assert len(out) == 9


def test_nor_in_a_round_that_was_drawn_ahead() -> None:
    """What a node said when it drew holds for the round that begins later."""
    nodes = federation(rounds_per_draw=2)
    out = unwilling(nodes, range(4), 2)
    nodes.play(1)
    plan = nodes.play(2, nodes.ids[:6])
    assert plan.fallback
    assert plan.stages == ()
    assert set(plan.participants) == set(nodes.ids[:6]) - out


def test_who_answered_comes_before_who_may_be_lost() -> None:
    """Nodes that said yes train for sure."""
    nodes = federation(quorum=4)
    answering = nodes.ids[3:6]
    silent(nodes, "participate", *answering)
    plan = nodes.play(1)
    assert plan.fallback
    assert set(answering) < set(plan.participants)
    assert len(plan.participants) == 4


def test_who_is_away_or_rests_is_not_drafted() -> None:
    """Presence and eligibility count as in any other round."""
    nodes = federation()
    silent(nodes, "join")
    plan = nodes.play(1, nodes.ids[:6], eligible=nodes.ids[2:8])
    assert set(plan.participants) == set(nodes.ids[2:6])


def test_the_choice_is_random_and_repeats() -> None:
    """Another round or seed chooses others; the same seed chooses the same."""

    def chosen(seed: int) -> list[tuple[str, ...]]:
        nodes = federation(seed=seed)
        silent(nodes, "participate")
        return [nodes.play(server_round).aliases for server_round in range(1, 6)]

    assert chosen(7) == chosen(7)
    assert chosen(7) != chosen(8)
    assert len(set(chosen(7))) > 3


def test_the_choice_repeats_after_a_failed_join() -> None:
    """Node ids are new in each run: the order is that of the aliases that nodes told before."""

    def chosen(ids_seed: int) -> list[tuple[str, ...]]:
        nodes = federation(registration_interval=1)
        policies = list(nodes.policies.values())
        nodes = Federation(nodes.selector, policies, seed=ids_seed)
        first = nodes.play(1)
        silent(nodes, "join", *nodes.ids[5:7])
        plans = [nodes.play(server_round) for server_round in range(2, 8)]
        assert not first.fallback
        assert all(plan.fallback for plan in plans)
        return [plan.aliases for plan in plans]

    assert chosen(0) == chosen(1)
    assert len(set(chosen(0))) > 3


def test_who_told_no_alias_comes_last() -> None:
    """Whatever the known aliases are; the others are in the order of their ids."""
    nodes = federation(quorum=4)
    named = nodes.ids[:3]
    for node_id, alias in zip(named, ("tablet", "laptop", "10"), strict=True):
        nodes.policies[node_id] = replace(nodes.policies[node_id], alias=alias)
    silent(nodes, "join", *named)
    unnamed = max(nodes.ids[3:])
    plan = nodes.play(1, [unnamed, *named])
    assert plan.fallback
    assert plan.aliases == ("10", "laptop", "tablet", str(unnamed))
    assert plan.participants == (named[2], named[1], named[0], unnamed)


def test_all_nodes_are_chosen_equally_often() -> None:
    """300 rounds of 4 of 12: each within five standard deviations of a third."""
    nodes = federation(registration_interval=1)
    silent(nodes, "join")
    drafted = [node_id for r in range(1, 301) for node_id in nodes.play(r).participants]
    counts = [drafted.count(node_id) for node_id in nodes.ids]
    assert sum(counts) == 1200
    assert all(abs(count - 100) < 5 * (300 * 2 / 9) ** 0.5 for count in counts)


def test_a_round_without_anybody_is_skipped() -> None:
    """Nobody there is no reason to end a run."""
    nodes = federation()
    nodes.play(1)
    plan = nodes.play(2, [])
    assert (plan.fallback, plan.participants) == (True, ())
    assert plan.notes[-1].endswith("Nobody is there to train; this round is skipped.")
    assert not nodes.play(3).fallback


def test_fewer_nodes_than_participants_go_on_from_the_first_round() -> None:
    """Where the operator chose to go on, nodes may come late."""
    nodes = federation(num_participants=6)
    plan = nodes.play(1, nodes.ids[:4])
    assert not plan.fallback
    assert set(plan.participants) == set(nodes.ids[:4])
    assert plan.notes == ("Only 4 of 6 clients can train.",)
    assert nodes.play(2, []).participants == ()


@pytest.mark.parametrize("label_counts", [[1] * 5, [-1] * 4])
def test_what_the_operator_has_to_change_is_an_error(label_counts: list[int]) -> None:
    """Where all nodes decline for a wrong setting, no round will ever work."""
    nodes = federation()
    for node_id, policy in nodes.policies.items():
        nodes.policies[node_id] = replace(policy, label_counts=lambda: label_counts)
    with pytest.raises(QuorumError, match=r"reference_set|whole numbers"):
        nodes.play(1)


def test_no_data_anywhere_has_a_remedy_of_its_own() -> None:
    """More nodes or a lower quorum would not help; beside other losses it is not the reason."""
    nodes = federation(on_failure="raise")
    for node_id, policy in nodes.policies.items():
        nodes.policies[node_id] = replace(policy, label_counts=lambda: [0] * 4)
    with pytest.raises(QuorumError, match=r"12 no data at join.*it is all zeros"):
        nodes.play(1)
    nodes = federation(on_failure="raise")
    nodes.policies[nodes.ids[0]] = replace(
        nodes.policies[nodes.ids[0]], label_counts=lambda: [0] * 4
    )
    silent(nodes, Stage.JOIN, nodes.ids[0])
    with pytest.raises(QuorumError, match="wait for more nodes"):
        nodes.play(1)


def test_an_error_beside_many_a_no_ends_no_run() -> None:
    """Nobody is left to train, but no setting is to blame: the round is skipped."""
    nodes = federation()
    unwilling(nodes, range(NUM_CLIENTS), 0)
    assert nodes.play(1).participants == ()
    nodes.alter_reply = lambda stage, node_id, reply: (
        NodeFailure("out of memory") if node_id == nodes.ids[0] else reply
    )
    plan = nodes.play(2)
    assert (plan.fallback, plan.participants) == (True, ())
    assert plan.notes[-1].endswith("Nobody is there to train; this round is skipped.")


def test_settings_that_cannot_work_are_an_error() -> None:
    """More nodes than the counters hold, before the first round."""
    with pytest.raises(SettingsError, match="max_clients=11"):
        federation(max_clients=11).begin(1)
    with pytest.raises(SettingsError, match="call begin_round first"):
        federation().step({})


def test_faults_of_the_program_surface(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance hides no bug: only errors of this package are caught."""
    nodes = federation()
    batch = nodes.until(Stage.REGISTER)
    replies = nodes.deliver(batch)

    def fail(error: Exception) -> None:
        def step(*_: Any) -> Any:
            raise error

        monkeypatch.setattr(nodes.selector._registration, "step", step)  # type: ignore[attr-defined]

    fail(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        nodes.step(replies)
    fail(InvalidCiphertextError("No ciphertext."))
    plan = nodes.step(replies)
    assert not isinstance(plan, Batch)
    assert plan.fallback
    assert plan.notes == ("No ciphertext. The clients of this round are chosen at random.",)


def test_the_epoch_is_kept_where_there_is_one() -> None:
    """A round that failed at its draw costs no registration."""
    nodes = federation()
    before = nodes.play(1).epoch
    silent(nodes, "participate")
    plan = nodes.play(2)
    assert (plan.fallback, plan.epoch, plan.num_registered) == (True, before, 12)
    nodes.alter_reply = lambda _s, _n, reply: reply
    assert nodes.play(3).epoch == before == epoch_of(nodes).identity


def test_a_no_holds_until_another_answer_comes() -> None:
    """Who did not join before and is silent now is not drafted; who says yes again may be."""
    nodes = federation(registration_interval=1)
    out = unwilling(nodes, range(9), 0)
    plan = nodes.play(1)
    assert set(plan.participants) == set(nodes.ids[9:])
    silent(nodes, "join")
    assert set(nodes.play(2).participants) == set(nodes.ids[9:])
    for node_id in out:
        nodes.policies[node_id] = replace(nodes.policies[node_id], willing=lambda _r: True)
    silent(nodes, "keygen")
    nodes.play(3)
    silent(nodes, "join")
    assert any(out & set(nodes.play(server_round).participants) for server_round in range(4, 9))


def test_a_no_for_the_round_holds_in_its_next_epoch() -> None:
    """Where an epoch is refused, the few that answered are not asked in vain."""
    nodes = federation(num_participants=6)
    nodes.play(1)
    out = unwilling(nodes, range(5), 2)

    def alter(stage: str, node_id: int, reply: Any) -> Any:
        if stage == "participate" and node_id in nodes.ids[5:]:
            return NodeFailure("?")
        return None if stage == "join" else reply

    nodes.alter_reply = alter
    plan = nodes.play(2)
    assert plan.fallback
    assert [report.stage for report in plan.stages] == ["participate", "join"]
    assert len(plan.participants) == 6
    assert not out & set(plan.participants)
