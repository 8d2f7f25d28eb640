"""Decides when nodes are asked while clients train, so that training hardly ever waits for them.

A node handles one message at a time, and starts a process for each. If a request arrives while the
node trains, the node answers it right after training. If it is selected again, it then starts
training late. So an exchange is spread over two rounds: nodes that do not train in the first round
are asked in that round, and the others in the second. In both, training gets a head start: where
nodes share a host, the processes that train start before those that answer.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Condition
from time import monotonic
from typing import Final

from dubhe_flwr.adapter.transport import after
from dubhe_flwr.protocol import Batch, Plan, Replies

SendAhead = Callable[[Batch, Callable[[], bool]], Replies]
"""Sends a batch and returns the replies that came before the function returned True."""

_HEAD_START: Final = 1 / 3  # part of a round's time


class StoppedError(Exception):
    """Ends the thread that sends, between two batches."""


class Pacing:
    """Sends batches in one thread while another one reports which round is in training.

    Parameters
    ----------
    timeout : float or None
        Seconds to wait for the replies to a batch. They count from the next round, or at once if a
        round waits, since nodes answer only after what the app has sent them before.
    """

    # Guards all attributes. All objects share it, since a copy of a strategy cannot copy a lock.
    _changed = Condition()

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self.training = 0  # the round now in training
        self._trained: Collection[int] = ()  # the nodes that train in it
        self._began_at = monotonic()  # when its training began
        self._head_start = 0.0  # seconds from then on until other nodes are asked
        self._is_awaited = False  # whether a round waits for its plan
        self._is_stopped = False  # whether the sending thread has to end

    def training_begins(self, plan: Plan) -> None:
        """Note that a round's training messages are on their way."""
        with self._changed:
            now = monotonic()
            if self.training:
                self._head_start = _HEAD_START * (now - self._began_at)
            self.training, self._began_at = plan.server_round, now
            self._trained = plan.participants
            self._changed.notify_all()

    def stop(self) -> None:
        """Have the sending thread end before its next batch."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def resume(self) -> None:
        """Let a new sending thread begin."""
        with self._changed:
            self._is_stopped = False

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Send at once, since a round waits for its plan."""
        self._await(True)
        try:
            yield
        finally:
            self._await(False)

    def _await(self, is_awaited: bool) -> None:
        with self._changed:
            self._is_awaited = is_awaited
            self._changed.notify_all()

    def spread(self, batch: Batch, send: SendAhead) -> Replies:
        """Send a batch to the nodes that are not training now, and later to the others."""
        with self._changed:
            training, trained = self.training, frozenset(self._trained)
        replies = self._send_in_time(batch, batch.requests.keys() - trained, send)
        if later := batch.requests.keys() & trained:
            with self._changed:
                self._changed.wait_for(lambda: self.training != training or self._is_urgent())
            replies = {**replies, **self._send_in_time(batch, later, send)}
        return replies

    def _send_in_time(self, batch: Batch, nodes: Collection[int], send: SendAhead) -> Replies:
        """Send a batch to some of its nodes after the head start."""
        requests = {node: body for node, body in batch.requests.items() if node in nodes}
        if not requests:
            return {}
        with self._changed:
            head_start_left = self._began_at + self._head_start - monotonic()
            self._changed.wait_for(self._is_urgent, max(0.0, head_start_left))
        return self.send(Batch(batch.header, requests), send)

    def _is_urgent(self) -> bool:
        return self._is_awaited or self._is_stopped

    def send(self, batch: Batch, send: SendAhead) -> Replies:
        """Send a batch to all of its nodes now. Raises `StoppedError` if the thread has to end."""
        if self._is_stopped:
            raise StoppedError
        training = self.training
        is_late: Callable[[], bool] | None = None

        def is_over() -> bool:
            nonlocal is_late
            if is_late is None and (self._is_awaited or self.training != training):
                is_late = after(self._timeout)
            return self._is_stopped or (is_late is not None and is_late())

        replies = send(batch, is_over)
        if self._is_stopped:
            raise StoppedError
        return replies
