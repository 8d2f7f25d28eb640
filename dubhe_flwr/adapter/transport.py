"""Sends batches of requests over a Grid, and collects the replies."""

import time
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from dubhe_flwr.adapter._compat import DAILY_LIMIT, NO_ANSWER, batch_size, is_simulation_engine
from dubhe_flwr.adapter.messages import STAGES, from_records, message_type, stage_of, to_records
from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Batch, NodeFailure, Replies


def patience(grid: Grid) -> float:
    """Return how many seconds to wait for one more node.

    An in-process Grid has all its nodes from the start, and the nodes of Flower's simulation engine
    connect in quick succession.
    """
    if getattr(grid, "is_complete", False):
        return 0.0
    return 3.0 if is_simulation_engine(grid) else inf


def is_remote(grid: Grid) -> bool:
    """Return whether a Grid is Flower's own and reaches SuperNodes.

    A SuperNode handles one message at a time, so several may be in flight to it.
    """
    if isinstance(grid, NoticingGrid):
        return True
    send = getattr(type(grid), "send_and_receive", None)  # an app's proxy may have none
    is_flowers = getattr(send, "__module__", "").startswith("flwr.")
    return is_flowers and patience(grid) == inf


def send_over_grid(
    grid: Grid, batch: Batch, timeout: float | None, is_over: Callable[[], bool] | None = None
) -> Replies:
    """Send all requests of a batch and return the replies by node id.

    The timeout covers the whole batch, even if it is sent in parts; nodes that did not answer in
    time are missing. On a remote Grid, `is_over` may decide instead when to stop waiting. If a node
    replies more than once, its first reply that is not an error counts.
    """
    begin = time.monotonic()
    kind = message_type(batch.header.stage)
    requests = list(batch.fields.items())
    size = batch_size(grid, len(requests))
    asked: dict[str, int] = {}
    answers: list[Message] = []
    for start in range(0, len(requests), size):
        left = None if timeout is None else timeout - (time.monotonic() - begin)
        if left is not None and left <= 0:
            break
        messages = [
            Message(to_records(fields), dst_node_id=node_id, message_type=kind, ttl=left)
            for node_id, fields in requests[start : start + size]
        ]
        if is_remote(grid):
            answers += replies_of(grid, grid.push_messages(messages), is_over or after(left))
        else:
            answers += grid.send_and_receive(messages, timeout=left)
        # Errors that the framework creates name no node; the message id tells which one it was.
        asked |= {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
    return _by_node(answers, asked)


def _by_node(answers: Iterable[Message], asked: Mapping[str, int]) -> Replies:
    """Return the replies by node id; `asked` maps the ids of sent messages to their nodes."""
    replies: dict[int, Mapping[str, object] | NodeFailure] = {}
    for answer in answers:
        node_id = asked.get(answer.metadata.reply_to_message_id)
        if node_id is None or not isinstance(replies.get(node_id), NodeFailure | None):
            continue
        if not answer.has_error():
            if answer.metadata.src_node_id != node_id:
                continue  # another node cannot answer for this one
            try:
                replies[node_id] = from_records(answer.content)
            except MalformedMessageError as error:
                replies.setdefault(node_id, NodeFailure(str(error)))
        elif answer.error.code not in NO_ANSWER:
            failure = NodeFailure(answer.error.reason or "", answer.error.code == DAILY_LIMIT)
            replies.setdefault(node_id, failure)
    return replies


def after(seconds: float | None) -> Callable[[], bool]:
    """Return a function that returns True once the given seconds have passed."""
    end = inf if seconds is None else time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def replies_of(
    grid: Grid, message_ids: Iterable[str], is_over: Callable[[], bool]
) -> list[Message]:
    """Pull the replies to messages until all have come or `is_over` returns True.

    Flower pauses for three seconds between two pulls. Here a pause is a tenth of the time waited so
    far, so that quick replies are noticed quickly.
    """
    begin = time.monotonic()
    waiting = {message_id for message_id in message_ids if message_id}
    replies: list[Message] = []
    while waiting:
        pulled = list(grid.pull_messages(waiting))
        replies += pulled
        waiting.difference_update(reply.metadata.reply_to_message_id for reply in pulled)
        if not waiting or is_over():
            break
        time.sleep(min(3.0, max(0.3, 0.1 * (time.monotonic() - begin))))
    return replies


def _of_other(name: str) -> Any:
    """Return a property that forwards a method or property to the other Grid."""
    return property(lambda grid: getattr(grid.other, name))


class ForwardingGrid(Grid):
    """Forwards everything to another Grid; the base of grids that change some of its methods."""

    def __init__(self, other: Grid) -> None:
        self.other = other

    is_complete = _of_other("is_complete")
    get_node_ids = _of_other("get_node_ids")
    set_run = _of_other("set_run")
    run = _of_other("run")
    create_message = _of_other("create_message")
    push_messages = _of_other("push_messages")
    pull_messages = _of_other("pull_messages")
    send_and_receive = _of_other("send_and_receive")


class NoticingGrid(ForwardingGrid):
    """Forwards everything to a remote Grid, and reports how many of the app's messages were pushed.

    Dubhe's own messages do not count: they may be pushed while the app still pushes its own.
    """

    def __init__(self, other: Grid, on_push: Callable[[int], None]) -> None:
        super().__init__(other)
        self._on_push = on_push

    get_nodes = _of_other("get_nodes")

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages and report the number of the app's, even if the push fails."""
        pushed = list(messages)
        try:
            return self.other.push_messages(pushed)
        finally:
            self._on_push(sum(stage_of(message) not in STAGES for message in pushed))

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push messages and return the replies."""
        is_over = after(timeout)
        return replies_of(self, self.push_messages(messages), is_over)
