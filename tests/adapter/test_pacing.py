"""Nodes are asked while they do not train, after a head start, and not for ever."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dubhe_flwr.adapter import pacing
from dubhe_flwr.adapter.pacing import Pacing, StoppedError
from dubhe_flwr.protocol import Batch, Plan, Replies
from dubhe_flwr.protocol.wire.envelope import Envelope

JOIN: Batch = Batch(Envelope(bytes(16), "join", 1), dict.fromkeys(range(4)))  # type: ignore[arg-type]


def training(trained: Sequence[int], server_round: int = 1) -> Plan:
    """Return the plan of a round in which these nodes train."""
    return Plan(server_round, tuple(trained), ())


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Pacing:
    """Return a pacing that never waits, and fails if it would wait for ever."""

    def wait_for(is_over: Callable[[], bool], timeout: float | None = None) -> None:
        assert is_over() or timeout is not None, "it waits for ever"

    paced = Pacing(timeout=None)
    monkeypatch.setattr(paced._changed, "wait_for", wait_for)
    return paced


@pytest.mark.parametrize(
    ("trained", "expected"),
    [((1, 2), [[0, 3], [1, 2]]), ((4,), [[0, 1, 2, 3]]), (range(4), [[0, 1, 2, 3]])],
    ids=["some", "none", "all"],
)
def test_nodes_are_asked_while_they_do_not_train(
    paced: Pacing, trained: Sequence[int], expected: list[list[int]]
) -> None:
    """Nodes that train are asked in the next round, or once a round waits for its plan."""
    sent: list[list[int]] = []

    def send(batch: Batch, _is_over: Any) -> Replies:
        sent.append(list(batch.requests))
        paced.training_begins(training((), server_round=2))
        return {node: {} for node in batch.requests}

    paced.training_begins(training(trained))
    if len(trained) < 4:
        replies = paced.spread(JOIN, send)
    else:
        with paced.hurry():
            replies = paced.spread(JOIN, send)
    assert sent == expected
    assert sorted(replies) == [0, 1, 2, 3]


def test_a_thread_that_has_to_end_sends_no_more(paced: Pacing) -> None:
    """Nodes that train are not asked any more once the round is selected or the run has ended."""
    sent: list[list[int]] = []

    def send(batch: Batch, is_over: Callable[[], bool]) -> Replies:
        assert not is_over()
        sent.append(list(batch.requests))
        paced.stop()
        assert is_over()
        return {}

    paced.training_begins(training((1, 2)))
    for _ in range(2):  # the second time, it is stopped before it sends
        with pytest.raises(StoppedError):
            paced.spread(JOIN, send)
    assert sent == [[0, 3]]


def test_training_gets_a_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are asked once a third of a round's time has passed since its training began."""
    clock, waited = iter((0.0, 8970.0, 9000.0, 9006.0)), []
    monkeypatch.setattr(pacing, "monotonic", lambda: next(clock))
    paced = Pacing(timeout=None)
    for server_round in (1, 2):
        paced.training_begins(training((1, 2), server_round))

    def wait_for(is_over: Callable[[], bool], timeout: float | None = None) -> None:
        paced._is_awaited = True
        waited.append((timeout, is_over()))

    monkeypatch.setattr(paced._changed, "wait_for", wait_for)
    paced.spread(Batch(JOIN.header, {0: JOIN.requests[0]}), lambda *_: {})
    assert waited == [(4.0, True)]  # it ends earlier if a round waits


def test_the_timeout_begins_with_the_next_round() -> None:
    """A node that trains is not late, however long its training takes.

    If a round waits, training is over, and no other round begins before the batch is answered.
    """
    paced, seen = Pacing(timeout=1e-9), list[bool]()

    def send(_batch: Batch, is_over: Callable[[], bool]) -> Replies:
        seen.append(is_over() or is_over())
        paced.training_begins(training((), server_round=2))
        seen.append(is_over() or is_over())
        return {}

    paced.training_begins(training([0]))
    paced.send(JOIN, send)
    with paced.hurry():
        paced.send(JOIN, send)
    paced.send(JOIN, send)
    assert seen == [False, True, True, True, False, False]
