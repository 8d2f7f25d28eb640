"""A long run in one process neither grows nor slows down."""

import os
from pathlib import Path
from typing import Any

import pytest
from apis import TRAIN, main_server_app, message_client_app, skewed_label_counts

from dubhe_flwr.simulation import run_in_process

pytestmark = pytest.mark.slow

NUM_NODES = 1000
LABEL_COUNTS = skewed_label_counts(NUM_NODES)


def resident_bytes() -> int:
    """Return the memory that this process uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat_over_a_thousand_rounds(caplog: pytest.LogCaptureFixture) -> None:
    """After the first epoch, a thousand rounds with a thousand nodes need no more memory."""
    memory: list[int] = []

    def take_note(plan: Any, _seconds: float) -> None:
        memory.append(resident_bytes())
        assert len(set(plan.participants)) == 20

    strategy = TRAIN.dubhe(num_participants=20, rounds_per_draw=50, on_selection=take_note)
    caplog.set_level("ERROR", logger="flwr")
    app = message_client_app(lambda node: LABEL_COUNTS[int(node.node_config["partition-id"])])
    run_in_process(main_server_app(strategy, 1000), app, NUM_NODES)
    assert len(memory) == 1000
    assert max(memory[50:]) <= 1.05 * memory[49]
