"""Tests of rounds that cannot go on: a typed error or random clients, as the operator chose."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.federation import Federation, epoch_of
from protocol.server import NUM_CLIENTS, Nodes, alter, altered, failed, lost, wills
from protocol.server import federation as usual

from dubhe_flwr.errors import InvalidCiphertextError, QuorumError, SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.coordinator.context import Context, Rest, RoundProgress, Run
from dubhe_flwr.protocol.coordinator.random_fallback import planned_at_random
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


class TestErrors:
    """Which errors random selection replaces, and which it does not."""

    @pytest.mark.parametrize("on_failure", ["raise", "random"])
    def test_a_settings_error_is_always_raised(self, on_failure: str) -> None:
        """Settings errors are always raised, since a run with a typo could go on for days."""
        settings = federation(on_failure=on_failure).selector.settings  # type: ignore[attr-defined]
        context = Context(settings, Run(seed=7), RoundProgress())
        with pytest.raises(SettingsError):
            planned_at_random(context, None, SettingsError("It cannot work."))

    @pytest.mark.parametrize("kind", [Register, Participate])
    def test_other_errors_end_only_the_round(
        self, kind: type, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By default the error passes unchanged; the fallback logs it. A settled epoch goes on."""
        error = InvalidCiphertextError("No ciphertext.")

        def take(*_: Any) -> Any:
            raise error

        for on_failure in ("raise", "random"):
            nodes = federation(on_failure=on_failure)
            replies = nodes.deliver(nodes.until(kind.__name__.lower()))
            with monkeypatch.context() as patch:
                patch.setattr(kind, "take", take)
                if on_failure == "raise":
                    with pytest.raises(InvalidCiphertextError) as raised:
                        nodes.step(replies)
                    assert raised.value is error
                else:
                    plan = nodes.step(replies)
                    assert isinstance(plan, Plan)
                    assert plan.fallback
                    assert plan.notes == (
                        "No ciphertext. The clients of this round are chosen at random.",
                    )
            assert (nodes.state.epoch is None) == (kind is Register)
            assert not nodes.play(2).fallback

    @pytest.mark.parametrize("label_counts", [[1] * 5, [-1] * 4])
    def test_a_wrong_setting_ends_the_run(self, label_counts: list[int]) -> None:
        """If all nodes decline because of a wrong setting, no round will ever work."""
        nodes = federation()
        for node_id, policy in nodes.policies.items():
            nodes.policies[node_id] = replace(policy, label_counts=lambda: label_counts)
        with pytest.raises(QuorumError, match=r"reference_set|whole numbers") as error:
            nodes.play(1)
        assert "on_failure" not in str(error.value)

    def test_the_run_goes_on_if_all_nodes_decline(self) -> None:
        """No node is left to train, but no setting is to blame: the round is skipped."""
        nodes = federation()
        wills(nodes, range(NUM_CLIENTS), lambda server_round: server_round != 0)
        assert nodes.play(1).participants == ()
        alter(nodes, "join", failed, nodes.ids[:1])
        plan = nodes.play(2)
        assert (plan.fallback, plan.participants) == (True, ())
        assert plan.notes[-1].endswith("No node can train; this round is skipped.")


class TestWho:
    """Random selection takes connected, eligible nodes; nodes that agreed come first."""

    def test_nodes_that_declined_are_not_selected(self) -> None:
        """Nodes that declined are left out even if fewer than K remain, until they answer again."""
        nodes = federation(registration_interval=1)
        out = wills(nodes, range(9), lambda _round: False)
        rest = set(nodes.ids) - out
        for stage in ("keygen", "join"):
            silent(nodes, stage)
            assert by_chance(nodes.play(1), rest, number=3)
        wills(nodes, range(9), lambda _round: True)
        silent(nodes, "keygen")
        nodes.play(2)
        silent(nodes, "join")
        plans = nodes.rounds(3, 7)
        assert any(out & set(plan.participants) for plan in plans)

    def test_nodes_that_declined_in_a_draw_are_not_selected(self) -> None:
        """A node's answer in a draw holds for the round that begins later."""
        nodes = federation(rounds_per_draw=2)
        wills(nodes, range(4), lambda server_round: server_round != 2)
        nodes.play(1)
        plan = nodes.play(2, nodes.ids[:6])
        assert plan.stages == ()
        assert by_chance(plan, set(nodes.ids[4:6]), number=2)

    def test_nodes_that_said_yes_come_first(self) -> None:
        """Nodes that said yes train for sure."""
        nodes = federation(quorum=4)
        silent(nodes, "participate", *nodes.ids[3:6])
        plan = nodes.play(1)
        assert set(nodes.ids[3:6]) < set(plan.participants)
        assert by_chance(plan, set(nodes.ids))


def test_the_random_choice_repeats_by_alias() -> None:
    """Node ids are new in each run: the aliases that nodes told before name the choice."""

    def chosen(ids_seed: int, seed: int = 7) -> list[tuple[str, ...]]:
        one = federation(registration_interval=1, seed=seed)
        nodes = Federation(one.selector, list(one.policies.values()), seed=ids_seed)
        assert not nodes.play(1).fallback
        silent(nodes, "join", *nodes.ids[5:7])
        plans = nodes.rounds(2, 7)
        assert all(plan.fallback for plan in plans)
        return [plan.aliases for plan in plans]

    assert chosen(0) == chosen(1) != chosen(0, seed=8)
    assert len(set(chosen(0))) > 3


def test_nodes_without_an_alias_come_last() -> None:
    """Known aliases change nothing; other nodes are named by their ids."""
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


def test_a_failed_draw_keeps_the_epoch() -> None:
    """A round that failed at its draw costs no registration."""
    nodes = federation()
    before = nodes.play(1).epoch
    with altered(nodes, "participate", lost):
        plan = nodes.play(2)
    assert (plan.fallback, plan.epoch, plan.num_registered) == (True, before, 12)
    assert nodes.play(3).epoch == before == epoch_of(nodes).identity
    with altered(nodes, "join", lost):
        nodes.state = replace(nodes.state, stage=Rest())
        plan = nodes.play(4)
    assert (plan.epoch, plan.num_registered, plan.num_tries, plan.chosen) == (None, 0, 1, None)
