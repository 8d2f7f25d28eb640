"""The ways of selecting that the reproduction compares, as settings rather than as code."""

from dataclasses import dataclass
from typing import Any, Final

from dubhe_flwr.experiments.methods import DUBHE_RULES
from dubhe_flwr.protocol import Settings

__all__ = ["Method"]

_DEFAULTS: Final = {
    name: getattr(Settings, name)
    for name in ("participation", "determination", "tries", "coverage", "floor", "local_skew")
}
"""Named in every cell, so that no cell is taken for that of other defaults."""


@dataclass(frozen=True)
class Method:
    """A way of selecting.

    Parameters
    ----------
    name : str
        One of `DUBHE_RULES`, or ``random`` or ``greedy``.
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
        return "dubhe" if self.name in DUBHE_RULES else self.name

    @property
    def settings(self) -> dict[str, Any]:
        """What the method sets; nothing for a baseline."""
        if self.name not in DUBHE_RULES:
            return {}
        own = {} if self.tries is None else {"tries": self.tries}
        return {**_DEFAULTS, **DUBHE_RULES[self.name], **own}

    def __str__(self) -> str:
        return self.name if self.tries is None else f"{self.name}, H={self.tries}"
