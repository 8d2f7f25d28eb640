"""Times each exchange of the first selection, and an empty message to the same nodes before it.

A SuperNode asks for messages every few seconds, and counts from its last message. So before the
timed empty message the nodes get another one: then both it and the exchange wait equally long.
"""

import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, cast

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from dubhe_flwr.adapter.messages import STAGES, stage_of
from dubhe_flwr.adapter.transport import NoticingGrid, after, replies_of

_TIMEOUT: Final = 600.0


class Stopwatch(NoticingGrid):
    """Forwards everything to Flower's Grid, and times what comes before the first training.

    Attributes
    ----------
    exchanges : list of dict
        Stage, number of nodes and seconds of each exchange, and the seconds that an empty message
        to the same nodes took right before it.
    steps : list of list of float
        The seconds of each step of an empty message: until its process starts, until the process
        begins to import the app, until the app is imported, and until the server has the reply.
    """

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid, lambda _number: None)
        self.exchanges: list[dict[str, Any]] = []
        self.steps: list[list[float]] = []
        self._is_over = False
        self._pushed = 0.0
        self._replies: list[tuple[float, Message]] = []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages; send empty ones first if they belong to the first selection."""
        batch = list(messages)
        if self._is_over:
            return super().push_messages(batch)
        if self.exchanges:
            self.exchanges[-1]["seconds"] = self._seconds()
        stage = stage_of(batch[0])
        if stage not in STAGES:
            self._is_over = True
            return super().push_messages(batch)
        nodes = [message.metadata.dst_node_id for message in batch]
        for _ in range(2):  # the second message comes right after a message, as the exchange will
            self._begin()
            replies_of(self, super().push_messages(_empty_messages(nodes)), after(_TIMEOUT))
        self.exchanges.append({"stage": stage, "nodes": len(nodes), "empty": self._seconds()})
        self.steps += [self._steps(*replied) for replied in self._replies]
        self._begin()
        return super().push_messages(batch)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies, and note when they came."""
        pulled = list(self.other.pull_messages(message_ids))
        self._replies += [(time.time(), reply) for reply in pulled]
        return pulled

    def _begin(self) -> None:
        self._pushed, self._replies = time.time(), []

    def _seconds(self) -> float:
        """Return how long the last reply took."""
        return max(replied for replied, _ in self._replies) - self._pushed

    def _steps(self, replied: float, reply: Message) -> list[float]:
        told = reply.content.config_records["times"]
        steps = [cast("float", told[name]) for name in ("started", "began", "imported")]
        times = [self._pushed, *steps, replied]
        return [end - begin for begin, end in pairwise(times)]


def _empty_messages(nodes: list[int]) -> list[Message]:
    return [Message(RecordDict(), node, "query.empty") for node in nodes]
