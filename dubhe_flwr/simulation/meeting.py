"""Handlers that wait for each other, so that their work can be done together.

A handler calls `meet` in the middle of its work and goes on with what was made of its task. Each
has a thread of its own, but only one runs at a time: handlers may share whatever handlers that run
one after the other may share.
"""

from collections.abc import Callable, Sequence
from logging import WARNING
from threading import Semaphore, Thread, current_thread
from typing import Any, Generic, TypeVar

from dubhe_flwr.adapter.transport import log

__all__ = ["Work", "hold_meeting", "meet"]

OutcomeT = TypeVar("OutcomeT")
Work = Callable[[list[Any]], Sequence[Any]]
"""Makes a result of each task; None leaves a task to its handler."""


class _AbandonedError(BaseException):
    """Ends a handler that waits for a result which nobody will bring."""


class _Member(Thread, Generic[OutcomeT]):
    """A handler that runs in turns: until it meets the others, and then to its end."""

    outcome: OutcomeT
    error: BaseException | None = None
    task: Any = None
    result: Any = None
    _abandoned = False

    def __init__(self, handler: Callable[[], OutcomeT]) -> None:
        super().__init__(daemon=True)
        self._handler = handler
        self._begin, self._end = Semaphore(0), Semaphore(0)
        self.start()

    def run(self) -> None:
        """Do the handler's work, in the turns that `take_turn` gives."""
        self._begin.acquire()
        try:
            if not self._abandoned:
                self.outcome = self._handler()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that holds the meeting
            self.error = error
        finally:
            self._end.release()

    def take_turn(self) -> None:
        """Let the handler run until it waits for the others or has ended."""
        self._begin.release()
        self._end.acquire()
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """End the handler if it waits, so that no thread is left behind."""
        self._abandoned = True
        self._begin.release()
        self.join()

    def wait(self, task: Any) -> Any:
        """Give the turn back until there is a result of the task."""
        self.task = task
        self._end.release()
        self._begin.acquire()
        if self._abandoned:
            raise _AbandonedError
        return self.result


def hold_meeting(handlers: Sequence[Callable[[], OutcomeT]], work: Work) -> list[OutcomeT]:
    """Run handlers one at a time, and work on the tasks that they bring to `meet` all at once.

    The work is done once, when each handler has brought its task or has ended without one. An
    exception of a handler is raised here; one of the work leaves all tasks to the handlers.

    >>> def squared(number):
    ...     return lambda: f"{number} squared is {meet(lambda: number)}"
    >>> hold_meeting([squared(2), squared(3)], lambda tasks: [task**2 for task in tasks])
    ['2 squared is 4', '3 squared is 9']
    """
    members = [_Member(handler) for handler in handlers]
    try:
        for member in members:
            member.take_turn()
        waiting = [member for member in members if member.task is not None]
        results = _results(work, [member.task for member in waiting])
        for member, result in zip(waiting, results, strict=True):
            member.result = result
            member.take_turn()
    finally:
        for member in members:
            member.abandon()
    return [member.outcome for member in members]


def _results(work: Work, tasks: list[Any]) -> Sequence[Any]:
    try:
        return work(tasks) if tasks else []
    except Exception as error:  # noqa: BLE001 - the handlers can do without
        log(WARNING, "dubhe: work was not done together (%s: %s)", type(error).__name__, error)
        return [None] * len(tasks)


def meet(task: Callable[[], Any]) -> Any:
    """Wait for the other handlers of the meeting, and return what was made of a task.

    It is None where the handler has to do the task itself: outside of a meeting and for a second
    task, which are not even made, and where the work failed.

    >>> meet(lambda: "alone") is None
    True
    """
    member = current_thread()
    if not isinstance(member, _Member) or member.task is not None:
        return None
    return member.wait(task())
