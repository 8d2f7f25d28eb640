"""A selection does what it did: stages, nodes asked, reports, plans, notes and errors."""

import json

import pytest
from golden.make import TRACES
from golden.scenarios import SCENARIOS, SEEDS, rounds_of

GOLDEN = json.loads(TRACES.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])]
)
@pytest.mark.parametrize("name", SCENARIOS)
def test_golden_trace(name: str, seed: int) -> None:
    """Each round of a scenario goes as it did when the traces were written."""
    for now, golden in zip(rounds_of(name, seed), GOLDEN[f"{name}, seed {seed}"], strict=True):
        assert now == golden


def test_every_trace_is_of_a_scenario() -> None:
    """Every trace belongs to an existing scenario."""
    assert list(GOLDEN) == [f"{name}, seed {seed}" for name in SCENARIOS for seed in SEEDS]
