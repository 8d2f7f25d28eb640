"""Tests of which requests a node's guards refuse, and of what a refusal costs."""

from dataclasses import replace
from typing import Any

import pytest

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.node.memory import Allowance
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import spend_day

POLICY = NodePolicy(label_counts=list, alias="1", max_epochs_per_day=2, max_draws_per_day=10)


@pytest.mark.parametrize(
    ("request_", "spent"),
    [({"num_epochs": 1}, Allowance(5, 2)), ({"num_draws": 6}, Allowance(5, 0, 5))],
)
def test_daily_limits_start_again_the_next_day(request_: Any, spent: Allowance) -> None:
    """A request refused today is answered tomorrow; a simulated node has no such limit."""
    with pytest.raises(RefusedError, match="has reached its owner's max_epochs_per_day"):
        spend_day(POLICY, spent, 5, **request_)
    tomorrow = spend_day(POLICY, spent, 6, **request_)
    assert tomorrow == spend_day(POLICY, Allowance(6), 6, **request_)
    simulated = replace(POLICY, simulated=True)
    assert spend_day(simulated, spent, 5, **request_).day == 5
