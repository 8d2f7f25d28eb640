"""The scenarios: every setting in good and bad weather, and unusual nodes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from golden.federation import Scenario

SEEDS: Final = (1, 2, 3)

_GIVEN: Final[dict[str, Any]] = {"reference_set": (1, 2, 4), "thresholds": {1: 0.6, 2: 0.3}}
_SEARCH: Final[dict[str, Any]] = {"reference_set": (1, 2, 4), "thresholds": "search"}


def _tries(tries: int, num_participants: int = 4, **more: Any) -> dict[str, Any]:
    usual = {**_GIVEN, "registration_interval": 3}
    return {**usual, "num_participants": num_participants, "tries": tries, **more}


_T: Final = _tries(4)
_S: Final = _tries(4, **_SEARCH)
_LONG: Final = _tries(4, registration_interval=10)
_AHEAD: Final = _tries(3, rounds_per_draw=3)
_FEW_AHEAD: Final = _tries(3, 3, rounds_per_draw=3)

_SETTINGS: Final[dict[str, Scenario]] = {
    # Tries
    "one try": Scenario(_tries(1)),
    "four tries": Scenario(_T, num_rounds=7),
    "more tries than an agent decrypts": Scenario(_tries(20)),
    "agents last for six rounds": Scenario(
        _tries(2, 3, registration_interval=20), num_nodes=6, num_rounds=8
    ),
    "all are wanted": Scenario(_tries(4, 9)),
    "all but one are wanted": Scenario(_tries(4, 8)),
    "all but two are wanted": Scenario(_tries(4, 7)),
    # A search for thresholds
    "search": Scenario(_S, num_rounds=5),
    "search, while nodes come and go": Scenario(
        {**_S, "registration_interval": 2}, num_rounds=7, away={3: (4,), 4: (4,)}
    ),
    # Registrations and draws
    "two rounds a draw": Scenario(_tries(4, rounds_per_draw=2), num_rounds=7),
    "three rounds a draw": Scenario(
        _tries(2, rounds_per_draw=3, registration_interval=5), num_rounds=6
    ),
    "eight rounds a draw": Scenario(
        _tries(2, rounds_per_draw=8, registration_interval=8), num_nodes=18, num_rounds=8
    ),
    "registration in each round": Scenario(_tries(4, registration_interval=1)),
    "small cohorts": Scenario(
        _tries(2, 2, min_cohort=2), num_nodes=6, nodes={row: {"min_cohort": 2} for row in range(6)}
    ),
    "large cohorts": Scenario(_tries(5, 6, min_cohort=5, quorum=8), num_nodes=14),
    "a large quorum": Scenario(_tries(4, quorum=9)),
}

_BAD_WEATHER: Final = {
    f"{name}, bad weather": replace(
        scenario, settings={**scenario.settings, "on_failure": "random"}, weather=f"storm {name}"
    )
    for name, scenario in _SETTINGS.items()
}

_RANDOM: Final = {**_T, "on_failure": "random"}
_MOST: Final = range(3, 9)


def _unwilling(*rounds: int) -> dict[str, Any]:
    return {"willing": lambda server_round: server_round not in rounds}


def _counting(*counts: int) -> dict[str, Any]:
    return {"label_counts": lambda: counts}


_NODES: Final[dict[str, Scenario]] = {
    # Unwilling nodes
    "some are unwilling, drawn before": Scenario(
        _AHEAD, nodes={1: _unwilling(2), 4: _unwilling(1, 3)}
    ),
    "some never take part": Scenario(_T, nodes={2: _unwilling(0), 6: _unwilling(0, 1, 2, 3, 4)}),
    "nobody takes part, random": Scenario(_RANDOM, nodes=dict.fromkeys(range(9), _unwilling(0))),
    # Labels
    "no data, wrong number and negative counts": Scenario(
        _T, nodes={1: _counting(0, 0, 0, 0), 3: _counting(1, 2, 3, 4, 1), 5: _counting(-1, 2, 3, 4)}
    ),
    # Nodes that come and go
    "many come later": Scenario(
        _tries(4, 3, registration_interval=10), away={1: (0, 2, 4, 8), 2: (0, 2, 4, 8)}
    ),
    "some go, drawn before": Scenario(_FEW_AHEAD, away={2: (0, 1, 2), 3: (3, 4, 5, 6)}),
    "most go, drawn before": Scenario(
        _tries(3, 3, rounds_per_draw=3, on_failure="random"), away={2: _MOST}
    ),
    "others come": Scenario(
        _LONG, num_nodes=16, away={1: range(8, 16), 2: range(10, 16), 3: range(8), 4: range(8)}
    ),
    "too many later": Scenario(
        {**_T, "max_registered": 8}, num_nodes=12, away={1: range(7, 12)}, num_rounds=5
    ),
    "two others save the quorum": Scenario(
        _tries(4, quorum=9, registration_interval=10),
        num_nodes=11,
        num_rounds=3,
        away={1: (9, 10), 2: (0,), 3: (0,)},
    ),
    # Who may be chosen
    "some may be chosen": Scenario(_T, eligible={1: range(6), 2: (1, 2, 3, 5, 7)}),
    "too few may be chosen": Scenario(_T, eligible={2: (1, 2)}),
    "too few may be chosen, random": Scenario(_RANDOM, eligible={2: (1, 2), 3: ()}),
    "some may be chosen, drawn before": Scenario(
        _FEW_AHEAD, eligible={1: range(5), 2: (1, 4, 7, 8)}
    ),
}

SCENARIOS: Final[Mapping[str, Scenario]] = _SETTINGS | _BAD_WEATHER | _NODES
"""All that is played, by name."""
