"""What wrapping a strategy means, in either API: select, take note, leave the rest alone."""

import time
from collections.abc import Callable, Sequence
from logging import ERROR, INFO, WARNING
from math import inf
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from dubhe_flwr.adapter.exchange import counted, log
from dubhe_flwr.adapter.resuming import Resuming
from dubhe_flwr.adapter.wrapped import check_wrapped, layers
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch, Plan, Replies, Selector

__all__ = ["EvaluateOn", "Selecting"]

EvaluateOn = Literal["all", "selected"]


class Selecting(Resuming):
    """Base of both `Selection` strategies: drives a selector and remembers its last plan.

    Subclasses may override `eligible` to leave nodes out of a round, `on_plan` to see who was
    chosen, and `log_plan` and `description` to change what the log says.

    Parameters
    ----------
    strategy : Strategy
        The strategy that trains and aggregates.
    selector : Selector
        How to choose; `Dubhe` brings its own.
    equal_weights : bool (default: True)
        Give all chosen clients the same weight (eq. 1 of the paper), whatever number of examples
        they report.
    evaluate_on : "all" or "selected" (default: "all")
        The nodes on which the wrapped strategy evaluates.
    expected_nodes : int, optional (default: as many as are selected)
        Nodes to wait for before the first round.
    wait_timeout : float (default: 60)
        Seconds to wait for them.
    stage_timeout : float, optional (default: 600)
        Seconds to wait for the replies to one batch; None waits for ever.
    checkpoint_dir : str or Path, optional (default: none)
        Where to keep model, round and state after each round. A ServerApp that is started again
        with the same directory goes on with the next round.

    Attributes
    ----------
    plan : Plan or None
        Who trains in the current round.
    """

    def __init__(
        self,
        strategy: Any,
        selector: Selector[Any],
        *,
        equal_weights: bool = True,
        evaluate_on: EvaluateOn = "all",
        expected_nodes: int | None = None,
        wait_timeout: float = 60.0,
        stage_timeout: float | None = 600.0,
        checkpoint_dir: str | Path | None = None,
    ) -> None:
        if evaluate_on not in get_args(EvaluateOn):
            raise SettingsError(
                f"evaluate_on={evaluate_on!r} must be one of {get_args(EvaluateOn)}."
            )
        for name, seconds in (("wait_timeout", wait_timeout), ("stage_timeout", stage_timeout)):
            for_ever = name == "stage_timeout" and seconds is None
            if not for_ever and not (isinstance(seconds, Real) and 0.0 <= seconds < inf):
                raise SettingsError(f"{name}={seconds!r} must be a number of seconds from 0 up.")
        if expected_nodes is not None and not (
            isinstance(expected_nodes, Integral) and expected_nodes >= 0
        ):
            raise SettingsError(
                f"expected_nodes={expected_nodes!r} must be a whole number from 0 up."
            )
        check_wrapped(strategy)
        for layer in layers(strategy):
            if isinstance(layer, Selecting):
                raise SettingsError(
                    f"{type(layer).__name__} selects already; wrap the strategy that it wraps."
                )
        method = "configure_train" if hasattr(type(self), "configure_train") else "configure_fit"
        if not hasattr(strategy, method):
            raise SettingsError(
                f"{type(strategy).__name__} of {type(strategy).__module__} has no {method}; "
                "dubhe_flwr.server wraps strategies of flwr.server, and dubhe_flwr.serverapp those "
                "of flwr.serverapp."
            )
        if not isinstance(checkpoint_dir, str | PathLike | None):
            raise SettingsError(f"checkpoint_dir={checkpoint_dir!r} must be the path of a folder.")
        super().__init__(strategy, selector, checkpoint_dir)
        self.equal_weights = equal_weights
        self.evaluate_on = evaluate_on
        self.expected_nodes = expected_nodes or selector.num_participants
        self.wait_timeout = wait_timeout
        self.stage_timeout = stage_timeout

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strategy!r})"

    def __getattr__(self, name: str) -> Any:
        """Leave whatever else is asked for to the wrapped strategy."""
        if name.startswith("__") or name == "strategy":
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
        """Return the nodes that may be chosen in this round; the default is all of them.

        Parameters
        ----------
        server_round : int
            The round.
        node_ids : sequence of int
            The nodes that are there.
        """
        del server_round
        return node_ids

    def on_plan(self, plan: Plan, seconds: float) -> None:
        """Take note of who was chosen; the default does nothing.

        Parameters
        ----------
        plan : Plan
            Who trains, and what the exchanges were.
        seconds : float
            Time that the selection took.
        """

    def log_plan(self, plan: Plan, seconds: float) -> None:
        """Write to Flower's log what the selection did, and loudly what went wrong."""
        for report in plan.stages:
            for reason, number in report.dropped.items():
                lost = counted(number, "reply", "replies")
                log(WARNING, "dubhe: %s: %s dropped: %s", report.stage, lost, reason)
        for note in plan.notes:
            log(WARNING, "dubhe: %s", note)
        if plan.fallback:
            chosen = counted(len(plan.participants), "client was", "clients were")
            log(
                ERROR,
                "dubhe: round %s was NOT selected by Dubhe: %s chosen at random",
                plan.server_round,
                chosen,
            )
            return
        log(
            INFO,
            "dubhe: %s of %s clients selected in %.2f s (from %s)",
            len(plan.participants),
            plan.num_registered,
            seconds,
            counted(plan.num_selections, "tentative selection", "tentative selections or groups"),
        )

    def description(self) -> list[str]:
        """Return the lines that tell an operator how the clients are selected."""
        number = f"Participants (K): {self.selector.num_participants}"
        weights = f"equal weights: {self.equal_weights}"
        return [f"{number} | {weights} | evaluation on: {self.evaluate_on}"]

    def _select(
        self, server_round: int, node_ids: Sequence[int], send: Callable[[Batch], Replies]
    ) -> Plan:
        begin = time.perf_counter()

        def exchange(batch: Batch) -> Replies:
            self._before_sending()
            return send(batch)

        eligible: Sequence[int] | None = self.eligible(server_round, node_ids)
        if eligible is None:
            raise SettingsError("eligible() returned nothing; let it return node ids.")
        self.state, outcome = self.selector.begin_round(
            self.state, server_round, node_ids, eligible
        )
        while isinstance(outcome, Batch):
            self.state, outcome = self.selector.step(self.state, exchange(outcome))
        seconds = time.perf_counter() - begin
        self.plan = outcome
        self.log_plan(outcome, seconds)
        self.on_plan(outcome, seconds)
        return outcome

    def _wait_for_nodes(self, num_available: Callable[[], int]) -> None:
        """Before the first round, wait until the expected nodes are there, but not for ever."""
        if self.plan is not None:
            return
        deadline = time.monotonic() + self.wait_timeout
        if (available := num_available()) < self.expected_nodes:
            log(
                INFO,
                "dubhe: waiting up to %.0f s for %s (there so far: %s)",
                self.wait_timeout,
                counted(self.expected_nodes, "node", "nodes"),
                available,
            )
        while (available := num_available()) < self.expected_nodes:
            if time.monotonic() > deadline:
                log(
                    WARNING,
                    "dubhe: %s of %s expected nodes came within %.0f s; going on with them",
                    available,
                    self.expected_nodes,
                    self.wait_timeout,
                )
                return
            time.sleep(0.2)

    def _position(self, node_id: int) -> int:
        """Return the place of a participant in the plan, in which its reply is aggregated.

        Floating-point sums depend on the order, and replies arrive in any.
        """
        participants = self.plan.participants if self.plan is not None else ()
        return participants.index(node_id) if node_id in participants else len(participants)
