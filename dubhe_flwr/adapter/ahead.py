"""Plans coming rounds in a thread while the clients of an earlier round train.

Theory of operation. A node handles one message at a time, and starts a process for each. If a
request arrives while the node trains, the node answers it right after training. If it is selected
again, it then starts training late. So each exchange is spread over two rounds: nodes that do not
train in the first round are asked in that round, and the others in the second. In both, training
gets a head start: where nodes share a host, the processes that train start before those that
answer. If selecting a round takes n exchanges, planning begins 2n + 1 rounds before that round's
training begins. If that round is closer than this, as it is early in an epoch, some exchanges take
only one round. The exchanges for the first round of an epoch include the registration.

| event | what happens |
|---|---|
| the training messages of a round are pushed | the thread looks for the first round that needs an exchange |
| that round is not due yet | nothing is kept, and the thread ends |
| it is due | the rounds before it, which need no exchange, are planned; then its batches are sent |
| it is planned | it is kept until its turn comes, and the thread looks for the next one |
| it fails, or would be selected at random | the thread ends, and the round is selected when its turn comes |

Each call of a selector takes a state and returns the next one, so the states form a chain. The
thread extends this chain. Only one exchange is ever under way: to select a round that is not
planned, the main thread first stops the planning thread.
"""  # noqa: E501 - a table

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from logging import INFO
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, Final

from dubhe_flwr.adapter.exchanges import Exchanges, counted
from dubhe_flwr.adapter.messages import log
from dubhe_flwr.errors import DubheError, QuorumError
from dubhe_flwr.protocol import Batch, Plan, Replies, Stage
from dubhe_flwr.protocol.log import logger
from dubhe_flwr.protocol.selector import Selector

Present = Callable[[], Collection[int]]
"""Returns the ids of the connected nodes."""
SendAhead = Callable[[Batch, Callable[[], bool]], Replies]
"""Sends a batch and returns the replies that came before the function returned True."""

_NOT_PLANNED: Final = (
    "dubhe: this round was not planned while clients trained, and is selected now: %s"
)
_SILENT_SECONDS: Final = 1.0  # seconds that a round waits before the log says so
_HEAD_START: Final = 1 / 3  # part of a round's time
_DRAWS: Final = {Stage.PARTICIPATE, Stage.SETTLE}  # the last of these exchanges has the draws
_ASSUMED_EXCHANGES: Final = 2  # exchanges assumed for a kind of selection that has not happened yet


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """A round planned ahead: its plan, the selector's state after it, and its warnings."""

    plan: Plan
    state: Any
    warnings: Sequence[str] = ()


class _StoppedError(Exception):
    """Ends the thread between two batches."""


