"""Tests of the end of an epoch: after its interval, or for newcomers."""

from typing import Any

import pytest
from protocol.federation import epoch_of
from protocol.server import NUM_CLIENTS, federation

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol.coordinator.context import Context, RoundProgress, Run
from dubhe_flwr.protocol.coordinator.stages.refused import is_refused
from dubhe_flwr.protocol.plan import StageReport


@pytest.mark.parametrize(
    ("newcomers", "options", "early"),
    [
        (2, {"max_unregistered": 0.0}, False),
        (3, {"max_unregistered": 0.0}, True),
        (3, {"max_unregistered": 0.25}, True),
        (3, {"max_unregistered": 0.26}, False),
        (3, {"max_unregistered": 0.0, "min_cohort": 4}, False),
        (4, {"max_unregistered": 0.0, "min_cohort": 4}, True),
        (3, {"max_unregistered": 0.0, "max_registered": 11}, False),
        (4, {"max_unregistered": 0.0, "max_registered": 11}, True),
    ],
)
def test_many_new_nodes_cause_an_early_registration(
    newcomers: int, options: Any, early: bool
) -> None:
    """A registration is early if new nodes form a cohort, a large enough share, and have room."""
    nodes = federation(**options)
    known = nodes.ids[: NUM_CLIENTS - newcomers]
    first, second, third = nodes.play(1, known), nodes.play(2), nodes.play(3)
    assert (first.epoch != second.epoch) == early
    assert second.epoch == third.epoch
    room = options.get("max_registered", 12)
    assert second.num_registered == (min(12, room) if early else len(known))


@pytest.mark.parametrize(
    ("back", "quorum", "saved"), [(4, 6, True), (4, 9, False), (7, 8, True), (8, 9, False)]
)
def test_nodes_with_new_ids_register_early_below_the_quorum(
    back: int, quorum: int, saved: bool
) -> None:
    """Below the quorum all nodes register again, even if new nodes make up for those that left."""
    nodes = federation(max_unregistered=1.0, quorum=quorum)
    first = nodes.play(1, nodes.ids[:9])
    here = [*nodes.ids[:back], *nodes.ids[9 : 9 + min(2, (10 - back) // 2)]]
    if saved:
        second = nodes.play(2, here)
        assert second.epoch != first.epoch
        assert second.num_registered == len(here)
        assert nodes.play(3, here).epoch == second.epoch
    else:
        with pytest.raises(QuorumError):
            nodes.play(2, here)


@pytest.mark.parametrize("fewer", [1, 2])
def test_unsampled_nodes_register_early_below_the_quorum(fewer: int) -> None:
    """If fewer than K or the quorum of a sample are left, all connected nodes may register."""
    nodes = federation(max_registered=7, registration_interval=20, tries=1)
    nodes.play(1)
    sample = epoch_of(nodes).registration.joined.asked
    others = [node_id for node_id in nodes.ids if node_id not in sample]
    here = [*others, *sorted(sample)[:4]]
    nodes.play(2, here)
    assert epoch_of(nodes).registration.joined.asked == sample
    plan = nodes.play(3, here[:-fewer])
    assert (plan.num_registered, len(plan.participants)) == (7, 4)
    assert epoch_of(nodes).registration.joined.asked != sample


@pytest.mark.parametrize(
    ("good", "refusals", "lost", "refused"),
    [
        pytest.param(0, 3, 0, True, id="all refuse"),
        pytest.param(4, 5, 1, False, id="no majority refuses"),
        pytest.param(4, 6, 0, True, id="a majority refuses"),
        pytest.param(2, 1, 0, True, id="one short of a cohort, since one refuses"),
        pytest.param(2, 1, 7, True, id="the same where many are lost"),
        pytest.param(2, 0, 1, False, id="one short of a cohort, since one is lost"),
        pytest.param(1, 1, 8, False, id="too few even without the refusal"),
        pytest.param(3, 2, 5, False, id="a cohort of many, and some refuse"),
    ],
)
def test_an_epoch_is_refused_by_most_nodes_or_below_the_quorum(
    good: int, refusals: int, lost: int, refused: bool
) -> None:
    """Lost replies refuse nothing, and it happens six times in a round."""
    settings = federation().selector.settings  # type: ignore[attr-defined]
    dropped = {"error reply": range(refusals), "no reply": range(lost)}
    report = StageReport("participate", good + refusals + lost, good, dropped, 0, 0)
    for num_renewals, may_end in ((0, True), (5, True), (6, False)):
        context = Context(settings, Run(seed=7), RoundProgress(num_renewals=num_renewals))
        assert is_refused(context, report) == (refused and may_end)
