"""Adds the keyword arguments that a function passes on to its own signature, and checks them."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import Signature, signature
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.rules import Paper, Prices

P = ParamSpec("P")
# Positional arguments that a decorated function takes itself.
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
R = TypeVar("R")


class taking(Generic[P]):  # noqa: N801 - a decorator
    """Decorates a function that passes on its keyword arguments, and adds them to its signature.

    Type checkers, editors and `help` then see their names, types and defaults. The function raises
    `SettingsError` if an argument is missing or unknown, and suggests the name that was meant.

    Examples
    --------
    >>> from dubhe_flwr.adapter.arguments import Options
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
                    f"{who} was called wrongly: {error}; pass {first} first, and the rest by name."
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
