"""The scenarios: every setting in good and bad weather."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from protocol.weather import Weather

from dubhe_flwr.errors import DubheError
from dubhe_flwr.protocol import Plan

SEEDS: Final = (1, 2, 3)


@dataclass(frozen=True)
class Scenario:
    """A short run of a server's settings."""

    settings: Mapping[str, Any]
    num_nodes: int = 9
    num_rounds: int = 4
    share: float = 0.0  # of the messages that bad weather hits


def _tries(tries: int, num_participants: int = 4, **more: Any) -> dict[str, Any]:
    rule = {"reference_set": (1, 2, 4), "thresholds": {1: 0.6, 2: 0.3}, "registration_interval": 3}
    return {**rule, "num_participants": num_participants, "tries": tries, **more}


_SETTINGS: Final[dict[str, Scenario]] = {
    # Tries
    "one try": Scenario(_tries(1)),
    "four tries": Scenario(_tries(4), num_rounds=7),
    "more tries than an agent decrypts": Scenario(_tries(20)),
    "agents last for six rounds": Scenario(
        _tries(2, 3, registration_interval=20), num_nodes=6, num_rounds=8
    ),
    "all are wanted": Scenario(_tries(4, 9)),
    "all but one are wanted": Scenario(_tries(4, 8)),
    "all but two are wanted": Scenario(_tries(4, 7)),
    # A search for thresholds
    "search": Scenario(_tries(4, thresholds="search"), num_rounds=7),
    # Registrations and draws
    "two rounds a draw": Scenario(_tries(4, rounds_per_draw=2), num_rounds=7),
    "three rounds a draw": Scenario(
        _tries(2, rounds_per_draw=3, registration_interval=5), num_rounds=6
    ),
    "eight rounds a draw": Scenario(
        _tries(2, rounds_per_draw=8, registration_interval=8), num_nodes=18, num_rounds=8
    ),
    "registration in each round": Scenario(_tries(4, registration_interval=1)),
    "large cohorts": Scenario(_tries(5, 6, min_cohort=5, quorum=8), num_nodes=14),
    "a large quorum": Scenario(_tries(4, quorum=9)),
    "some are not registered": Scenario(_tries(4, max_registered=8), num_nodes=12, num_rounds=5),
}

SCENARIOS: Final[Mapping[str, Scenario]] = _SETTINGS | {
    f"{name}, bad weather": replace(
        scenario, settings={**scenario.settings, "on_failure": "random"}, share=0.12
    )
    for name, scenario in _SETTINGS.items()
}
"""All that is played, by name."""


def rounds_of(name: str, seed: int) -> Iterator[list[str]]:
    """Yield what happens in each round, or before an error."""
    scenario, rng = SCENARIOS[name], Random(f"{name} {seed}")
    counts = [[rng.randrange(66) // rng.choice((1, 9)) for _ in range(4)] for _ in range(99)]
    known = counts[: scenario.num_nodes]
    nodes = Weather(known, seed, scenario.share, **scenario.settings)
    # Without spoilt replies: what becomes of a ciphertext depends on the key.
    nodes.faults = ("request lost", "reply lost", "error", "old")
    for server_round in range(1, scenario.num_rounds + 1):
        try:
            yield [*_told(nodes.play_round(server_round), nodes.asked)]
        except DubheError as error:
            yield [*nodes.asked, f"{type(error).__name__}: {error}"]
            return


def _told(plan: Plan, asked: list[str]) -> Iterator[str]:
    """Yield a line for each exchange, for the plan and for each note; nodes are named by row."""
    for batch, report in zip(asked, plan.stages, strict=True):
        dropped = "".join(f", {number} {reason}" for reason, number in report.dropped.items())
        yield f"{batch}: {report.accepted}/{report.sent}{dropped}"
    yield f"train {' '.join(plan.aliases)}" + (" by chance" if plan.fallback else "")
    yield f"{plan.num_registered} registered, {plan.chosen} of {plan.num_tries}"
    yield from map(str, plan.finding)
    yield from plan.notes
