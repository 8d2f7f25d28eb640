"""The keyword arguments of the strategies, each declared once as a dataclass field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from os import PathLike

from dubhe_flwr.adapter.signatures import takes
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every selecting strategy, whatever its selector.

    Parameters
    ----------
    equal_weights : bool (default: False)
        Give all selected clients the same weight (eq. 1 of the paper), however many examples
        they report. By default, the wrapped strategy weights them as usual.
    expected_nodes : int, optional (default: the number of participants)
        Number of nodes to wait for before the first round, and before any round that finds fewer
        than `quorum` connected. The default is larger if the wrapped strategy's
        `min_available_nodes` or `min_available_clients` is.
    wait_timeout : float (default: 60)
        Seconds to wait for these nodes.
    stage_timeout : float, optional (default: 600)
        Seconds to wait for the replies to one batch. None means Flower's own limit, twelve hours.
        For a batch that is sent while clients train, the time counts from the next round.
    checkpoint_dir : str or Path, optional (default: none)
        Where to keep model, round and state after each round. A ServerApp started again with the
        same directory continues with the next round.
    on_selection : callable (Plan, float) -> mapping or None, optional (default: none)
        Called after each selection with the plan and the number of seconds that the round waited
        for it. If it returns a mapping, its entries are added to the round's metrics. Instead, a
        subclass may define a method of this name.
    """

    equal_weights: bool = Settings.equal_weights
    expected_nodes: int | None = None
    wait_timeout: float = 60.0
    stage_timeout: float | None = 600.0
    checkpoint_dir: str | PathLike[str] | None = None
    on_selection: Callable[[Plan, float], Mapping[str, float] | None] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.equal_weights, bool):
            raise SettingsError(f"equal_weights={self.equal_weights!r} must be True or False.")
        if not (isinstance(self.wait_timeout, Real) and 0.0 <= float(self.wait_timeout) < inf):
            raise SettingsError(
                f"wait_timeout={self.wait_timeout!r} must be a number of seconds, at least 0."
            )
        seconds = self.stage_timeout  # Flower reads 0 as 12 hours
        if seconds is not None and not (isinstance(seconds, Real) and 0.0 < float(seconds) < inf):
            raise SettingsError(
                f"stage_timeout={seconds!r} must be a number of seconds above 0, or None."
            )
        number = self.expected_nodes
        if number is not None and not (isinstance(number, Integral) and number >= 0):
            raise SettingsError(f"expected_nodes={number!r} must be a whole number, at least 0.")
        if not isinstance(self.checkpoint_dir, str | PathLike | None):
            raise SettingsError(
                f"checkpoint_dir={self.checkpoint_dir!r} must be the path of a folder."
            )
        if self.on_selection is not None and not takes(self.on_selection, None, 0.0):
            raise SettingsError(
                "on_selection must be a function of a Plan and a number of seconds, such as "
                "`lambda plan, seconds: print(plan.aliases)`."
            )


@dataclass(frozen=True, kw_only=True)
class DubheArguments(Options, Settings):
    """The keyword arguments of `Dubhe`: the fields of `Options` and `Settings`."""

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        Settings.__post_init__(self)

    def description(self) -> list[str]:
        """Return the lines that show an operator how Dubhe selects."""
        registration = f"Registration every {self.registration_interval} rounds"
        nodes = "real" if self.simulation is None else f"simulated, {self.simulation}"
        return [
            f"Rule: {self.rule.describe()}",
            f"Determination: {self.determined if self.determined.has_agent else 'none'}",
            f"{registration} | rounds in a draw: {self.rounds_per_draw}",
            f"Key: {self.key_bits} bits | smallest cohort: {self.min_cohort}",
            f"Nodes: {nodes} | seed: {self.seed}",
        ]
