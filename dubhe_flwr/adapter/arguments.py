"""The keyword arguments of the strategies, each declared once as a dataclass field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from inspect import Signature, signature
from math import inf
from numbers import Integral, Real
from os import PathLike
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, get_args, overload

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan, Settings
from dubhe_flwr.rules import Paper, Prices

EvaluateOn = Literal["all", "selected"]
OnCheckpointFailure = Literal["continue", "raise"]

P = ParamSpec("P")
# Positional arguments that a decorated function takes itself.
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every selecting strategy, whatever its selector.

    Parameters
    ----------
    equal_weights : bool (default: False)
        Give all selected clients the same weight (eq. 1 of the paper), however many examples
        they report. By default, the wrapped strategy weights them as usual.
    evaluate_on : "all" or "selected" (default: "all")
        The nodes on which the wrapped strategy evaluates.
    expected_nodes : int, optional (default: the number of participants)
        Number of nodes to wait for before the first round.
    wait_timeout : float (default: 60)
        Seconds to wait for these nodes.
    stage_timeout : float, optional (default: 600)
        Seconds to wait for the replies to one batch. None means Flower's own limit, twelve hours.
        For a batch that is sent while clients train, the time counts from the end of training.
    checkpoint_dir : str or Path, optional (default: none)
        Where to keep model, round and state after each round. A ServerApp started again with the
        same directory continues with the next round.
    on_checkpoint_failure : "continue" or "raise" (default: "continue")
        Whether the run goes on, with an error in the log, if a checkpoint cannot be written.
    on_selection : callable (Plan, float) -> mapping or None, optional (default: none)
        Called after each selection with the plan and the number of seconds that the round waited
        for it. If it returns a mapping, its entries are added to the round's metrics.
    """

    equal_weights: bool = Settings.equal_weights
    evaluate_on: EvaluateOn = "all"
    expected_nodes: int | None = None
    wait_timeout: float = 60.0
    stage_timeout: float | None = 600.0
    checkpoint_dir: str | PathLike[str] | None = None
    on_checkpoint_failure: OnCheckpointFailure = "continue"
    on_selection: Callable[[Plan, float], Mapping[str, float] | None] | None = None

    def __post_init__(self) -> None:
        of = {"evaluate_on": EvaluateOn, "on_checkpoint_failure": OnCheckpointFailure}
        for name, choices in of.items():
            if (value := getattr(self, name)) not in get_args(choices):
                raise SettingsError(f"{name}={value!r} must be one of {get_args(choices)}.")
        if not (isinstance(self.wait_timeout, Real) and 0.0 <= float(self.wait_timeout) < inf):
            raise SettingsError(
                f"wait_timeout={self.wait_timeout!r} must be a number of seconds from 0 up."
            )
        seconds = self.stage_timeout  # Flower reads 0 as 12 hours
        if seconds is not None and not (isinstance(seconds, Real) and 0.0 < float(seconds) < inf):
            raise SettingsError(
                f"stage_timeout={seconds!r} must be a number of seconds above 0, or None."
            )
        number = self.expected_nodes
        if number is not None and not (isinstance(number, Integral) and number >= 0):
            raise SettingsError(f"expected_nodes={number!r} must be a whole number from 0 up.")
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
        return [
            f"Rule: {self.rule.describe()}",
            f"Determination: {self.determined}",
            f"{registration} | rounds in a draw: {self.rounds_per_draw}",
            f"Key: {self.key_bits} bits | smallest cohort: {self.min_cohort}",
            f"Simulation: {self.simulation or 'no'} | seed: {self.seed}",
        ]


class taking(Generic[P]):  # noqa: N801 - a decorator
    """Decorates a function that passes on its keyword arguments, and adds them to its signature.

    Type checkers, editors and `help` then see their names, types and defaults. The function raises
    `SettingsError` if an argument is missing or unknown, and suggests the name that was meant.

    Examples
    --------
    >>> class Strategy:
    ...     @taking(Options)
    ...     def __init__(self, name, **options):
    ...         self.options = Options(**options)
    >>> Strategy("a", wait_timout=5.0)
    Traceback (most recent call last):
    dubhe_flwr.errors.SettingsError: Strategy takes no wait_timout; did you mean wait_timeout?
    """

    def __init__(self, maker: Callable[P, Any]) -> None:
        self._passed_on = signature(maker).parameters

    @overload
    def __call__(self, function: Callable[[A], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B], R]) -> Callable[Concatenate[A, B, P], R]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B, C], R]
    ) -> Callable[Concatenate[A, B, C, P], R]: ...
    def __call__(self, function: Callable[..., R]) -> Callable[..., R]:
        """Return the function, with the arguments that it passes on in place of its `**`."""
        *own, _ = signature(function).parameters.values()
        whole = Signature([*own, *self._passed_on.values()])
        placed = [each.name for each in whole.parameters.values() if each.kind < each.KEYWORD_ONLY]
        first = " and ".join(name for name in placed if name != "self")

        @wraps(function)
        def checked(*given: Any, **named: Any) -> R:
            is_method = function.__name__ == "__init__"
            who = type(given[0]).__name__ if is_method else function.__name__
            for name in named:
                if name not in whole.parameters:
                    meant = get_close_matches(name, whole.parameters, n=1)
                    known = ", ".join(self._passed_on)
                    hint = f"did you mean {meant[0]}?" if meant else f"choose from {known}."
                    for rule in (Prices, Paper):
                        if "rule" in whole.parameters and name in signature(rule).parameters:
                            hint = (
                                f"it belongs to the rule, as in rule={rule.__name__}({name}=...)."
                            )
                    raise SettingsError(f"{who} takes no {name}; {hint}")
            try:
                arguments = whole.bind(*given, **named).arguments
            except TypeError as error:
                raise SettingsError(
                    f"{who} was called wrongly: {error}; give {first}, and the rest by name."
                ) from None
            return function(**arguments)

        vars(checked)["__signature__"] = whole
        return checked


def takes(function: Any, *given: object) -> bool:
    """Return whether a function accepts these arguments, as far as its signature shows."""
    try:
        signature(function).bind(*given)
    except TypeError:
        return False
    except ValueError:
        pass  # it has no signature
    return True
