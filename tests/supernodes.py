"""SuperNodes without processes; each answers its messages one after the other."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Error, Message

from dubhe_flwr.adapter._compat import NODE_UNAVAILABLE, set_message_id
from dubhe_flwr.adapter.messages import STAGES, stage_of
from dubhe_flwr.simulation import InProcessGrid


class SuperNodes(InProcessGrid):
    """A Grid that looks like Flower's own, behind which nodes come and go."""

    is_complete = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.pushed: list[tuple[threading.Thread, str]] = []  # thread and stage of each batch
        self.gone: set[int] = set()  # node ids of those that have left
        self.asked: list[int] = []  # node ids of those that got the last batch
        # Called with the stage before a batch is pushed, which is lost if it returns True.
        self.on_push: Callable[[str], bool | None] = lambda _stage: None
        self.on_pull: Callable[[], None] = lambda: None  # called before replies are pulled
        self._waiting: list[tuple[bool, Message]] = []

    def get_node_ids(self) -> Iterable[int]:
        return [node_id for node_id in self.contexts if node_id not in self.gone]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Queue the messages in the order in which they arrive."""
        batch = list(messages)
        stage = stage_of(batch[0]) if batch else ""
        self.asked = [message.metadata.dst_node_id for message in batch]
        is_lost = bool(self.on_push(stage))
        with self._lock:
            self.pushed.append((threading.current_thread(), stage))
            for message in batch:
                set_message_id(message, f"message-{next(self._message_numbers)}")
            self._waiting += [(is_lost, message) for message in batch]
        return [message.metadata.message_id for message in batch]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Let the nodes answer all queued messages, one after the other."""
        self.on_pull()
        with self._lock:
            for is_lost, message in self._waiting:
                error = Message(Error(NODE_UNAVAILABLE, "gone"), reply_to=message)
                is_gone = is_lost or message.metadata.dst_node_id in self.gone
                reply = error if is_gone else self._answer(message)
                self._replies[message.metadata.message_id] = reply
            self._waiting.clear()
        return super().pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return super().send_and_receive(messages, timeout=timeout)

    send_and_receive.__module__ = "flwr.fake"  # not a Grid of a user's, who may do more here

    @property
    def exchanges(self) -> list[tuple[str, str]]:
        """Name of the thread and stage of each batch of the protocol."""
        return [(thread.name, stage) for thread, stage in self.pushed if stage in STAGES]
