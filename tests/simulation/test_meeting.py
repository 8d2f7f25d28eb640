"""Handlers that meet run one at a time, in order, and go on with what was made of their tasks."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from dubhe_flwr.simulation.meeting import hold_meeting, meet


def test_handlers_take_turns() -> None:
    """All come one after the other, the work is done once, and all go on in order."""
    happened: list[str] = []

    def handler(name: str) -> Callable[[], str]:
        def handle() -> str:
            happened.append(f"{name} begins")
            result = meet(lambda: name)
            happened.append(f"{name} gets {result}")
            return name

        return handle

    def work(tasks: list[str]) -> list[str]:
        happened.append("work")
        return [task.upper() for task in tasks]

    assert hold_meeting([handler("a"), handler("b")], work) == ["a", "b"]
    assert happened == ["a begins", "b begins", "work", "a gets A", "b gets B"]


def test_a_handler_without_a_task_keeps_nobody_waiting() -> None:
    """The others meet without it; where none has a task there is no work."""

    def work(tasks: list[int]) -> list[int]:
        return [sum(tasks)] * len(tasks)

    handlers: list[Callable[[], Any]] = [
        lambda: meet(lambda: 1),
        lambda: "absent",
        lambda: meet(lambda: 2),
    ]
    assert hold_meeting(handlers, work) == [3, "absent", 3]
    assert hold_meeting([lambda: "absent"], lambda tasks: 1 / 0) == ["absent"]  # type: ignore[return-value, arg-type]


@pytest.mark.parametrize("result", [ZeroDivisionError, None], ids=["raises", "brings nothing"])
def test_work_that_fails_is_left_to_the_handlers(result: Any) -> None:
    """No result is a result as well: each handler does its own task."""

    def work(tasks: list[int]) -> list[None]:
        if result is not None:
            raise result
        return [None] * len(tasks)

    assert hold_meeting([lambda: meet(lambda: 1) or "alone"] * 3, work) == ["alone"] * 3


def test_a_second_task_is_the_handlers_own() -> None:
    """The others have gone on by then."""

    def handle() -> tuple[int, None]:
        return meet(lambda: 1), meet(lambda: 2)

    assert hold_meeting([handle, handle], lambda tasks: tasks) == [(1, None)] * 2


def test_an_exception_ends_the_meeting_and_all_threads() -> None:
    """Handlers that wait are not left behind."""

    def fail() -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        hold_meeting([lambda: meet(lambda: 1), fail, lambda: meet(lambda: 1)], lambda tasks: tasks)
    assert threading.active_count() == before
