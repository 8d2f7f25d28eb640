"""Plans later rounds in a thread while the clients of an earlier one train.

Theory of operation. Each call of a selector takes a state and returns the next one, so the states
form a chain. The thread extends this chain:

| event | what happens |
|---|---|
| the training messages of a round are pushed | the thread looks for the first round that needs an exchange |
| that round is not due yet | nothing is kept, and the thread ends |
| it is due | the rounds before it, which need no exchange, are planned; then its batches are sent |
| it is planned | it is kept until its turn comes, and the thread looks for the next one |
| it fails, or would be selected at random | the log says so, the thread ends, and the round is selected when its turn comes |

Only one exchange is ever under way: to select a round that is not planned, the main thread first
stops the planning thread.

`pacing` spreads an exchange over two rounds. A registration is expected to take seven exchanges,
and a draw two, so planning begins fifteen or five rounds before the round that needs them. If that
round is closer than this, as it is early in an epoch, some exchanges take only one round.
"""  # noqa: E501 - a table

from collections.abc import Callable, Collection, Mapping
from itertools import count
from logging import INFO, WARNING
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

from dubhe_flwr.adapter.exchanges import Exchanges, counted
from dubhe_flwr.adapter.messages import log
from dubhe_flwr.adapter.pacing import Pacing, SendAhead, StoppedError
from dubhe_flwr.errors import DubheError, QuorumError
from dubhe_flwr.protocol import Batch, Plan, Replies, Stage
from dubhe_flwr.protocol.selector import Selector

Present = Callable[[], Collection[int]]
"""Returns the ids of the connected nodes."""

_NOT_PLANNED: Final = (
    "dubhe: round %s could not be planned while clients train, and is selected when it begins: %s"
)
_SILENT_SECONDS: Final = 1.0  # seconds that a round waits before the log says so
_IN_A_REGISTRATION: Final = 7  # exchanges
_IN_A_DRAW: Final = 2


class PlannedRound(NamedTuple):
    """A round planned ahead: its plan, and the selector's state after it."""

    plan: Plan
    state: Any


class PlansAhead:
    """The rounds planned ahead, and the thread that plans them."""

    # Guards all attributes. All planners share it, since a copy of a strategy cannot copy a lock.
    _changed = Condition()

    def __init__(self, selector: Selector[Any], timeout: float | None) -> None:
        self._selector = selector
        self._pacing = Pacing(timeout)
        self._to_push = 0  # training messages still to be pushed before planning begins
        self._planned: dict[int, PlannedRound] = {}
        self._end: tuple[int, Any] | None = None  # the last round in the chain, and its state
        self._is_running = False
        self._has_failed = False  # whether the round after the last one in the chain failed
        self._waits_for = ""

    def expect(self, num_messages: int) -> None:
        """Note how many training messages of a round are about to be pushed."""
        with self._changed:
            self._to_push = num_messages

    def all_pushed(self, num_messages: int) -> bool:
        """Count pushed messages, and return whether the last expected one is among them."""
        with self._changed:  # strategies with configure_fit send from several threads
            was_waiting = self._to_push > 0
            self._to_push -= num_messages
            return was_waiting and self._to_push <= 0

    def begin(
        self, plan: Plan, last_round: int | None, state: Any, present: Present, send: SendAhead
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
        self._pacing.training_begins(plan)
        with self._changed:
            if self._is_running or self._has_failed:
                return
            if self._end is None:
                self._end = plan.server_round, state
            self._is_running = True
        self._pacing.resume()
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
            if not is_known():
                with self._pacing.hurry():
                    if not self._changed.wait_for(is_known, _SILENT_SECONDS):
                        log(INFO, "dubhe: round %s waits until %s", server_round, self._waits_for)
                        self._changed.wait_for(is_known)
            return self._planned.pop(server_round, None)

    def withdraw(self, state: Any) -> Any:
        """Discard all plans; return the state at the end of the chain, or the given one."""
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._is_running)
            if self._end is not None:
                _, state = self._end
            self._end, self._has_failed = None, False
            self._planned.clear()
        return state

    def stop(self) -> None:
        """Tell the thread to end, without waiting for it."""
        self._pacing.stop()

    def _run(self, last_round: int | None, present: Present, send: SendAhead) -> None:
        """Plan round after round until none is due."""
        try:
            while True:
                training = self._pacing.training
                due = self._next_due(training, last_round, present())
                if due is not None:
                    self._plan(*due, send)
                elif self._may_end(training):
                    return
        except BaseException as error:  # noqa: BLE001 - nothing else catches a thread's errors
            self._ended(error)

    def _ended(self, error: BaseException) -> None:
        """Log why a round was not planned, and notify all waiting threads."""
        with self._changed:
            if not isinstance(error, StoppedError):
                last = self._end[0] if self._end else self._pacing.training
                log(WARNING, _NOT_PLANNED, last + 1, str(error) or type(error).__name__)
                self._has_failed = True
            self._is_running = False
            self._changed.notify_all()

    def _may_end(self, training: int) -> bool:
        """End the thread unless training has begun for another round."""
        with self._changed:
            self._is_running = training != self._pacing.training
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
        farthest = training + 1 + 2 * _IN_A_REGISTRATION
        for server_round in range(last + 1, min(farthest, last_round or farthest) + 1):
            try:
                after, outcome = self._selector.begin_round(state, server_round, here, here)
            except DubheError:
                return None  # if it still fails in its own round, it is reported then
            if isinstance(outcome, Batch):
                if server_round > training + 1 + 2 * _num_exchanges(outcome):
                    return None
                self._keep(server_round - 1, state, planned)
                return server_round, after, outcome
            if outcome.fallback:
                return None
            state = after
            planned[server_round] = PlannedRound(outcome, state)
        return None

    def _plan(self, server_round: int, state: Any, batch: Batch, send: SendAhead) -> None:
        """Plan a round that needs exchanges."""
        exchanges_left = count(_num_exchanges(batch), -1)

        def exchange(batch: Batch) -> Replies:
            nodes = counted(len(batch.requests), "node has", "nodes have")
            self._waits_for = f"{nodes} answered {batch.header.stage}"
            rounds_left = server_round - self._pacing.training - 1
            may_spread = rounds_left > max(1, next(exchanges_left))
            return (self._pacing.spread if may_spread else self._pacing.send)(batch, send)

        exchanges = Exchanges(self._selector, state)
        try:
            plan = exchanges.finish(batch, exchange)
        finally:
            self._keep(server_round - 1, exchanges.state, {})
        if plan.fallback:  # the round gets another chance when its turn comes
            raise QuorumError(" ".join(plan.notes))
        planned = {server_round: PlannedRound(plan, exchanges.state)}
        self._keep(server_round, exchanges.state, planned)

    def _keep(self, last: int, state: Any, planned: Mapping[int, PlannedRound]) -> None:
        """Extend the chain of states, and keep the rounds planned."""
        with self._changed:
            self._end = last, state
            self._planned.update(planned)
            self._changed.notify_all()


def _num_exchanges(first: Batch) -> int:
    """Return how many exchanges a selection that begins with this batch usually takes."""
    return _IN_A_REGISTRATION if first.header.stage == Stage.JOIN else _IN_A_DRAW
