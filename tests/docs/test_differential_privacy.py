"""The bound on how often a client trains, as the page on differential privacy writes it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from apis import MODEL, TRAIN
from docs.pages import ROOT, run
from flwr.app import ArrayRecord

PAGE = ROOT / "docs" / "explanation" / "differential_privacy.md"
NUM_NODES, NUM_PARTICIPANTS, LIMIT = 9, 4, 2


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the page defines, with a lower limit, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    defined = run(PAGE)
    defined["Bounded"].limit = LIMIT
    return defined


def train(names: dict[str, Any], num_rounds: int, seed: int = 0) -> Counter[int]:
    """Start the app, as in a new process; return how often each client trains in it.

    `seed` fixes the node ids.
    """
    private = names["DifferentialPrivacyServerSideFixedClipping"](
        names["Counting"](fraction_evaluate=0.0), 1.0, 1.0, num_sampled_clients=NUM_PARTICIPANTS
    )
    strategy = names["Bounded"](
        private,
        num_participants=NUM_PARTICIPANTS,
        checkpoint_dir="run",
        simulation="plain",
        seed=1,
        on_failure="random",
    )
    grid = TRAIN.grid(num_nodes=NUM_NODES, seed=seed)
    strategy.start(grid, ArrayRecord(MODEL), num_rounds=num_rounds)
    return Counter(node for kind, batch in grid.batches if kind == "train" for node in batch)


def test_nobody_trains_more_often_even_after_a_restart(names: dict[str, Any]) -> None:
    """A resumed run goes on counting, until every client has reached the limit."""
    before = train(names, 3)
    assert before.total() == 3 * NUM_PARTICIPANTS
    after = train(names, 8)
    assert before + after == dict.fromkeys(range(NUM_NODES), LIMIT)
    assert not train(names, 9)


def test_a_new_node_id_is_no_new_budget(names: dict[str, Any]) -> None:
    """Under new ids, each client counts as the one that trained most."""
    before = train(names, 1)
    after = train(names, 9, seed=5)
    assert set(after.values()) == {LIMIT - max(before.values())}
    assert max((before + after).values()) == LIMIT
