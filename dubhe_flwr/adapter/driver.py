"""Lets a selector choose who trains, round by round, over whatever carries its batches."""

import time
from collections.abc import Callable, Iterable, Sequence
from logging import INFO, WARNING
from typing import Any, Protocol, TypeVar

from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.adapter.resume import Run
from dubhe_flwr.adapter.transport import log
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch, Plan, Replies, Selector

__all__ = ["SelectionDriver", "counted"]

T = TypeVar("T")


class _Owner(Protocol):
    """The methods of a strategy that a selection calls."""

    def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]: ...
    def on_plan(self, plan: Plan, seconds: float) -> None: ...
    def log_plan(self, plan: Plan, seconds: float) -> None: ...


class SelectionDriver:
    """Selects for a strategy, its owner, which wraps another one.

    `metrics` tell of the last selection, for Flower's Result or History: clients, the share of all
    clients that trained so far in this process, seconds and bytes.
    """

    def __init__(
        self, owner: _Owner, wrapped: Any, selector: Selector[Any], options: Options
    ) -> None:
        self.selector = selector
        self.options = options
        self.expected_nodes = options.expected_nodes or selector.num_participants
        self.run = Run(wrapped, selector, options.checkpoint_dir)
        self._owner = owner
        self._override_logged = False
        self._trained: set[str] = set()
        self.metrics: dict[str, int | float] = {}

    def plan_round(
        self,
        server_round: int,
        present: Callable[[], Sequence[int]],
        send: Callable[[Batch, float | None], Replies],
    ) -> Plan:
        """Select for a round, and return the plan, with the round as the run counts it.

        Parameters
        ----------
        server_round : int
            As Flower counts it.
        present : callable () -> sequence of int
            Returns the ids of the nodes that are there.
        send : callable (Batch, float or None) -> replies
            Sends a batch, and waits at most so many seconds for the replies.
        """
        run = self.run
        server_round = run.begin_round(server_round)
        if run.plan is None:
            self._wait_for_nodes(present)
        begin = time.perf_counter()
        node_ids = present()
        eligible: Sequence[int] | None = self._owner.eligible(server_round, node_ids)
        if eligible is None:
            raise SettingsError("eligible() returned nothing; let it return node ids.")
        run.state, outcome = self.selector.begin_round(run.state, server_round, node_ids, eligible)
        while isinstance(outcome, Batch):
            run.before_sending()
            replies = send(outcome, self.options.stage_timeout)
            run.state, outcome = self.selector.step(run.state, replies)
        run.plan = outcome
        seconds = time.perf_counter() - begin
        self._trained.update(outcome.aliases)
        known = max(outcome.num_registered, len(self._trained))
        self.metrics = {
            "selection-clients": len(outcome.participants),
            "selection-coverage": len(self._trained) / max(1, known),
            "selection-seconds": seconds,
            "selection-bytes": outcome.bytes_up + outcome.bytes_down,
        }
        self._owner.log_plan(outcome, seconds)
        self._owner.on_plan(outcome, seconds)
        if self.options.on_selection is not None:
            self.options.on_selection(outcome, seconds)
        return outcome

    def in_order(self, replies: Iterable[T], node_id_of: Callable[[T], int]) -> list[T]:
        """Return replies in the order of the plan, on which floating-point sums depend."""
        participants = self.run.plan.participants if self.run.plan is not None else ()
        places = {node_id: place for place, node_id in enumerate(participants)}
        return sorted(replies, key=lambda reply: places.get(node_id_of(reply), len(places)))

    def completed(self, server_round: int) -> int:
        """Return which round of the run was trained."""
        self.run.rounds_done = self.run.first + server_round
        return self.run.rounds_done

    def to_evaluate(self) -> tuple[int, ...] | None:
        """Return the nodes on which to evaluate; None for all of them."""
        if self.options.evaluate_on == "all" or self.run.plan is None:
            return None
        return self.run.plan.participants

    def log_override(self, num_selected: int) -> None:
        """Say once that settings of the wrapped strategy do not count."""
        if not self._override_logged:
            log(
                INFO,
                "dubhe: fraction or minimum of the wrapped strategy is overridden: all %s selected "
                "clients take part",
                num_selected,
            )
        self._override_logged = True

    def _wait_for_nodes(self, present: Callable[[], Sequence[int]]) -> None:
        """Wait until the expected nodes are there, but not for ever."""
        expected, seconds = self.expected_nodes, self.options.wait_timeout
        deadline = time.monotonic() + seconds
        if (there := len(present())) < expected:
            nodes = counted(expected, "node", "nodes")
            log(INFO, "dubhe: waiting up to %.0f s for %s; %s there so far", seconds, nodes, there)
        while there < expected and time.monotonic() <= deadline:
            time.sleep(0.2)
            there = len(present())
        if there < expected:
            log(
                WARNING,
                "dubhe: %s of %s expected nodes came within %.0f s; going on with them",
                there,
                expected,
                seconds,
            )


def counted(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun."""
    return f"{number} {singular if number == 1 else plural}"
