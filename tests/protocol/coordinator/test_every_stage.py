"""A bad reply, at any stage, is dropped and counted, and the other nodes go on."""

from typing import Any

import numpy as np
import pytest
from protocol.server import (
    FAULTS,
    PLAIN,
    SEARCH,
    Nodes,
    agents_in_turn,
    alter,
    altered,
    asked,
    federation,
    lost,
    report_of,
)

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import Batch, Stage
from dubhe_flwr.protocol.coordinator.context import Rest

OF_ALL = ("join", "register", "settle", "participate")
OF_AN_AGENT = ("appoint", "determine")
EVERY = (*OF_ALL, *OF_AN_AGENT)


def test_every_stage_is_listed() -> None:
    """A new stage has tests of bad replies here; those of committees are in `adversary`."""
    assert {*EVERY, "hello", "open"} == set(Stage)


def nodes_of(stage: str, **settings: Any) -> Nodes:
    """Return nodes whose next round has a stage; those that search settle in two exchanges."""
    nodes = federation(**SEARCH if stage == "settle" else {}, **settings)
    if stage == "participate":
        nodes.play(1)
    return nodes


def next_round(nodes: Nodes) -> int:
    """Return the number of the next round."""
    return nodes.state.run.server_round + 1


def sized(field: str, reason: str) -> tuple[Any, str]:
    """Return a way to give a field the wrong size."""
    return lambda r: {**r, field: r[field] + b"\0"}, reason


def vector(field: str) -> list[tuple[Any, str]]:
    """Return ways to spoil a field that should hold ciphertexts."""
    return [
        sized(field, "wrong size of ciphertexts"),
        (lambda r: {**r, field: bytes(len(r[field]))}, "invalid ciphertext"),
    ]


def answer(*indices: int) -> Any:
    """Return an answer that names these tries."""
    return lambda r: {**r, "chosen": np.array(indices, dtype=">i8").tobytes()}


NO_CHOICE = "no such try"
UNFIT: dict[str, list[tuple[Any, str]]] = {  # the vectors have malformed replies
    "join": [(lambda r: {**r, "num-examples": 5}, "unexpected or missing numbers")],
    "appoint": [
        sized("sealed-keys", "wrong number of sealed keys"),
        (lambda r: {**r, "public": r["public"][:-1] + b"\0"}, "MalformedMessageError"),
        (lambda r: {**r, "signatures": bytes(96)}, "wrong number of signatures"),
    ],
    "register": [*vector("registration"), *vector("distribution")],
    "settle": [
        *vector("contribution"),
        (
            lambda r: r if "contribution" in r else {**r, "draws.decisions": b"\0\0"},
            "wrong number of draws",
        ),
    ],
    "participate": [
        sized("decisions", "wrong number of draws"),
        sized("unwilling", "wrong number of draws"),
    ],
    "determine": [(answer(*indices), NO_CHOICE) for indices in ((), (0, 0), (3,), (-1,), (2**62,))],
}


def cases(stages: tuple[str, ...]) -> list[Any]:
    """Return each stage with each fault."""
    return [
        pytest.param(stage, *fault, id=f"{stage}-{number}-{fault[1]}")
        for stage in stages
        for number, fault in enumerate([*FAULTS, *UNFIT[stage]])
    ]


@pytest.mark.parametrize(("stage", "spoil", "reason"), cases(OF_ALL))
def test_lost_nodes_are_dropped_and_do_not_train(stage: str, spoil: Any, reason: str) -> None:
    """Each lost node is dropped for its own reason, and does not train."""
    nodes = nodes_of(stage)
    victims = nodes.ids[1:3]
    alter(nodes, stage, spoil, victims)
    plan = nodes.play(next_round(nodes))
    (report,) = [report for report in plan.stages if report.dropped]
    assert (report.stage, report.sent, report.dropped) == (stage, 12, {reason: 2})
    assert plan.num_registered == (12 if stage == "participate" else 10)
    assert not set(victims) & {*plan.participants, *asked(nodes, "determine")}
    assert (len(plan.participants), plan.notes, nodes.errors) == (4, (), [])


@pytest.mark.parametrize(("stage", "spoil", "reason"), cases(OF_AN_AGENT))
def test_an_agent_that_fails_ends_no_round(stage: str, spoil: Any, reason: str) -> None:
    """Another one makes a key in a new epoch, or the first try is used; the plan says so."""
    nodes = federation()
    chooses = stage == "determine"
    first, second, *_ = agents_in_turn(nodes, purpose="agents" if chooses else "keygen")
    alter(nodes, stage, spoil, [first])
    plan = nodes.play(1)
    assert asked(nodes, stage) == ([first] if chooses else [first, second])
    assert report_of(plan, stage).dropped == {reason: 1}
    (note,) = plan.notes
    assert note.startswith("An agent did not choose" if chooses else "No sum can be opened")
    assert (plan.num_registered, len(plan.participants), nodes.errors) == (12, 4, [])


@pytest.mark.parametrize("stage", EVERY)
@pytest.mark.parametrize("on_failure", ["raise", "random"])
def test_silence_ends_the_round(stage: str, on_failure: str) -> None:
    """If no node answers, the round ends as `on_failure` says; only the best try is optional."""
    nodes = nodes_of(stage, on_failure=on_failure)
    server_round = next_round(nodes)
    with altered(nodes, stage, lost):
        if stage != "determine" and on_failure == "raise":
            with pytest.raises(QuorumError, match='on_failure="random"') as error:
                nodes.play(server_round)
            assert type(error.value) is QuorumError
        else:
            plan = nodes.play(server_round)
            assert plan.fallback == (stage != "determine")
            assert (len(set(plan.participants)), plan.stages[-1].stage) == (4, stage)
            last = "the first one is used." if stage == "determine" else "at random."
            assert plan.notes[-1].endswith(last)
            assert isinstance(nodes.state.stage, Rest)
    after = nodes.play(server_round + 1)
    assert (after.fallback, after.notes, nodes.errors) == (False, (), [])


@pytest.mark.parametrize("settings", [{}, SEARCH, PLAIN], ids=str)
def test_a_step_can_be_repeated(settings: dict[str, Any]) -> None:
    """The same replies to the same state give the same outcome, in any order of arrival."""
    nodes = federation(rounds_per_draw=2, **settings)
    outcome = nodes.begin(1)
    while isinstance(outcome, Batch):
        stored, replies = nodes.state, nodes.deliver(outcome)
        outcome = nodes.step(replies)
        for again in (replies, dict(reversed(replies.items()))):
            assert nodes.selector.step(stored, again)[1] == outcome
