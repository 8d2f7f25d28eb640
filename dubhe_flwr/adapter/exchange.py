"""How a batch of requests reaches the nodes and its replies come back, over a Flower Grid."""

import time
from logging import getLogger

from flwr.app import Message
from flwr.serverapp import Grid

from dubhe_flwr.adapter._compat import NO_ANSWER, batch_size
from dubhe_flwr.adapter.records import from_records, message_type, to_records
from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Batch, NodeFailure, Replies

__all__ = ["counted", "log", "send_over_grid"]

log = getLogger("flwr").log
"""Flower's own log, so that the selection shows up between the rounds."""


def counted(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "reply", "replies"), counted(2, "reply", "replies")
    ('1 reply', '2 replies')
    """
    return f"{number} {singular if number == 1 else plural}"


def send_over_grid(grid: Grid, batch: Batch, timeout: float | None) -> Replies:
    """Send all requests of a batch at once and collect the replies.

    Parameters
    ----------
    grid : Grid
        Any Flower Grid.
    batch : Batch
        The requests.
    timeout : float or None
        Seconds to wait for all replies, also where the batch is sent in several parts.

    Returns
    -------
    mapping of int to fields or NodeFailure
        By node id; nodes that did not answer in time are missing. Of several replies of a node
        the first counts, and an error only where nothing else came.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    kind = message_type(batch.header.stage)
    requests = list(batch.fields())
    # Nodes that are asked the same share the records: Flower checks every value of a new one.
    records = {id(fields): to_records(fields) for _, fields in requests}
    size = batch_size(grid, len(requests))
    asked: dict[str, int] = {}
    answers: list[Message] = []
    for start in range(0, len(requests), size):
        left = timeout if deadline is None or start == 0 else deadline - time.monotonic()
        if left is not None and start > 0 >= left:
            break
        messages = [
            Message(records[id(fields)], dst_node_id=node_id, message_type=kind, ttl=left)
            for node_id, fields in requests[start : start + size]
        ]
        answers += grid.send_and_receive(messages, timeout=left)
        # Errors made by the framework come from no node: only the message id tells whose they are.
        asked |= {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
    replies: dict[int, object] = {}
    for answer in answers:
        node_id = asked.get(answer.metadata.reply_to_message_id)
        if node_id is None or not isinstance(replies.get(node_id), NodeFailure | None):
            continue
        if not answer.has_error():
            try:
                replies[node_id] = from_records(answer.content)
            except MalformedMessageError as error:
                replies.setdefault(node_id, NodeFailure(str(error)))
        elif answer.error.code not in NO_ANSWER:
            replies.setdefault(node_id, NodeFailure(answer.error.reason or ""))
    return replies  # type: ignore[return-value]
