"""Tests of the server: the order of its stages, and the rounds of a run."""

import re
import typing
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from protocol.federation import Federation, epoch_of, node_policies
from protocol.server import (
    COUNTS,
    PLAIN,
    POOL,
    REGISTRATION,
    SEARCH,
    Nodes,
    altered,
    asked,
    epochs_of,
    everywhere,
    federation,
    lost,
    stages_of,
    wills,
    with_liars,
)

from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.protocol import Batch
from dubhe_flwr.protocol.coordinator import coordinator
from dubhe_flwr.protocol.coordinator.context import (
    Answered,
    Awaiting,
    AwaitingInEpoch,
    AwaitingMembers,
    RegistrationDue,
)
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.wire.codec import wire_size
from dubhe_flwr.rules import Prices

STAGES = "dubhe_flwr.protocol.coordinator.stages."


def test_every_outcome_of_a_stage_has_a_handler() -> None:
    """What handles an outcome handles nothing else except a pause or replies."""
    between = AwaitingInEpoch, AwaitingMembers
    kinds = [kind for above in (Awaiting, *between) for kind in above.__subclasses__()]
    stages = [kind for kind in kinds if kind.__module__.startswith(STAGES)]
    returned = [typing.get_type_hints(stage.take)["return"] for stage in stages]
    reached = {each for hint in returned for each in outcomes(hint)}
    # What the coordinator itself passes to `_go_on`; add what it passes and no stage returns.
    at_rest = {Answered, RegistrationDue, Epoch}
    assert reached - set(stages) == coordinator._NEXT.keys() - at_rest


def test_the_table_in_the_docstring_matches_the_code() -> None:
    """Each outcome, and nothing else, has a row in the docstring of the coordinator."""
    rows = re.findall(r"^\| (?:rest|`\w+`) \| `(\w+)`", coordinator.__doc__ or "", re.MULTILINE)
    assert set(rows) == {each.__name__ for each in coordinator._NEXT} - {"Answered"}


def outcomes(hint: Any) -> Iterator[type]:
    """Yield the outcomes that a stage returns together with the context."""
    _, outcome = typing.get_args(hint)
    yield from typing.get_args(outcome) or (outcome,)


@pytest.mark.parametrize(
    ("settings", "stages"),
    [
        ({}, [*REGISTRATION, "participate", "determine"]),
        ({"tries": 1}, [*REGISTRATION, "participate"]),
        (POOL, [*REGISTRATION, "participate"]),
        (SEARCH, [*REGISTRATION, "settle", "settle", "determine"]),
        (PLAIN, ["join", "register", "participate", "determine"]),
        (PLAIN | SEARCH, ["join", "register", "settle", "settle", "determine"]),
    ],
)
def test_the_order_of_the_stages(settings: dict[str, Any], stages: list[str]) -> None:
    """An agent makes a key if there is one; a search takes two sums, a single try no agent.

    Nodes draw when they are asked to, or along with the last sum of a search.
    """
    nodes = federation(9, registration_interval=2, **settings)
    first = nodes.play(1)
    requests: Any = [e.request for e in nodes.exchanges]
    assert first.bytes_down == sum(map(wire_size, requests))
    second, third = nodes.play(2), nodes.play(3)
    assert stages_of(first) == stages_of(third) == stages
    has_agent = "determine" in stages
    assert stages_of(second) == ["participate", *["determine"] * has_agent]
    assert epochs_of([first, second, third]) == [0, 0, 2]
    assert first.notes == ()


@pytest.mark.parametrize("num_present", [0, 3])
def test_more_participants_than_nodes(num_present: int) -> None:
    """K above N is refused before anything is sent, with both numbers."""
    nodes = federation()
    match = f"num_participants=4 is above the number of nodes, {num_present}"
    with pytest.raises(SettingsError, match=match):
        nodes.begin(1, nodes.ids[:num_present])
    assert nodes.exchanges == []
    assert isinstance(nodes.begin(1), Batch)


def test_a_step_needs_a_batch() -> None:
    """Replies without a request are an error of the adapter."""
    nodes = federation()
    for _ in range(2):
        with pytest.raises(SettingsError, match="call begin_round first"):
            nodes.step({})
        nodes.play(1)


def test_the_seed_comes_from_the_operator_or_the_system() -> None:
    """The same seed repeats a run; another seed does not."""
    assert [federation(seed=seed).state.run.seed for seed in (5, 0)] == [5, 0]
    assert federation().selector.num_participants == 4
    drawn = {federation(seed=None).state.run.seed for _ in range(8)}
    assert len(drawn) == 8
    assert all(0 <= seed < 2**63 for seed in drawn)


