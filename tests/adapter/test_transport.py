"""Tests of sending a batch over a Grid: one timeout, and at most one reply per node."""

from collections.abc import Callable, Iterable
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.clientapp import ClientApp

from dubhe_flwr.adapter import transport
from dubhe_flwr.adapter._compat import new_run
from dubhe_flwr.adapter.messages import message_type, to_records
from dubhe_flwr.adapter.transport import (
    ForwardingGrid,
    NoticingGrid,
    patience,
    send_over_grid,
)
from dubhe_flwr.protocol import Batch, NodeFailure
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import HelloRequest
from dubhe_flwr.simulation import InProcessGrid


def batch_to(node_ids: Iterable[int]) -> Batch:
    """Return a batch of requests."""
    header = Envelope(bytes(16), "hello", sequence=1)
    return Batch(header, dict.fromkeys(node_ids, HelloRequest()))


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
    now, waited, lives, carry = 1000.0, list[float | None](), list[float](), grid.send_and_receive
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(transport, "batch_size", lambda _grid, _number: 2)

    def slow(messages: list[Message], *, timeout: float | None) -> Iterable[Message]:
        nonlocal now
        waited.append(timeout)
        lives.extend(message.metadata.ttl for message in messages)
        now += 40.0
        return carry(messages)

    monkeypatch.setattr(grid, "send_and_receive", slow)
    replies = send_over_grid(grid, batch_to(grid.get_node_ids()), timeout)
    assert waited == timeouts
    assert len(replies) == answered
    if timeout is not None:
        assert lives == [seconds for seconds in timeouts for _ in range(2)]


Answer = Callable[[Message], Message]


def error(code: int, reason: str) -> Answer:
    """Return how the framework or a node answers with an error."""
    return lambda asked: Message(Error(code, reason), reply_to=asked)


def reply(alias: str = "3", **forged: Any) -> Answer:
    """Return how a node answers, perhaps with forged metadata."""

    def answer(asked: Message) -> Message:
        made = Message(to_records({"alias": alias}), reply_to=asked)
        made.metadata.__dict__.update(forged)
        return made

    return answer


RAISED, BUSY, GONE = error(2, "raised"), error(2, "busy"), error(5, "gone")
EMPTY: Answer = lambda asked: Message(RecordDict(), reply_to=asked)  # noqa: E731
FIRST = {"alias": "3"}


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ([reply()], FIRST), ([reply(), RAISED], FIRST), ([RAISED, reply()], FIRST),
        ([GONE, reply()], FIRST), ([reply(), reply("4")], FIRST),
        ([reply("4", _reply_to_message_id="never sent"), reply()], FIRST),
        ([reply("4", _src_node_id=7), reply()], FIRST), ([reply(_src_node_id=7)], None),
        ([RAISED, BUSY], NodeFailure("raised")), ([GONE, RAISED], NodeFailure("raised")),
        ([error(6, "spent")], NodeFailure("spent", at_daily_limit=True)),
        ([EMPTY], NodeFailure("The message has no record 'dubhe'.")),
        ([GONE], None), ([error(3, "?"), error(4, "?")], None), ([], None),
    ],
)  # fmt: skip
def test_one_reply_per_node_counts(
    grid: InProcessGrid,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Answer],
    kept: dict[str, object] | NodeFailure | None,
) -> None:
    """The first reply that comes from the node that was asked; it beats an error.

    A node that the framework reports as gone has no reply.
    """
    (node_id, *_), carry = grid.get_node_ids(), grid.send_and_receive

    def replying(messages: list[Message], *, timeout: float | None) -> list[Message]:
        list(carry(messages))
        return [answer(message) for message in messages for answer in answers]

    monkeypatch.setattr(grid, "send_and_receive", replying)
    replies = send_over_grid(grid, batch_to([node_id]), 1.0)
    assert replies == ({} if kept is None else {node_id: kept})


def test_a_forwarding_grid_forwards_everything(grid: InProcessGrid) -> None:
    """A forwarding Grid has the messages and the run of the other Grid."""
    view, run, kind = ForwardingGrid(grid), new_run(17), message_type("hello")
    view.set_run(run)
    assert view.run is grid.run is run
    node_id, *_ = view.get_node_ids()
    assert len(list(view.send_and_receive([Message(RecordDict(), node_id, kind)]))) == 1
    ids = view.push_messages([view.create_message(RecordDict(), kind, node_id, "1")])
    assert len(list(view.pull_messages(ids))) == 1


def test_a_grid_may_be_a_proxy(grid: InProcessGrid) -> None:
    """Apps pass on all but a few of a Grid's attributes, for instance to hide some nodes."""

    class Proxy:
        def __getattr__(self, name: str) -> Any:
            return getattr(grid, name)

    proxy: Any = Proxy()
    assert len(send_over_grid(proxy, batch_to(proxy.get_node_ids()), 60.0)) == 6


def test_only_the_apps_messages_are_noticed(grid: InProcessGrid) -> None:
    """Requests that are sent ahead do not count as training messages that were pushed."""
    noticed: list[int] = []
    noticing = NoticingGrid(grid, noticed.append)
    node_ids = list(grid.get_node_ids())
    replies = send_over_grid(noticing, batch_to(node_ids), 1.0)
    assert len(replies) == len(node_ids)
    noticing.push_messages([Message(RecordDict(), node_ids[0], "train")])
    assert noticed == [0, 1]