class PlansAhead:
    """The rounds planned ahead, and the thread that plans them."""

    def __init__(self, selector: Selector[Any]) -> None:
        self._selector = selector
        self._num_exchanges: dict[str, int] = {}  # of the latest selection, by its first stage
        self._changed = Condition()  # guards everything below
        self._stop = Event()
        self._planned: dict[int, PlannedRound] = {}
        self._end: tuple[int, Any] | None = None  # the last round in the chain, and its state
        self._training = 0  # the round now in training
        self._trained: Collection[int] = ()  # the nodes that train in it
        self._began_at = monotonic()  # when its training began
        self._head_start = 0.0  # seconds from then on until other nodes are asked
        self._is_awaited = False  # whether a round waits for its plan
        self._is_running = False
        self._failure: Sequence[str] = ()  # warnings that say why planning failed
        self._warnings: list[str] = []  # of the round that the thread plans now
        self._waits_for = ""

    def learn(self, plan: Plan) -> None:
        """Remember how many exchanges a selection took."""
        stages = [report.stage for report in plan.stages]
        if plan.fallback or not stages:
            return
        self._num_exchanges[stages[0]] = len(stages)
        for number, stage in enumerate(reversed(stages), 1):
            if stage in _DRAWS:
                self._num_exchanges[Stage.PARTICIPATE] = number
                return

    def begin(
        self,
        plan: Plan,
        last_round: int | None,
        state: Any,
        present: Present,
        send: SendAhead,
    ) -> None:
        """Plan what is due while a round's clients train.

        Parameters
        ----------
        plan : Plan
            The round whose clients are training.
        last_round : int, optional
            The last round of the run, if known.
        state : object
            The selector's state after that round, where the chain begins.
        present, send
            How to list and reach the nodes.
        """
        with self._changed:
            now = monotonic()
            if 0 < self._training == plan.server_round - 1:  # not if another run begins
                self._head_start = _HEAD_START * (now - self._began_at)
            self._training, self._began_at = plan.server_round, now
            self._trained = plan.participants
            self._changed.notify_all()
            if self._is_running or self._failure:
                return
            if self._end is None:
                self._end = plan.server_round, state
            self._is_running = True
            self._stop.clear()
        arguments = (last_round, present, send)
        thread = Thread(target=self._run, args=arguments, name="dubhe-ahead", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._ended(error)

    def take(self, server_round: int) -> PlannedRound | None:
        """Return a round planned ahead, waiting for it if its exchanges are under way."""

        def is_known() -> bool:
            return server_round in self._planned or not self._is_running

        with self._changed:
            self._is_awaited = not is_known()
            self._changed.notify_all()
            if not self._changed.wait_for(is_known, _SILENT_SECONDS):
                log(INFO, "dubhe: round %s waits until %s", server_round, self._waits_for)
                self._changed.wait_for(is_known)
            self._is_awaited = False
            return self._planned.pop(server_round, None)

    def withdraw(self, server_round: int, state: Any) -> Any:
        """Discard all plans; return the state at the end of the chain, or the given one.

        `server_round` is selected next. If planning it has failed, the log says why.
        """
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._is_running)
            last, state = self._end or (server_round, state)
            for line in self._failure if server_round == last + 1 else ():
                logger.warning(line)
            self._end, self._failure, self._warnings = None, (), []
            self._planned.clear()
        return state

    def stop(self) -> None:
        """Tell the thread to end, without waiting for it."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def _run(self, last_round: int | None, present: Present, send: SendAhead) -> None:
        """Plan round after round until none is due."""
        try:
            while True:
                self._warnings = []
                training = self._training
                due = self._next_due(training, last_round, present())
                if due is not None:
                    self._plan(*due, send)
                elif self._may_end(training):
                    return
        except BaseException as error:  # noqa: BLE001 - nothing else catches a thread's errors
            self._ended(error)

    def _ended(self, error: BaseException) -> None:
        """Notify all waiting threads that this one has ended, and keep warnings that say why."""
        with self._changed:
            self._is_running = False
            if not isinstance(error, _StoppedError):
                reason = str(error) or type(error).__name__
                self._failure = (*self._warnings, _NOT_PLANNED % reason)
            self._changed.notify_all()

    def _may_end(self, training: int) -> bool:
        """End the thread unless training has begun for another round."""
        with self._changed:
            self._is_running = training != self._training
            self._changed.notify_all()
            return not self._is_running

    def _next_due(
        self, training: int, last_round: int | None, here: Collection[int]
    ) -> tuple[int, Any, Batch] | None:
        """Return the first round that needs an exchange, if it is due, with state and batch.

        The rounds before it are kept as planned.
        """
        last, state = self._end or (training, None)
        planned: dict[int, PlannedRound] = {}
        farthest = training + 1 + 2 * max(self._num_exchanges.values(), default=_ASSUMED_EXCHANGES)
        for server_round in range(last + 1, min(farthest, last_round or farthest) + 1):
            try:
                after, outcome = self._selector.begin_round(state, server_round, here, here)
            except DubheError:
                return None  # if it still fails in its own round, it is reported then
            if isinstance(outcome, Batch):
                if server_round > training + 1 + 2 * self._exchanges_of(outcome):
                    return None
                self._keep(server_round - 1, state, planned)
                return server_round, after, outcome
            if outcome.fallback:
                return None
            state = after
            planned[server_round] = PlannedRound(outcome, state)
        return None

    def _exchanges_of(self, first: Batch) -> int:
        """Return the number of exchanges that a selection took the last time."""
        return self._num_exchanges.get(first.header.stage, _ASSUMED_EXCHANGES)

    def _plan(self, server_round: int, state: Any, batch: Batch, send: SendAhead) -> None:
        """Plan a round that needs exchanges."""
        exchanges_left = count(self._exchanges_of(batch), -1)

        def exchange(batch: Batch) -> Replies:
            nodes = counted(len(batch.requests), "node has", "nodes have")
            self._waits_for = f"{nodes} answered {batch.header.stage}"
            rounds_left = server_round - self._training - 1
            may_spread = rounds_left > max(1, next(exchanges_left))
            return (self._spread if may_spread else self._send)(batch, send)

        warnings = self._warnings
        exchanges = Exchanges(self._selector, state, warnings.append)
        last, planned = server_round - 1, dict[int, PlannedRound]()
        try:
            plan = exchanges.finish(batch, exchange)
            if not plan.fallback:
                last = server_round
                planned[last] = PlannedRound(plan, exchanges.state, warnings)
        finally:
            self._keep(last, exchanges.state, planned)
        if plan.fallback:  # the round gets another chance when its turn comes
            raise QuorumError(" ".join(plan.notes))
        self.learn(plan)

    def _spread(self, batch: Batch, send: SendAhead) -> Replies:
        """Send a batch to the nodes that are not training now, and next round to the others."""
        with self._changed:
            training, trained = self._training, frozenset(self._trained)

        def may_go_on() -> bool:
            return training != self._training or self._is_urgent()

        def send_to(nodes: Collection[int]) -> Replies:
            requests = {node: body for node, body in batch.requests.items() if node in nodes}
            if not requests:
                return {}
            with self._changed:
                head_start_left = self._began_at + self._head_start - monotonic()
                self._changed.wait_for(self._is_urgent, max(0.0, head_start_left))
            return self._send(Batch(batch.header, requests), send)

        replies = send_to(batch.requests.keys() - trained)
        if later := batch.requests.keys() & trained:
            with self._changed:
                self._changed.wait_for(may_go_on)
            replies = {**replies, **send_to(later)}
        return replies

    def _is_urgent(self) -> bool:
        """Return whether a round waits for its plan, or the thread has to end."""
        return self._is_awaited or self._stop.is_set()

    def _send(self, batch: Batch, send: SendAhead) -> Replies:
        """Send a batch to all of its nodes, unless the thread has to end."""
        if self._stop.is_set():
            raise _StoppedError
        replies = send(batch, self._stop.is_set)
        if self._stop.is_set():
            raise _StoppedError
        return replies

    def _keep(self, last: int, state: Any, planned: Mapping[int, PlannedRound]) -> None:
        """Extend the chain of states, and keep the rounds planned."""
        with self._changed:
            self._end = last, state
            self._planned.update(planned)
            self._changed.notify_all()