def test_all_nodes_register_for_the_same_epoch() -> None:
    """The epoch knows them in the order of their aliases; identity and key are always new."""
    nodes, same = federation(), federation()
    plan = nodes.play(1)
    same.play(1)
    epoch = epoch_of(nodes)
    assert asked(nodes, "join") == sorted(nodes.ids)
    assert epoch.registered == tuple(nodes.ids)
    assert {e.request["epoch"] for e in nodes.exchanges} == {plan.epoch} == {epoch.identity}
    assert epoch.identity != epoch_of(same).identity
    assert epoch.public != epoch_of(same).public


def test_nodes_that_left_are_replaced_in_a_plan_made_ahead() -> None:
    """The plan holds while all are there; without a quorum or an epoch, the round is repeated."""
    nodes = federation()
    plan = nodes.play(1)
    adapted = partial(nodes.selector.adapted, nodes.state, plan)
    assert adapted(nodes.ids, nodes.ids) is plan
    here = [n for n in nodes.ids if n not in plan.participants[:2]]
    changed = adapted(nodes.ids, here)
    assert changed is not None
    assert set(plan.participants[2:]) < set(changed.participants) <= set(here)
    assert len(set(changed.participants)) == 4
    assert adapted(here[:2], nodes.ids) is None
    unsettled = nodes.selector.initial_state()
    assert nodes.selector.adapted(unsettled, plan, nodes.ids, here) is None


class TestRoundsPerDraw:
    """Several rounds drawn and determined in one exchange."""

    def test_rounds_per_draw_changes_no_selection(self) -> None:
        """With the same seed the number of rounds in a draw changes no set, in any epoch."""
        runs = []
        for number in (1, 3, 20):
            options = {"rounds_per_draw": number, "registration_interval": 7}
            nodes = federation(40, rule=Prices(), **PLAIN, **options)
            runs.append([(plan.aliases, plan.chosen) for plan in nodes.rounds(1, 16)])
        assert runs[0] == runs[1] == runs[2]

    def test_a_draw_does_not_reach_beyond_its_epoch(self) -> None:
        """Nodes draw for the remaining rounds; rounds already drawn begin with their plan."""
        nodes = federation(rounds_per_draw=5, registration_interval=7)
        plans = nodes.rounds(1, 8)
        draws = [e.request for e in nodes.exchanges if e.stage == "participate"]
        asked_for = [(r["first-round"], r["num-rounds"]) for r in draws[::12]]
        assert asked_for == [(1, 5), (6, 2), (8, 5)]
        assert [plan.server_round for plan in plans if plan.stages] == [1, 6, 8]
        assert list(epoch_of(nodes).rounds) == [8, 9, 10, 11, 12]

    def test_a_drawn_round_needs_a_quorum(self) -> None:
        """A quorum of those who drew is needed when it begins; those who said no stay out."""
        nodes = federation(rounds_per_draw=2)
        wills(nodes, range(4, 12), lambda server_round: server_round != 2)
        nodes.play(1)
        nodes.exchanges.clear()
        with pytest.raises(QuorumError, match="2 nodes are registered, willing and connected"):
            nodes.play(2, nodes.ids[2:])
        assert nodes.exchanges == []

    def test_a_round_is_drawn_again_if_too_few_drew(self) -> None:
        """A node that missed the draw may be back when the rest have left."""
        nodes = federation(rounds_per_draw=5, registration_interval=20)
        with altered(nodes, "participate", lost, nodes.ids[:8]):
            nodes.play(1)
        here = nodes.ids[:10]
        plan = nodes.play(2, here)
        assert stages_of(plan) == ["participate", "determine"]
        assert len(plan.participants) == 4
        assert set(plan.participants) <= set(here)
        assert nodes.play(3, here).stages == ()


@pytest.mark.parametrize("liars", [0, 1])
def test_a_run_repeats_by_alias_whatever_the_node_ids(liars: int) -> None:
    """Node ids are random in each run of Flower, and nodes may be named in any order."""
    runs = []
    for ids in (0, 1, 2):
        selector = federation(registration_interval=3).selector
        nodes: Nodes = Federation(selector, node_policies(COUNTS), seed=ids)
        with_liars(nodes, nodes.ids[:liars], "registration", everywhere)
        runs.append([nodes.play(r, nodes.ids[:: (-1) ** r]).aliases for r in range(1, 6)])
        assert nodes.ids != sorted(nodes.ids)
    assert runs[0] == runs[1] == runs[2]
