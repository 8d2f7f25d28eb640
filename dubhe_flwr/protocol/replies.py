"""Parses the replies to a batch, and drops and counts those that cannot be used."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.protocol.plan import ERROR_REPLY, Batch, NodeFailure, Replies, StageReport
from dubhe_flwr.protocol.wire.codec import Message, wire_size
from dubhe_flwr.protocol.wire.envelope import read_reply

DAYS_LIMIT: Final = "owner's daily limit"
_MAX_ERROR: Final = 200  # characters that a report keeps of an error, which a node may make long

MessageT = TypeVar("MessageT", bound=Message)


def accept_replies(
    batch: Batch, replies: Replies, refuse: Callable[[int, MessageT], str | None]
) -> tuple[dict[int, MessageT], StageReport]:
    """Parse the replies to a batch; drop and count those that cannot be used.

    `refuse` returns why a well-formed reply cannot be used, or None; it may raise a
    `ProtocolError`. The usable replies are returned by node id, in the order of the requests.
    """
    accepted: dict[int, MessageT] = {}
    lost: dict[str, list[int]] = {}
    errors: Counter[str] = Counter()
    bytes_up = 0
    for node_id in batch.requests:
        reply = replies.get(node_id)
        reason: str | None = "no reply"
        if isinstance(reply, NodeFailure) and reply.at_daily_limit:
            reason = DAYS_LIMIT
        elif isinstance(reply, NodeFailure):
            reason = ERROR_REPLY
            errors[reply.reason[:_MAX_ERROR]] += 1
        elif reply is not None:
            try:
                body: Any = read_reply(batch.header, reply)  # the header fixes the kind
                reason = refuse(node_id, body)
            except ProtocolError as error:
                reason = type(error).__name__
            if reason is None:
                accepted[node_id] = body
                bytes_up += wire_size(reply)
        if reason is not None:
            lost.setdefault(reason, []).append(node_id)
    report = StageReport(
        stage=batch.header.stage,
        sent=len(batch.requests),
        accepted=len(accepted),
        lost=lost,
        bytes_down=sum(map(wire_size, batch.fields.values())),
        bytes_up=bytes_up,
        error=max(errors, key=errors.__getitem__, default=""),
    )
    return accepted, report


def alias_order(aliases: Mapping[int, str]) -> tuple[int, ...]:
    """Return the node ids ordered by alias, numbers first.

    Flower draws node ids at random in each run, so an order by id would differ from run to run.

    Examples
    --------
    >>> alias_order({17: "10", 4: "9", 8: "laptop"})
    (4, 17, 8)
    """

    def key(node_id: int) -> tuple[bool, int, str, int]:
        alias = aliases[node_id]
        is_number = alias.isascii() and alias.isdigit()
        return not is_number, int(alias) if is_number else 0, alias, node_id

    return tuple(sorted(aliases, key=key))
