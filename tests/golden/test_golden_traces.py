"""A selection does what it did: stages, nodes asked, reports, plans, notes and errors."""

import json
from difflib import ndiff
from functools import cache
from itertools import zip_longest

import pytest
from golden.federation import Round, Told
from golden.make import TRACES
from golden.scenarios import SCENARIOS, SEEDS


@cache
def _golden() -> dict[str, list[Round]]:
    traces: dict[str, list[Round]] = json.loads(TRACES.read_text(encoding="utf-8"))
    return traces


def _first_difference(golden: list[Round], played: list[Round]) -> str:
    """Return the first round that differs, its lines one below the other."""
    none: Round = []
    for number, (old, new) in enumerate(zip_longest(golden, played, fillvalue=none), start=1):
        if old != new:
            lines = (line for line in ndiff(old, new) if not line.startswith("?"))
            return f"round {number} (- golden, + now)\n" + "\n".join(lines)
    return ""


@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])]
)
@pytest.mark.parametrize("name", SCENARIOS)
def test_golden_trace(name: str, seed: int) -> None:
    """Each round of a scenario goes as it did when the traces were written."""
    trace = f"{name}, seed {seed}"
    difference = _first_difference(_golden()[trace], Told(SCENARIOS[name], seed).run())
    if difference:
        pytest.fail(f"{trace}, {difference}", pytrace=False)


def test_every_trace_is_of_a_scenario() -> None:
    """Every trace belongs to an existing scenario."""
    assert list(_golden()) == [f"{name}, seed {seed}" for name in SCENARIOS for seed in SEEDS]
