"""What the strategies of both APIs have: a wrapped strategy, a driver, and methods to override."""

from collections.abc import Sequence
from logging import ERROR, INFO, WARNING
from typing import Any, ClassVar

from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.adapter.driver import SelectionDriver, counted
from dubhe_flwr.adapter.transport import log
from dubhe_flwr.adapter.wrapped import check_wrapped, layers
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan, Selector, Stage

__all__ = ["Selecting"]


class Selecting:
    """Base of both `Selection` strategies.

    Subclasses may override `eligible` to leave nodes out of a round, `on_plan` to see who was
    chosen, and `log_plan` to change what the log says.
    """

    _configures: ClassVar[str]  # the method by which Flower knows a strategy of this API

    def __init__(self, strategy: Any, selector: Selector[Any], options: Options) -> None:
        super().__init__()
        check_wrapped(strategy, self._configures)
        for layer in layers(strategy):
            if isinstance(layer, Selecting):
                raise SettingsError(
                    f"{type(layer).__name__} selects already; wrap the strategy that it wraps."
                )
        self.strategy = strategy
        self.driver = SelectionDriver(self, strategy, selector, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strategy!r})"

    def __getattr__(self, name: str) -> Any:
        """Leave whatever else is asked for to the wrapped strategy."""
        if name.startswith("__") or name == "strategy":
            raise AttributeError(name)
        return getattr(self.strategy, name)

    @property
    def plan(self) -> Plan | None:
        """Who trains in the current round; None before the first one."""
        return self.driver.run.plan

    @property
    def rounds_done(self) -> int:
        """The last round that was completed."""
        return self.driver.run.rounds_done

    def rounds_left(self, num_rounds: int) -> int:
        """Return how many of a run's rounds are still to come, after taking up its checkpoint."""
        return self.driver.run.rounds_left(num_rounds)

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive for the next round to be the one that would have come.

        To be called between two rounds. The model is not part of it, nor is any key: the server
        has none. It is plain values that JSON takes, and arrays where the wrapped strategy keeps
        some: one of Flower's, or one with `state_dict` and `load_state_dict`.
        """
        return self.driver.run.state_dict()

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool = True) -> None:
        """Take up what `state_dict` returned; rounds are counted on from it.

        Parameters
        ----------
        saved : dict
            As it was returned.
        interrupted : bool (default: True)
            Whether nodes may have been asked for anything since. They refuse to answer the same
            request twice, so a new epoch then begins.

        Raises
        ------
        CheckpointError
            If the version is another one, a key is missing or unknown, or a value is unfit.
        """
        self.driver.run.load_state_dict(saved, interrupted=interrupted)

    def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
        """Return which of the nodes that are there may be chosen; the default is all of them."""
        del server_round
        return node_ids

    def on_plan(self, plan: Plan, seconds: float) -> None:
        """Take note of who was chosen, and of how long it took; the default does nothing."""

    def log_plan(self, plan: Plan, seconds: float) -> None:
        """Write to Flower's log what the selection did, and loudly what went wrong."""
        stages = {report.stage for report in plan.stages}
        if Stage.REGISTER in stages and not plan.fallback:
            nodes = counted(plan.num_registered, "node", "nodes")
            log(INFO, "dubhe: a new epoch: %s | %s", nodes, plan.rule)
            if len(plan.participants) == plan.num_registered:
                log(WARNING, "dubhe: all %s train: there is nothing to choose", nodes)
        for report in plan.stages:
            for reason, number in report.dropped.items():
                lost = counted(number, "reply", "replies")
                log(WARNING, "dubhe: %s: %s dropped: %s", report.stage, lost, reason)
        for note in plan.notes:
            log(WARNING, "dubhe: %s", note)
        if plan.fallback:
            log(
                ERROR,
                "dubhe: round %s was NOT selected by Dubhe: %s chosen at random",
                plan.server_round,
                counted(len(plan.participants), "client was", "clients were"),
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
