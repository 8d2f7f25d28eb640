"""Tests of the server: the order of its stages, and the rounds of a run."""

import re
from functools import partial

import pytest
from protocol.server import PLAIN, altered, federation, lost, stages_of

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.coordinator import coordinator
from dubhe_flwr.rules import Prices


def test_the_table_in_the_docstring_matches_the_code() -> None:
    """Each outcome, and nothing else, has a row in the docstring of the coordinator."""
    rows = re.findall(r"^\| (?:rest|`\w+`) \| `(\w+)`", coordinator.__doc__ or "", re.MULTILINE)
    assert set(rows) == {each.__name__ for each in coordinator._NEXT}


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


def test_nodes_that_left_are_replaced_in_a_plan_made_ahead() -> None:
    """The plan holds while all are there; without a quorum or an epoch, the round is repeated."""
    nodes = federation()
    plan = nodes.play(1)
    adapted = partial(nodes.selector.adapted, nodes.state, plan)
    assert adapted(nodes.ids, nodes.ids) == plan
    here = [n for n in nodes.ids if n not in plan.participants[:2]]
    changed = adapted(nodes.ids, here)
    assert changed is not None
    assert set(plan.participants[2:]) < set(changed.participants) <= set(here)
    assert len(set(changed.participants)) == 4
    assert adapted(here[:2], nodes.ids) is None
    unsettled = nodes.selector.initial_state()
    assert nodes.selector.adapted(unsettled, plan, nodes.ids, here) is None


def test_rounds_per_draw_changes_no_selection() -> None:
    """With the same seed the number of rounds in a draw changes no set, in any epoch."""
    runs = []
    for number in (1, 3, 20):
        options = {"rounds_per_draw": number, "registration_interval": 5}
        nodes = federation(40, rule=Prices(), num_participants=8, **PLAIN, **options)
        runs.append([(plan.aliases, plan.chosen) for plan in nodes.rounds(1, 8)])
    assert runs[0] == runs[1] == runs[2]


def test_a_round_is_drawn_again_if_too_few_drew() -> None:
    """A node that missed the draw may be back when the rest have left."""
    nodes = federation(rounds_per_draw=5, registration_interval=20)
    nodes.rounds(1, 5)
    with altered(nodes, "participate", lost, nodes.ids[:8]):
        nodes.play(6)
    here = nodes.ids[:10]
    plan = nodes.play(7, here)
    assert stages_of(plan) == ["participate", "determine"]
    assert len(plan.participants) == 4
    assert set(plan.participants) <= set(here)
    assert nodes.play(8, here).stages == ()
