"""The selection methods that experiments compare: names, looks, and what they cost in privacy.

Everything that a report says about a method comes from one table. A variant's name continues after
a comma, as in ``dubhe-paper, H=10``.
"""

from collections.abc import Collection, Mapping
from itertools import cycle
from typing import Any, Final, NamedTuple, TypeAlias

Looks: TypeAlias = dict[str, dict[str, Any]]
"""Keyword arguments of `Axes.plot` for each method."""


class _About(NamedTuple):
    """A method's display name, what the server learns, and colour, line style and marker."""

    label: str
    server_learns: str
    look: tuple[str, Any, str]


# Okabe and Ito's palette (https://jfly.uni-koeln.de/color/). Line styles and markers differ too,
# for black-and-white print.
_ABOUT: Final[Mapping[str, _About]] = {
    "random": _About("random", "nothing", ("#D55E00", "--", "x")),
    "dubhe-paper": _About("Dubhe (paper)", "yes/no", ("#56B4E9", "-.", "s")),
    "dubhe": _About("Dubhe", "yes/no", ("#0072B2", "-", "o")),
    "greedy": _About("greedy (oracle)", "labels", ("#009E73", (0, (6, 1)), "^")),
    "flips": _About("FLIPS (oracle)", "labels", ("#CC79A7", ":", "v")),
    "fedcbs": _About("Fed-CBS (oracle)", "labels", ("#E69F00", (0, (4, 1, 1, 1)), "D")),
    "fedentopt": _About("FedEntOpt (oracle)", "labels", ("#999999", (0, (1, 1)), "P")),
    "powd": _About("Power-of-Choice", "losses", ("#882255", (0, (5, 1, 1, 1, 1, 1)), "<")),
    "afl": _About("Active FL", "losses", ("#332288", (0, (3, 2)), ">")),
    "oort": _About("Oort", "losses", ("#117733", (0, (2, 1, 1, 1)), "p")),
}
_FURTHER_LOOKS: Final = (
    ("#000000", "-", "*"),
    ("#7A5195", "-.", "d"),
    ("#F0E442", ":", "p"),
)

METHODS: Final = tuple(_ABOUT)
"""All selection methods; greedy, flips, fedcbs and fedentopt are label oracles."""

SEEING_LOSSES: Final = tuple(name for name, of in _ABOUT.items() if of.server_learns == "losses")
"""Methods that select by clients' losses, and so need a model."""


def method_label(method: str) -> str:
    """Return a method's display name, followed by anything after a comma."""
    name, comma, setting = method.partition(",")
    return (_ABOUT[name].label if name in _ABOUT else name) + comma + setting


def method_looks(methods: Collection[str]) -> Looks:
    """Return the look of each method, which is the same in every figure.

    A variant gets the look of the name before the comma, if that is free.

    Examples
    --------
    >>> method_looks(["dubhe-paper, H=10"])
    {'dubhe-paper, H=10': {'color': '#56B4E9', 'linestyle': '-.', 'marker': 's'}}
    """
    free, further = {name: of.look for name, of in _ABOUT.items()}, cycle(_FURTHER_LOOKS)
    looks = {name: free.pop(name) for name in methods if name in free}
    for name in methods:
        if name not in looks:
            base = name.partition(",")[0]
            looks[name] = free.pop(base) if base in free else next(further)
    names = ("color", "linestyle", "marker")
    return {name: dict(zip(names, looks[name], strict=True)) for name in methods}


def server_learns(method: str) -> str:
    """Return in a word or two what a selection method reveals to the server.

    Examples
    --------
    >>> [server_learns(name) for name in ("random", "dubhe", "powd", "greedy")]
    ['nothing', 'yes/no', 'losses', 'labels']
    """
    return _ABOUT[method.partition(",")[0]].server_learns


def extra_work(method: str, evaluations: float) -> str:
    """Return in a word or two the clients' extra work for the selection.

    `evaluations` is the number of model evaluations per round, over all clients.

    Examples
    --------
    >>> extra_work("powd", 40), extra_work("dubhe", 0), extra_work("greedy", 0)
    ('40 evals', 'encrypt', 'none')
    """
    if evaluations:
        return f"{evaluations:.0f} evals"
    return "encrypt" if method.startswith("dubhe") else "none"
