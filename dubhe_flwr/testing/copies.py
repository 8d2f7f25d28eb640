"""Copies of messages: second ones, old ones in a new place, and spoilt ones."""

from typing import Any

import numpy as np
from flwr.app import Message

from dubhe_flwr.adapter._compat import delivered_copy, readdressed

__all__ = ["in_answer_to", "spoilt_copy", "twin"]


def twin(message: Message) -> Message:
    """Return a message of the same content that travels on its own."""
    return readdressed(delivered_copy(message) if message.has_content() else message)


def in_answer_to(request: Message, reply: Message) -> Message:
    """Return a reply that names this request as the one it answers."""
    if reply.metadata.reply_to_message_id == request.metadata.message_id:
        return reply
    return readdressed(reply, reply_to_message_id=request.metadata.message_id)


def spoilt_copy(message: Message, rng: np.random.Generator) -> Message:
    """Return a message under the same id with one value of its configs or metrics changed."""
    spoilt = delivered_copy(message)
    records: list[Any] = [
        *spoilt.content.config_records.values(),
        *spoilt.content.metric_records.values(),
    ]
    places = [(record, name) for record in records for name in sorted(record)]
    if places:
        record, name = places[int(rng.integers(len(places)))]
        record[name] = _other(record[name], rng)
    return spoilt


def _other(value: object, rng: np.random.Generator) -> object:  # noqa: PLR0911 - one for each type
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value ^ (1 << int(rng.integers(40)))
        case float():
            return 1.0 - 2.0 * value
        case str():
            return value + "?"
        case bytes() if value:
            bit = int(rng.integers(8 * len(value)))
            return (int.from_bytes(value, "big") ^ 1 << bit).to_bytes(len(value), "big")
        case list():
            return value[:-1]
    return b"?"
