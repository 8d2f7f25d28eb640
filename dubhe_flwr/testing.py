"""Injects faults between server and nodes, to test apps and strategies that use Dubhe."""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Final, Literal, TypeVar, get_args

import numpy as np
from flwr.app import Error, Message
from flwr.serverapp import Grid

from dubhe_flwr.adapter._compat import (
    CLIENT_APP_ERROR,
    NODE_UNAVAILABLE,
    delivered_copy,
    set_message_id,
)
from dubhe_flwr.adapter.messages import STAGES, stage_of
from dubhe_flwr.adapter.transport import ForwardingGrid
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError

__all__ = ["Fault", "FaultKind", "FaultyGrid"]

ThingT = TypeVar("ThingT")

FaultKind = Literal[
    "drop_request",
    "drop_reply",
    "error",
    "kill",
    "reorder",
    "corrupt_request",
    "corrupt_reply",
]

_KNOWN: Final = (*STAGES, "train", "evaluate", "query")


@dataclass(frozen=True)
class Fault:
    """One kind of fault, and which messages it hits.

    Parameters
    ----------
    kind : str
        What happens to a message that is hit:

        - "drop_request", "drop_reply": the request or the reply is lost;
        - "error": the node does not see the request, and an error comes back;
        - "kill": the node leaves for good, without an answer;
        - "reorder": the messages of the batch, and their replies, are shuffled;
        - "corrupt_request", "corrupt_reply": one value of the message's records is changed.
    stages : str or iterable of str (default: all)
        Stages of the protocol, such as "join" or "determine"; "train", "evaluate" and "query" are
        the app's own messages.
    share : float (default: 1.0)
        Share of the messages that are hit.
    times : int, optional (default: no limit)
        Largest number of messages that are hit.
    same_nodes : bool (default: False)
        Hit a share of the nodes, always the same ones, instead of a share of the messages.

    Examples
    --------
    >>> Fault("kill", stages="appoint", times=1).struck
    ('appoint',)
    """

    kind: FaultKind
    stages: str | Iterable[str] = _KNOWN
    share: float = 1.0
    times: int | None = None
    same_nodes: bool = False

    def __post_init__(self) -> None:
        kinds = get_args(FaultKind)
        if self.kind not in kinds:
            raise SettingsError(
                f"kind={self.kind!r} is not a fault; choose from {', '.join(kinds)}."
            )
        if unknown := [stage for stage in self.struck if stage not in _KNOWN]:
            raise SettingsError(f"stages={unknown} do not exist; choose from {', '.join(_KNOWN)}.")
        if not 0.0 <= self.share <= 1.0:
            raise SettingsError(f"share={self.share} must be from 0 to 1.")

    @cached_property
    def struck(self) -> tuple[str, ...]:
        """The stages that it hits."""
        return (self.stages,) if isinstance(self.stages, str) else tuple(self.stages)


class FaultyGrid(ForwardingGrid):
    """Forwards messages to another Grid, with faults.

    Faults apply to messages sent with `send_and_receive`, which Dubhe and Flower's strategies use.
    Arrays are never corrupted. `injected` counts the faults by kind and stage, and `killed` holds
    the nodes that left.

    Parameters
    ----------
    grid : Grid
        Any Flower Grid, such as a `dubhe_flwr.simulation.InProcessGrid`.
    faults : iterable of Fault
        The faults; several of them may hit one message.
    seed : int (default: 0)
        Fixes which messages are hit.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> from flwr.clientapp import ClientApp
    >>> from dubhe_flwr.simulation import InProcessGrid
    >>> grid = FaultyGrid(InProcessGrid(ClientApp(), 9), [Fault("error", "query", share=0.5)])
    >>> messages = [Message(RecordDict(), node_id, "query") for node_id in grid.get_node_ids()]
    >>> replies = list(grid.send_and_receive(messages))
    >>> grid.injected
    Counter({('error', 'query'): 4})
    """

    def __init__(self, grid: Grid, faults: Iterable[Fault], seed: int = 0) -> None:
        super().__init__(grid)
        self.faults = tuple(faults)
        self.injected: Counter[tuple[str, str]] = Counter()
        self.killed: set[int] = set()
        self._seed = seed
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._sent: Counter[tuple[str, int]] = Counter()
        self._happened: Counter[int] = Counter()

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that were not killed."""
        return [node_id for node_id in self.other.get_node_ids() if node_id not in self.killed]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and return the replies, with the faults applied."""
        with self._lock:  # strategies with configure_fit send from several threads
            batch = [(message, self._hits(message)) for message in messages]
            replies: list[Message] = []
            sent: list[Message] = []
            for message, hits in batch:
                if error := self._error(message, hits):
                    replies.append(error)
                elif "drop_request" not in hits:
                    spoilt = "corrupt_request" in hits
                    sent.append(self._spoilt_copy(message) if spoilt else message)
            is_shuffled = any("reorder" in hits for _, hits in batch)
            if is_shuffled:
                sent = self._shuffled(sent)
        answers = list(self.other.send_and_receive(sent, timeout=timeout))
        with self._lock:
            hits_by_id = {message.metadata.message_id: hits for message, hits in batch}
            for answer in answers:
                hits = hits_by_id[answer.metadata.reply_to_message_id]
                if "drop_reply" not in hits:
                    spoilt = "corrupt_reply" in hits and answer.has_content()
                    replies.append(self._spoilt_copy(answer) if spoilt else answer)
            return self._shuffled(replies) if is_shuffled else replies

    def _hits(self, message: Message) -> frozenset[FaultKind]:
        """Draw which faults hit a message."""
        stage, node_id = stage_of(message), message.metadata.dst_node_id
        number = self._sent[stage, node_id]
        self._sent[stage, node_id] += 1
        hits: set[FaultKind] = set()
        for position, fault in enumerate(self.faults):
            spent = fault.times is not None and self._happened[position] >= fault.times
            if stage not in fault.struck or spent:
                continue
            path = (node_id,) if fault.same_nodes else (stage, node_id, number)
            if generator(self._seed, "fault", position, *path).random() < fault.share:
                self._happened[position] += 1
                self.injected[fault.kind, stage] += 1
                hits.add(fault.kind)
        return frozenset(hits)

    def _error(self, message: Message, hits: frozenset[FaultKind]) -> Message | None:
        """Return the error that comes back in place of a reply, if the node sees no request."""
        node_id = message.metadata.dst_node_id
        if "kill" in hits:
            self.killed.add(node_id)
        if node_id not in self.killed and "error" not in hits:
            return None
        code = NODE_UNAVAILABLE if node_id in self.killed else CLIENT_APP_ERROR
        set_message_id(message, f"faulty-{next(self._numbers)}")
        return Message(Error(code, "A fault was injected."), reply_to=message)

    def _generator(self, purpose: str) -> np.random.Generator:
        return generator(self._seed, purpose, next(self._numbers))

    def _shuffled(self, things: Sequence[ThingT]) -> list[ThingT]:
        return [things[index] for index in self._generator("order").permutation(len(things))]

    def _spoilt_copy(self, message: Message) -> Message:
        """Return a message with the same id and one value of its configs or metrics changed."""
        spoilt, rng = delivered_copy(message), self._generator("spoil")
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
    """Return a different value of the same type."""
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
