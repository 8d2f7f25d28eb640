"""Tests of the advice on dropped replies."""

import re

import pytest

from dubhe_flwr.protocol import StageReport
from dubhe_flwr.protocol.coordinator.dropped_replies import remedy


@pytest.mark.parametrize(
    ("lost", "advice"),
    [
        ({"no reply": 9}, None),
        ({"rule not known": 9}, "import the module .*, in the server's version"),
        ({"not simulated": 9}, "set simulation only if the nodes have simulated=True"),
        ({"wrong number of classes": 1}, "largest size of reference_set"),
        ({"invalid label counts": 1}, "whole numbers from 0 up"),
        ({"error reply": 9}, "add DubheMod .* client_fn, or call register_dubhe"),
        ({"no data": 9}, "label_counts returned only zeros"),
        ({"owner's daily limit": 9}, "raise max_epochs_per_day"),
        ({"unwilling": 8, "invalid label counts": 1}, None),
        ({"invalid label counts": 8, "unwilling": 1}, None),
        ({"no data": 2, "refuses parameters": 7}, "set key_bits and .*max_key_bits.* a rule"),
    ],
)
def test_the_remedy_fits_the_reason(lost: dict[str, int], advice: str | None) -> None:
    """Waiting does not help if nodes refuse the operator's settings."""
    nodes = {reason: range(number) for reason, number in lost.items()}
    reports = [StageReport("join", 9, 0, nodes, 10, 20)]
    found = remedy(reports)
    assert found is None if advice is None else found and re.search(advice, found)
