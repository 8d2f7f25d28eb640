"""Tests of sending a batch over a Grid: one timeout, and at most one reply per node."""

import sys
from collections.abc import Callable, Iterable
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from dubhe_flwr.adapter import transport
from dubhe_flwr.adapter._compat import new_run
from dubhe_flwr.adapter.transport import (
    ForwardingGrid,
    NoticingGrid,
    in_simulation,
    message_type,
    patience,
    send_over_grid,
    to_records,
)
from dubhe_flwr.protocol import Batch, NodeFailure
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import HelloRequest
from dubhe_flwr.simulation import InProcessGrid


def batch_to(node_ids: Iterable[int]) -> Batch:
    """Return a batch of requests."""
    header = Envelope(bytes(16), "hello", sequence=1)
    return Batch(header, dict.fromkeys(node_ids, HelloRequest()))


class Clock:
    """A clock that advances only when a Grid says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now


Carry = Callable[[list[Message], float | None], Iterable[Message]]


class AlteredGrid(ForwardingGrid):
    """Passes messages and replies through a function."""

    def __init__(self, grid: Grid, carry: Callable[[list[Message], Carry, Any], Any]) -> None:
        super().__init__(grid)
        self.carry = carry

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        forward = super().send_and_receive
        replies: Iterable[Message] = self.carry(
            list(messages), lambda sent, seconds: forward(sent, timeout=seconds), timeout
        )
        return replies


@pytest.fixture
def grid() -> InProcessGrid:
    """Return six nodes that answer with the header of the request."""
    app = ClientApp()

    @app.evaluate("dubhe_hello")
    def hello(message: Message, context: Any) -> Message:
        return Message(to_records({"alias": "3", "willing": True}), reply_to=message)

    return InProcessGrid(app, 6)


def test_patience_depends_on_the_grid(grid: InProcessGrid) -> None:
    """There is no waiting for in-process nodes, and little for Flower's simulation engine."""
    assert patience(ForwardingGrid(grid)) == 0.0
    grid.is_complete = False
    assert patience(ForwardingGrid(grid)) == inf
    engine = type("InMemoryGrid", (InProcessGrid,), {"is_complete": False})(ClientApp(), 1)
    for each in (engine, ForwardingGrid(engine)):
        assert 0.0 < patience(each) < 10.0


@pytest.mark.parametrize("simulation", ["in process", "ray", None])
def test_a_node_knows_where_it_runs(
    simulation: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node knows that it is simulated in process or on Ray."""
    monkeypatch.setitem(
        sys.modules, "ray", SimpleNamespace(is_initialized=lambda: simulation == "ray")
    )
    seen: list[bool] = []
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Any) -> Message:
        seen.append(in_simulation())
        return Message(RecordDict(), reply_to=message)

    if simulation == "in process":
        grid = InProcessGrid(app, 1)
        (node_id,) = grid.get_node_ids()
        list(grid.send_and_receive([Message(RecordDict(), node_id, "query")]))
        assert seen == [True]
    assert in_simulation() == (simulation == "ray")


@pytest.mark.parametrize(
    ("timeout", "timeouts", "answered"),
    [(100.0, [100.0, 60.0, 20.0], 6), (50.0, [50.0, 10.0], 4), (None, [None] * 3, 6)],
)
def test_a_timeout_covers_the_whole_batch(
    grid: InProcessGrid,
    monkeypatch: pytest.MonkeyPatch,
    timeout: float | None,
    timeouts: list[float | None],
    answered: int,
) -> None:
    """The parts of a batch share one timeout, and no part is sent after it."""
    clock, waited, lives = Clock(), list[float | None](), list[float]()
    monkeypatch.setattr(transport, "time", clock)
    monkeypatch.setattr(transport, "batch_size", lambda _grid, _number: 2)

    def slow(messages: list[Message], carry: Carry, seconds: float | None) -> Iterable[Message]:
        waited.append(seconds)
        lives.extend(message.metadata.ttl for message in messages)
        clock.now += 40.0
        return carry(messages, seconds)

    replies = send_over_grid(AlteredGrid(grid, slow), batch_to(grid.get_node_ids()), timeout)
    assert waited == timeouts
    assert len(replies) == answered
    if timeout is not None:
        assert lives == [seconds for seconds in timeouts for _ in range(2)]


RAISED, BUSY, GONE = Error(2, "raised"), Error(2, "busy"), Error(5, "gone")
SPENT = Error(6, "spent")


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ([None], "reply"), ([None, RAISED], "reply"), ([RAISED, None], "reply"),
        ([GONE, None], "reply"), ([RAISED, BUSY], "raised"), ([GONE, RAISED], "raised"),
        ([SPENT], "spent"), ([GONE], None), ([Error(3, "?"), Error(4, "?")], None), ([], None),
    ],
)  # fmt: skip
def test_one_reply_per_node_counts(
    grid: InProcessGrid, answers: list[Error | None], kept: str | None
) -> None:
    """A reply beats an error, and a node that the framework reports as gone has no reply."""
    (node_id, *_) = grid.get_node_ids()

    def replying(messages: list[Message], carry: Carry, seconds: float) -> list[Message]:
        return [
            reply if error is None else Message(error, reply_to=message)
            for message, reply in zip(messages, carry(messages, seconds), strict=True)
            for error in answers
        ]

    replies = send_over_grid(AlteredGrid(grid, replying), batch_to([node_id]), 1.0)
    expected: dict[str | None, Any] = {
        "reply": {node_id: {"alias": "3", "willing": True}},
        "raised": {node_id: NodeFailure("raised")},
        "spent": {node_id: NodeFailure("spent", at_daily_limit=True)},
        None: {},
    }
    assert replies == expected[kept]


def test_no_node_answers_for_another(grid: InProcessGrid) -> None:
    """A reply counts only if it comes from the node that was asked."""
    asked, other, *_ = grid.get_node_ids()

    def forging(messages: list[Message], carry: Carry, seconds: float) -> list[Message]:
        replies = list(carry(messages, seconds))
        for reply in replies:
            reply.metadata.__dict__["_src_node_id"] = other
        return replies

    forged = AlteredGrid(grid, forging)
    assert send_over_grid(forged, batch_to([asked]), 1.0) == {}
    assert set(send_over_grid(forged, batch_to([asked, other]), 1.0)) == {other}


def test_a_forwarding_grid_forwards_everything(grid: InProcessGrid) -> None:
    """A forwarding Grid has the messages and the run of the other Grid."""
    view = ForwardingGrid(grid)
    node_ids = list(view.get_node_ids())
    assert node_ids == list(grid.get_node_ids())
    assert view.run is grid.run
    run = new_run(17)
    view.set_run(run)
    assert grid.run is run
    kind = message_type("hello")
    message = Message(RecordDict(), dst_node_id=node_ids[0], message_type=kind)
    assert len(list(view.send_and_receive([message]))) == 1
    ids = list(view.push_messages([view.create_message(RecordDict(), kind, node_ids[0], "1")]))
    assert len(list(view.pull_messages(ids))) == 1


def test_only_the_apps_messages_are_noticed(grid: InProcessGrid) -> None:
    """Requests that are sent ahead do not count as training messages that were pushed."""
    noticed: list[int] = []
    noticing = NoticingGrid(grid, noticed.append)
    node_ids = list(grid.get_node_ids())
    replies = send_over_grid(noticing, batch_to(node_ids), 1.0)
    assert len(replies) == len(node_ids)
    noticing.push_messages([Message(RecordDict(), node_ids[0], "train")])
    assert noticed == [0, 1]
