"""What is played: every setting in good and in bad weather, and every fault on its own."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from golden.federation import Fault, Scenario

SEEDS: Final = (1, 2, 3)

_GIVEN: Final[dict[str, Any]] = {"reference_set": (1, 2, 4), "thresholds": {1: 0.6, 2: 0.3}}
_SEARCH: Final[dict[str, Any]] = {"reference_set": (1, 2, 4), "thresholds": "search"}
_TEN: Final[dict[str, Any]] = {"reference_set": (1, 2, 10), "thresholds": {1: 0.7, 2: 0.1}}
_PAIRS: Final[dict[str, Any]] = {"reference_set": (2, 4), "thresholds": {2: 0.5}}
_TWO: Final[dict[str, Any]] = {"reference_set": (1, 2), "thresholds": {1: 0.8}}
_NO_SIZE: Final[dict[str, Any]] = {"reference_set": (10,), "thresholds": {}}
_ONE_OR_ALL: Final[dict[str, Any]] = {"reference_set": (1, 10), "thresholds": {1: 0.5}}


def _tries(tries: int, num_participants: int = 4, **more: Any) -> dict[str, Any]:
    usual = {**_GIVEN, "registration_interval": 3, "determination": "tries"}
    return {**usual, "num_participants": num_participants, "tries": tries, **more}


def _groups(tries: int, num_participants: int, group_size: int, **more: Any) -> dict[str, Any]:
    more = {"determination": "grouped", "group_size": group_size, **more}
    return _tries(tries, num_participants, **more)


def _run(settings: Mapping[str, Any], *faults: Fault, **more: Any) -> Scenario:
    return Scenario(settings=settings, faults=faults, **more)


def _each(stage: str, *, stale: bool = False) -> Iterator[Fault]:
    rows = {"request lost": 0, "error": 3, "garbage": 4} | ({"stale": 7} if stale else {})
    return (Fault(kind, stage, rows=(row,)) for kind, row in rows.items())


def _name(row: int) -> str:
    return ("ann", "10", "bob", "9", "eve", "cy", "02", "dan", "2")[row % 9] + "x" * (row // 9)


def _letter(row: int) -> str:
    return "abcdefghijklmnop"[-row - 1]


def _twin(row: int) -> str:
    return f"twin{row // 2}"


_T: Final = _tries(4)
_G: Final = _groups(5, 6, 3)
_S: Final = _tries(4, **_SEARCH)
_LONG: Final = _tries(4, registration_interval=10)
_AHEAD: Final = _tries(3, rounds_per_draw=3)
_FEW_AHEAD: Final = _tries(3, 3, rounds_per_draw=3)

_SETTINGS: Final[dict[str, Scenario]] = {
    # Tries
    "one try": _run(_tries(1)),
    "four tries": _run(_T, num_rounds=7),
    "five tries": _run(_tries(5, 3), num_nodes=12),
    "twenty tries": _run(_tries(20, 6, **_TEN), num_nodes=60, num_rounds=3),
    "more tries than an agent decrypts": _run(_tries(20)),
    "few sums": _run(_tries(4, 3, max_sums_per_epoch=2), num_nodes=7, num_rounds=8),
    "agents last for six rounds": _run(
        _tries(2, 3, registration_interval=20, max_sums_per_epoch=3), num_nodes=6, num_rounds=8
    ),
    "all are wanted": _run(_tries(4, 9)),
    "all but one are wanted": _run(_tries(4, 8)),
    "all but two are wanted": _run(_tries(4, 7)),
    "determination by size, few": _run(_tries(5, 4, determination="auto")),
    # Categories
    "ten classes": _run(_tries(4, **_TEN), num_nodes=12),
    "ten classes, one or all": _run(_tries(4, **_ONE_OR_ALL), num_nodes=12),
    "ten classes, one category": _run(_tries(4, **_NO_SIZE), num_nodes=12),
    "two classes": _run(_tries(4, **_TWO)),
    "no single class": _run(_tries(4, **_PAIRS)),
    "search": _run(_S, num_rounds=5),
    "search, ten classes": _run(
        _tries(5, reference_set=(1, 2, 10), thresholds="search"), num_nodes=12
    ),
    "search, one class or all": _run(
        _tries(5, reference_set=(1, 3), thresholds="search"), num_nodes=15
    ),
    "search, while nodes come and go": _run(
        {**_S, "registration_interval": 2}, num_rounds=7, away={3: (4,), 4: (4,)}
    ),
    "search, groups": _run({**_G, **_SEARCH}, num_nodes=20),
    # Groups
    "groups": _run(_G, num_nodes=24, num_rounds=5),
    "groups, uneven": _run(_groups(4, 8, 3), num_nodes=20),
    "groups, a single one": _run(_groups(4, 4, 4), num_nodes=18),
    "groups, hardly enough nodes": _run(_groups(5, 6, 3), num_nodes=10),
    "groups, no others": _run(_groups(5, 6, 3), num_nodes=7),
    "groups, many draws": _run({**_G, "rounds_per_draw": 2}, num_nodes=20),
    "determination by size, many": _run(
        _tries(10, 9, determination="auto", group_size=3, **_TEN), num_nodes=60, num_rounds=3
    ),
    # Registrations and draws
    "two rounds a draw": _run(_tries(4, rounds_per_draw=2), num_rounds=7),
    "three rounds a draw": _run(
        _tries(2, rounds_per_draw=3, registration_interval=5), num_rounds=6
    ),
    "eight rounds a draw": _run(
        _tries(2, rounds_per_draw=8, registration_interval=8), num_nodes=18, num_rounds=8
    ),
    "registration in each round": _run(_tries(4, registration_interval=1)),
    "few draws": _run(_tries(4, max_draws_per_epoch=12), num_rounds=5),
    "small cohorts": _run(
        _tries(2, 2, min_cohort=2), num_nodes=6, nodes={row: {"min_cohort": 2} for row in range(6)}
    ),
    "large cohorts": _run(_tries(5, 6, min_cohort=5, quorum=8), num_nodes=14),
    "a large quorum": _run(_tries(4, quorum=9)),
    # Aliases
    "names and numbers": _run(_T, alias=_name),
    "letters": _run(_groups(5, 6, 3), num_nodes=16, alias=_letter),
    "twins": _run(_T, alias=_twin),
}

_BAD_WEATHER: Final = {
    f"{name}, bad weather": replace(
        scenario, settings={**scenario.settings, "on_failure": "random"}, weather=f"storm {name}"
    )
    for name, scenario in _SETTINGS.items()
}


_RANDOM: Final = {**_T, "on_failure": "random"}
_EIGHT: Final = range(1, 9)
_MOST: Final = range(3, 9)


def _unwilling(*rounds: int) -> dict[str, Any]:
    return {"willing": lambda server_round: server_round not in rounds}


_MOVES: Final = {
    "counts": lambda server_round, counts: counts[::-1] if server_round > 1 else counts,
    "max_label_shift": 0.1,
}
_EMPTY: Final = {"counts": lambda _round, counts: [0] * len(counts)}
_ONE_MORE: Final = {"counts": lambda _round, counts: [*counts, 1]}
_NEGATIVE: Final = {"counts": lambda _round, counts: [-1, *counts[1:]]}

_NODES: Final[dict[str, Scenario]] = {
    # Unwilling nodes
    "some are unwilling in a round": _run(
        _T, nodes={1: _unwilling(2), 4: _unwilling(1, 2), 7: _unwilling(3)}
    ),
    "many are unwilling in a round": _run(_T, nodes=dict.fromkeys(range(6), _unwilling(2))),
    "too many are unwilling, error": _run(_T, nodes=dict.fromkeys(range(7), _unwilling(2))),
    "too many are unwilling, random": _run(_RANDOM, nodes=dict.fromkeys(range(7), _unwilling(2))),
    "some are unwilling, drawn before": _run(_AHEAD, nodes={1: _unwilling(2), 4: _unwilling(1, 3)}),
    "some never take part": _run(_T, nodes={2: _unwilling(0), 6: _unwilling(0, 1, 2, 3, 4)}),
    "nobody takes part": _run(_T, nodes=dict.fromkeys(range(9), _unwilling(0))),
    "nobody takes part, random": _run(_RANDOM, nodes=dict.fromkeys(range(9), _unwilling(0))),
    # Labels
    "no data, wrong number and negative counts": _run(
        _T, nodes={1: _EMPTY, 3: _ONE_MORE, 5: _NEGATIVE}
    ),
    "no data anywhere": _run(_T, nodes=dict.fromkeys(range(9), _EMPTY)),
    "wrong number of classes everywhere": _run(_RANDOM, nodes=dict.fromkeys(range(9), _ONE_MORE)),
    "labels move": _run(
        _tries(3, registration_interval=10), num_rounds=6, nodes=dict.fromkeys(range(3), _MOVES)
    ),
    "labels move, drawn before": _run(
        _tries(3, registration_interval=12, rounds_per_draw=8),
        num_nodes=20,
        num_rounds=4,
        nodes=dict.fromkeys(range(9), _MOVES),
    ),
    "larger keys and cohorts are asked for": _run(
        _T, nodes={1: {"min_key_bits": 1024}, 2: {"min_cohort": 4}}
    ),
    "all ask for larger cohorts": _run(_T, nodes={row: {"min_cohort": 4} for row in range(9)}),
    # Nodes that come and go
    "a few come later": _run(_T, away={1: (3, 8)}),
    "many come later": _run(
        _tries(4, 3, registration_interval=10), away={1: (0, 2, 4, 8), 2: (0, 2, 4, 8)}
    ),
    "no stranger is wanted": _run(
        _tries(4, max_unregistered=0.0, registration_interval=10),
        num_nodes=14,
        away={1: range(9, 14), 2: range(11, 14)},
    ),
    "some go": _run(_T, away={2: (1, 5), 3: (1, 5, 7)}),
    "some go, drawn before": _run(_FEW_AHEAD, away={2: (0, 1, 2), 3: (3, 4, 5, 6)}),
    "most go, drawn before": _run(
        _tries(3, 3, rounds_per_draw=3, on_failure="random"), away={2: _MOST}
    ),
    "most go, error": _run(_T, away={2: range(2, 9)}),
    "all go, random": _run(_RANDOM, away={2: range(9)}),
    "others come": _run(
        _LONG, num_nodes=16, away={1: range(8, 16), 2: range(10, 16), 3: range(8), 4: range(8)}
    ),
    "too few at first": _run(_T, away={1: range(3, 9)}),
    "too few at first, random": _run(_RANDOM, away={1: range(3, 9)}),
    "too many at first": _run({**_T, "max_registered": 8}),
    "too many later": _run(
        {**_T, "max_registered": 8}, num_nodes=12, away={1: range(7, 12)}, num_rounds=5
    ),
    "one too many later": _run({**_T, "max_registered": 8}, away={1: (2,)}),
    "two others save the quorum": _run(
        _tries(4, quorum=9, registration_interval=10),
        num_nodes=11,
        num_rounds=3,
        away={1: (9, 10), 2: (0,), 3: (0,)},
    ),
    # Who may be chosen
    "some may be chosen": _run(_T, eligible={1: range(6), 2: (1, 2, 3, 5, 7)}),
    "too few may be chosen": _run(_T, eligible={2: (1, 2)}),
    "too few may be chosen, random": _run(_RANDOM, eligible={2: (1, 2), 3: ()}),
    "some may be chosen, drawn before": _run(_FEW_AHEAD, eligible={1: range(5), 2: (1, 4, 7, 8)}),
    "some may be chosen, groups": _run(_G, num_nodes=20, eligible={1: range(12), 3: range(8, 20)}),
}

_MESSAGES: Final[dict[str, Scenario]] = {
    # A stage with all nodes
    "join: lost, error, garbage": _run(_T, *_each("join")),
    "join: a key twice": _run(_T, Fault("another's", "join", rows=(2, 5))),
    "join: all lost": _run(_T, Fault("request lost", "join")),
    "join: all lost once, random": _run(_RANDOM, Fault("request lost", "join", rounds=(1,))),
    "join: all errors": _run(_T, Fault("error", "join")),
    "register: lost, error, garbage, stale": _run(_T, *_each("register", stale=True)),
    "register: another's": _run(_T, Fault("another's", "register", rows=(1, 2, 6))),
    "register: most lost once": _run(
        _T, Fault("request lost", "register", rows=_EIGHT, batches=(1,))
    ),
    "register: all lost": _run(_T, Fault("reply lost", "register")),
    "register: lost later, random": _run(
        _RANDOM, Fault("request lost", "register", rounds=(4,)), num_rounds=6
    ),
    "participate: lost, error, garbage, stale": _run(_T, *_each("participate", stale=True)),
    "participate: all lost in a round": _run(
        _RANDOM, Fault("reply lost", "participate", rounds=(2,)), num_rounds=5
    ),
    "participate: all lost, error": _run(_T, Fault("request lost", "participate", rounds=(2,))),
    "participate: most lost": _run(_RANDOM, Fault("reply lost", "participate", (2,), range(7))),
    "participate: lost, groups": _run(
        _G, Fault("reply lost", "participate", (2,), range(9)), num_nodes=20
    ),
    "participate: some always refuse": _run(
        _LONG, Fault("error", "participate", rows=(2, 3, 4)), num_rounds=5
    ),
    "participate: most lost, drawn before": _run(
        _tries(3, rounds_per_draw=3, on_failure="random"),
        Fault("reply lost", "participate", (1,), range(7)),
        num_rounds=3,
    ),
    "participate: lost, and who drew goes": _run(
        _FEW_AHEAD,
        Fault("reply lost", "participate", (1,), range(5)),
        num_rounds=3,
        away={2: (6, 7, 8)},
    ),
    "participate: all draws are spent in vain": _run(
        _tries(4, rounds_per_draw=3, max_draws_per_epoch=12, on_failure="random"),
        Fault("request lost", "participate", (1,)),
        num_rounds=3,
    ),
    "participate: some draws are spent in vain": _run(
        _tries(4, rounds_per_draw=2, max_draws_per_epoch=12, on_failure="random"),
        Fault("request lost", "participate", (1,)),
        num_rounds=3,
    ),
    # A stage with an agent
    "keygen: first agent silent": _run(_T, Fault("request lost", "keygen", batches=(1,))),
    "keygen: two agents fail": _run(_T, Fault("error", "keygen", rounds=(1,), batches=(1, 2))),
    "keygen: garbage": _run(_T, Fault("garbage", "keygen", batches=(1,))),
    "keygen: all fail": _run(_T, Fault("error", "keygen")),
    "keygen: all fail in a round, random": _run(
        _RANDOM, Fault("error", "keygen", rounds=(4,)), num_rounds=5
    ),
    "keygen: one attempt": _run(
        {**_RANDOM, "agent_attempts": 1}, Fault("error", "keygen", rounds=(1,))
    ),
    "determine: first agent silent": _run(_T, Fault("reply lost", "determine", batches=(1,))),
    "determine: two agents fail": _run(_T, Fault("error", "determine", batches=(1, 2))),
    "determine: stale and garbage": _run(
        _T,
        Fault("stale", "determine", rounds=(1,), batches=(1,)),
        Fault("garbage", "determine", rounds=(2,), batches=(1,)),
    ),
    "determine: all fail": _run(_T, Fault("error", "determine")),
    "determine: one attempt": _run({**_T, "agent_attempts": 1}, Fault("request lost", "determine")),
    "determine: five attempts": _run(
        {**_T, "agent_attempts": 5}, Fault("error", "determine", batches=(1, 2, 3, 4))
    ),
    "determine: all fail, groups": _run(
        _G, Fault("error", "determine", rounds=(1, 3)), num_nodes=20
    ),
    "determine: first fails, groups": _run(
        _G, Fault("error", "determine", batches=(1,)), num_nodes=20
    ),
    "determine: one of three agents, drawn before": _run(
        _AHEAD, Fault("error", "determine", rows=range(5))
    ),
    "determine: no agent, drawn before": _run(_AHEAD, Fault("error", "determine")),
    # The search
    "settle: lost, error, garbage": _run(_S, *_each("settle")),
    "settle: all lost": _run(_S, Fault("reply lost", "settle")),
    "settle: all lost in a round": _run(
        _S, Fault("request lost", "settle", rounds=(1,)), num_rounds=5
    ),
    "search: some never take part": _run(_S, nodes=dict.fromkeys((2, 6), _unwilling(0))),
    # A client lies
    "a false distribution": _run(_tries(4, 3), Fault("spoilt distribution", "register", rows=(4,))),
    "a false distribution, groups": _run(
        _G, Fault("spoilt distribution", "register", rows=(4,)), num_nodes=20
    ),
    "all distributions false": _run(_T, Fault("spoilt distribution", "register")),
}

# What follows such an epoch is bound to change when only some nodes register after it.
_REFUSED: Final[dict[str, Scenario]] = {
    "a false registry once": _run(
        _T, Fault("spoilt registration", "register", (1,), (4,), batches=(1,))
    ),
    "a false registry once, search": _run(
        _S, Fault("spoilt registration", "register", (1,), (4,), batches=(1,))
    ),
    "a false registry in a round, random": _run(
        _RANDOM, Fault("spoilt registration", "register", (1,), (4,))
    ),
    "a false registry for ever": _run(_T, Fault("spoilt registration", "register", rows=(4,))),
    "a false registry for ever, random": _run(
        _RANDOM, Fault("spoilt registration", "register", rows=(4,)), num_rounds=2
    ),
    "all nodes restart": _run(_T, restarts={2: range(9)}),
    "most nodes restart": _run(_RANDOM, restarts={2: range(6), 4: range(9)}),
    "most nodes restart, some are unwilling": _run(
        _T, restarts={2: range(2, 9)}, nodes={0: _unwilling(2), 5: _unwilling(2)}
    ),
    "most nodes restart, then nobody joins": _run(
        _RANDOM,
        Fault("request lost", "join", rounds=(2,)),
        num_rounds=3,
        restarts={2: range(3, 9)},
        nodes=dict.fromkeys((0, 1), _unwilling(2)),
    ),
    "most nodes restart, then nobody draws": _run(
        _RANDOM,
        Fault("reply lost", "participate", rounds=(2,), batches=(2,)),
        num_rounds=3,
        restarts={2: range(3, 9)},
        nodes=dict.fromkeys((0, 1), _unwilling(2)),
    ),
    "most nodes restart, groups": _run(_G, num_nodes=20, restarts={3: range(18)}),
}

_RESTARTS: Final[dict[str, Scenario]] = {
    "a few nodes restart": _run(_LONG, num_rounds=5, restarts={2: (1,), 3: (4, 6)}),
    "all nodes restart before they register": _run(_T, restarts={4: range(9)}),
    "server restarts": _run(_LONG, resumed={3: False}),
    "server restarts, interrupted": _run(_LONG, resumed={3: True}),
    "server restarts before the first round": _run(_T, resumed={1: False}),
    "server restarts at each round": _run(
        _T, num_rounds=6, resumed=dict.fromkeys(range(1, 7), False)
    ),
    "server restarts, drawn before": _run(_AHEAD, resumed={2: False, 3: True}),
    "server restarts, some never take part": _run(
        _RANDOM,
        Fault("request lost", "participate", rounds=(3,)),
        num_rounds=3,
        nodes=dict.fromkeys((2, 6), _unwilling(0)),
        resumed={2: False},
    ),
    "server restarts, search": _run(_S, num_rounds=5, resumed={2: True, 3: False}),
    "server restarts, groups": _run(_G, num_nodes=20, resumed={2: False, 3: True}),
    "server crashes at join": _run(_T, crashes={1: "join", 4: "join"}),
    "server crashes at register": _run(_T, crashes={1: "register", 4: "keygen"}),
    "server crashes at participate": _run(_T, crashes={2: "participate"}),
    "server crashes at determine": _run(_G, num_nodes=20, crashes={2: "determine"}),
    "server crashes in a search": _run(_S, num_rounds=5, crashes={1: "settle", 4: "settle"}),
}

SCENARIOS: Final[Mapping[str, Scenario]] = (
    _SETTINGS | _BAD_WEATHER | _NODES | _MESSAGES | _REFUSED | _RESTARTS
)
"""All that is played, by name."""
