"""Injects faults between server and nodes, to test apps and strategies that use Dubhe."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from flwr.app import Error, Message
from flwr.serverapp import Grid

from dubhe_flwr.adapter._compat import (
    CLIENT_APP_ERROR,
    NODE_UNAVAILABLE,
    delivered_copy,
    readdressed,
    set_message_id,
)
from dubhe_flwr.adapter.messages import STAGES, stage_of
from dubhe_flwr.adapter.transport import ForwardingGrid
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError

__all__ = ["Fault", "FaultKind", "FaultyGrid"]

ThingT = TypeVar("ThingT")

FaultKind = Literal[
    "drop_request", "drop_reply", "error", "kill", "delay", "duplicate", "reorder",
    "corrupt_request", "corrupt_reply", "replay_request", "replay_reply",
]  # fmt: skip

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
        - "delay": the reply comes in a later exchange of the protocol;
        - "duplicate": the node gets the request twice, and the server gets two replies;
        - "reorder": the messages of the batch, and their replies, are shuffled;
        - "corrupt_request", "corrupt_reply": one value of the message's records is changed;
        - "replay_request": the first request of this stage is delivered again before this one;
        - "replay_reply": the first reply of this stage replaces this one.
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
    >>> Fault("kill", stages="keygen", times=1).struck
    ('keygen',)
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


class _Sent(NamedTuple):
    """A message on its way (the server's own, a duplicate or an old one) and what hits it."""

    message: Message
    of: Message
    hits: frozenset[FaultKind]
    is_old: bool = False


class FaultyGrid(ForwardingGrid):
    """Forwards messages to another Grid, with faults.

    Faults apply to messages sent with `send_and_receive`, which Dubhe and Flower's strategies use.
    Late and duplicate replies are delivered only for stages of the protocol, since an app does not
    wait for late replies. Arrays are never corrupted. `injected` counts the faults by kind and
    stage, and `killed` holds the nodes that left.

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
        replays = (fault.struck for fault in self.faults if fault.kind.startswith("replay"))
        self._replayed = frozenset(chain.from_iterable(replays))
        self._seed = seed
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._sent: Counter[tuple[str, int]] = Counter()
        self._happened: Counter[int] = Counter()
        self._first: dict[tuple[str, int], tuple[Message, Message]] = {}
        self._late: list[Message] = []

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
            if any(stage_of(message) in STAGES for message, _ in batch):  # not with the app's own
                replies, self._late = self._late, []
            sent = [out for message, hits in batch for out in self._send(message, hits, replies)]
            shuffled = any("reorder" in hits for _, hits in batch)
            if shuffled:
                sent = self._shuffled(sent)
        answers = list(self.other.send_and_receive([out.message for out in sent], timeout=timeout))
        with self._lock:
            by_id = {out.message.metadata.message_id: out for out in sent}
            for answer in answers:
                replies += self._receive(answer, by_id[answer.metadata.reply_to_message_id])
            return self._shuffled(replies) if shuffled else replies

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

    def _send(
        self, message: Message, hits: frozenset[FaultKind], replies: list[Message]
    ) -> Iterator[_Sent]:
        """Yield the messages that reach the node; errors that replace them join the replies."""
        key = stage_of(message), message.metadata.dst_node_id
        if "kill" in hits:
            self.killed.add(key[1])
        if key[1] in self.killed:
            replies.append(self._error(message, NODE_UNAVAILABLE))
        elif "drop_request" in hits:
            return
        elif "error" in hits:
            replies.append(self._error(message, CLIENT_APP_ERROR))
        else:
            if "replay_request" in hits and key in self._first:
                yield _Sent(_twin(self._first[key][0]), message, hits, is_old=True)
            spoilt = "corrupt_request" in hits
            yield _Sent(
                _spoilt_copy(message, self._generator("spoil")) if spoilt else message,
                message,
                hits,
            )
            if "duplicate" in hits:
                yield _Sent(_twin(message), message, hits)

    def _receive(self, answer: Message, sent: _Sent) -> Iterator[Message]:
        """Yield the replies that reach the server for an answer."""
        message, hits = sent.of, sent.hits
        key = stage_of(message), message.metadata.dst_node_id
        is_own = sent.message.metadata is message.metadata
        if "drop_reply" in hits or not (is_own or key[0] in STAGES):
            return
        if is_own and answer.has_content():
            if key[0] in self._replayed:
                self._first.setdefault(key, (_twin(message), _twin(answer)))
            if "corrupt_reply" in hits:
                answer = _spoilt_copy(answer, self._generator("spoil"))
            if "replay_reply" in hits:
                answer = _twin(self._first[key][1])
        asked = message.metadata.message_id
        if not sent.is_old and answer.metadata.reply_to_message_id != asked:
            answer = readdressed(answer, asked)
        if "delay" not in hits:
            yield answer
        elif key[0] in STAGES:
            self._late.append(answer)

    def _error(self, message: Message, code: int) -> Message:
        if not message.metadata.message_id:
            set_message_id(message, f"faulty-{next(self._numbers)}")
        return Message(Error(code, "A fault was injected."), reply_to=message)

    def _generator(self, purpose: str) -> np.random.Generator:
        return generator(self._seed, purpose, next(self._numbers))

    def _shuffled(self, things: Sequence[ThingT]) -> list[ThingT]:
        return [things[index] for index in self._generator("order").permutation(len(things))]


def _twin(message: Message) -> Message:
    """Return a message with the same content and no id."""
    return readdressed(delivered_copy(message) if message.has_content() else message)


def _spoilt_copy(message: Message, rng: np.random.Generator) -> Message:
    """Return a message with the same id and one value of its configs or metrics changed."""
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
