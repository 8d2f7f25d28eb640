"""The ways of selecting that the reproduction compares, as settings rather than as code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["SELECTIONS", "Method"]

SELECTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "dubhe-paper": {"participation": "paper", "determination": "tries", "local_skew": 0.0},
    "dubhe": {"participation": "calibrated", "determination": "grouped", "tries": 20},
}
"""What each variant of Dubhe sets apart from the default; other methods are baselines."""


@dataclass(frozen=True)
class Method:
    """A way of selecting.

    Parameters
    ----------
    name : str
        One of `SELECTIONS`, or ``random`` or ``greedy``.
    tries : int, optional (default: what the method sets)
        ``H``.

    Examples
    --------
    >>> print(Method("dubhe-paper", tries=10), Method("greedy"), sep="; ")
    dubhe-paper, H=10; greedy
    >>> Method("greedy").kind, Method("dubhe-paper").kind
    ('greedy', 'dubhe')
    """

    name: str
    tries: int | None = None

    @property
    def kind(self) -> str:
        """The name by which a comparison or a study knows the method."""
        return "dubhe" if self.name in SELECTIONS else self.name

    @property
    def settings(self) -> dict[str, Any]:
        """What the method sets; nothing for a baseline."""
        own = {} if self.tries is None else {"tries": self.tries}
        return {**SELECTIONS.get(self.name, {}), **own}

    def __str__(self) -> str:
        return self.name if self.tries is None else f"{self.name}, H={self.tries}"
