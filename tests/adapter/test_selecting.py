"""Tests of the log lines about a selection."""

from dataclasses import replace
from typing import Any

import pytest
from apis import TRAIN

from dubhe_flwr.adapter.exchanges import log_plan
from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.protocol import NodeFailure, Plan, StageReport

PLAN = Plan(
    2,
    (1, 2, 3),
    ("1", "2", "3"),
    num_registered=4,
    num_tries=5,
    rule="the rule",
    stages=(StageReport("register", 4, 4, {}, bytes_down=0, bytes_up=0),),
)
LOSSES = {"no reply": [71], "late": [5, 6, 7, 8, 9]}
BOUND = PrivacyBound.of(5, most_sums=64, num_slots=10, sigma=4.0)
EPOCH = "dubhe: a new registration period: 4 nodes | the rule"
LAST = "dubhe: 3 of 4 clients selected in 1.50 s (the best of 5 tries)"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"privacy": BOUND}, [EPOCH, f"dubhe: privacy: {BOUND}", LAST]),
        (
            {"stages": (), "num_tries": 1},
            [LAST.removesuffix(" (the best of 5 tries)")],
        ),
        (
            {
                "stages": (replace(PLAN.stages[0], lost=LOSSES, aliases={5: "0", 6: "6"}),),
                "notes": ("something is odd",),
            },
            [
                EPOCH,
                "dubhe: register: 1 reply dropped: no reply (node 71)",
                "dubhe: register: 5 replies dropped: late (nodes 0 with id 5, 6, 7 and 2 more)",
                "dubhe: something is odd",
                LAST,
            ],
        ),
        (
            {"num_registered": 3},
            [
                EPOCH.replace("4", "3"),
                "dubhe: all 3 nodes train: there is nothing to choose",
                LAST.replace("of 4", "of 3"),
            ],
        ),
        (
            {"fallback": True},
            ["dubhe: round 2 was NOT selected by Dubhe: 3 clients were chosen at random"],
        ),
        (
            {"fallback": True, "participants": ()},
            ["dubhe: round 2 was NOT selected by Dubhe: nobody trains"],
        ),
    ],
)
def test_a_plan_is_logged(
    changes: dict[str, Any], lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """New epochs, losses and notes come before the round's line; a random round is an error."""
    with caplog.at_level("INFO", logger="flwr"):
        log_plan(replace(PLAN, **changes), 1.5)
    assert caplog.messages == lines
    assert (caplog.records[-1].levelname == "ERROR") == ("fallback" in changes)


def test_the_most_frequent_refusal_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The nodes' most frequent error fits one log line, whatever its text."""
    strategy = TRAIN.dubhe(num_participants=3, on_failure="random")
    strategy.driver.plan_round(
        1,
        lambda: range(9),
        lambda batch, *_: {
            node_id: NodeFailure("no\nhandler" if node_id else "odd") for node_id in batch.requests
        },
        lambda: True,
    )
    assert "dubhe: join: error from 8 nodes: 'no\\nhandler'" in caplog.messages
