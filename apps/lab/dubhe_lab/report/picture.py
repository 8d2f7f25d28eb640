"""Pictures: panels stacked to fit a phone, in colours that colour-blind readers can tell apart."""

from collections.abc import Callable, Collection, Sequence
from io import BytesIO
from itertools import cycle
from types import ModuleType
from typing import Any, Final, TypeAlias

from dubhe_flwr.errors import DubheError

Panel: TypeAlias = Callable[[Any], None]
"""Draws one panel into the given axes."""

Looks: TypeAlias = dict[str, dict[str, Any]]
"""Keyword arguments of `Axes.plot` for each method."""

# Okabe and Ito's palette (https://jfly.uni-koeln.de/color/). Line styles and markers differ too,
# for black-and-white print.
_KNOWN_LOOKS: Final = {
    "random": ("#D55E00", "--", "x"),
    "dubhe-paper": ("#56B4E9", "-.", "s"),
    "dubhe-search": ("#8C6D31", "--", "h"),
    "dubhe": ("#0072B2", "-", "o"),
    "greedy": ("#009E73", (0, (6, 1)), "^"),
    "flips": ("#CC79A7", ":", "v"),
    "fedcbs": ("#E69F00", (0, (4, 1, 1, 1)), "D"),
    "fedentopt": ("#999999", (0, (1, 1)), "P"),
    "powd": ("#882255", (0, (5, 1, 1, 1, 1, 1)), "<"),
    "afl": ("#332288", (0, (3, 2)), ">"),
    "oort": ("#117733", (0, (2, 1, 1, 1)), "p"),
}
_LABELS: Final = {
    "dubhe": "Dubhe",
    "dubhe-paper": "Dubhe (paper)",
    "dubhe-search": "Dubhe, search",
    "greedy": "greedy (oracle)",
    "flips": "FLIPS (oracle)",
    "fedcbs": "Fed-CBS (oracle)",
    "fedentopt": "FedEntOpt (oracle)",
    "powd": "Power-of-Choice",
    "afl": "Active FL",
    "oort": "Oort",
}
_FURTHER_LOOKS: Final = (
    ("#000000", "-", "*"),
    ("#7A5195", "-.", "d"),
    ("#F0E442", ":", "p"),
)

GLOBAL_COLOUR: Final = "#C9CCD1"
UNIFORM_COLOUR: Final = "#22262B"

_STYLE: Final[dict[str, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#6B7280",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": "#22262B",
    "axes.labelsize": 12,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.12,
    "figure.dpi": 160,
    "font.size": 11,
    "grid.color": "#E5E7EB",
    "legend.columnspacing": 1.3,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "legend.handlelength": 1.3,
    "legend.handletextpad": 0.5,
    "lines.linewidth": 2.2,
    "xtick.color": "#4B5563",
    "ytick.color": "#4B5563",
}


def method_looks(methods: Collection[str]) -> Looks:
    """Return the look of each method, which is the same in every figure.

    A variant such as ``dubhe-paper, H=10`` gets the look of the name before the comma, if that is
    free.

    Examples
    --------
    >>> method_looks(["dubhe-paper, H=10"])
    {'dubhe-paper, H=10': {'color': '#56B4E9', 'linestyle': '-.', 'marker': 's'}}
    """
    free, further = dict(_KNOWN_LOOKS), cycle(_FURTHER_LOOKS)
    looks = {name: free.pop(name) for name in methods if name in free}
    for name in methods:
        if name not in looks:
            base = name.partition(",")[0]
            looks[name] = free.pop(base) if base in free else next(further)
    names = ("color", "linestyle", "marker")
    return {name: dict(zip(names, looks[name], strict=True)) for name in methods}


def method_label(method: str) -> str:
    """Return a method's display name, followed by anything after a comma."""
    name, comma, setting = method.partition(",")
    return _LABELS.get(name, name) + comma + setting


def require_matplotlib() -> ModuleType:
    """Return matplotlib. Raises `DubheError`, which says how to install it, if it is missing."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, imported where it is needed
    except ImportError as error:
        raise DubheError(
            "Figures need matplotlib; install it with `pip install ./apps/lab` in a clone."
        ) from error
    return mpl


def picture(panels: Sequence[Panel], width: float = 7.0, height: float = 3.4) -> bytes:
    """Draw stacked panels, each of this size in inches, and return the PNG."""
    matplotlib = require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    with matplotlib.rc_context(_STYLE):
        # A bare Figure draws with Agg and leaves the user's backend alone.
        figure = Figure(figsize=(width, 0.6 + height * len(panels)))
        axes = figure.subplots(len(panels), squeeze=False)
        for drawn, draw in zip(axes.flat, panels, strict=True):
            draw(drawn)
        entries: dict[str, Any] = {}
        for drawn in axes.flat:
            handles, labels = drawn.get_legend_handles_labels()
            for label, handle in zip(labels, handles, strict=True):
                entries.setdefault(label, handle)
        if entries:
            figure.legend(
                entries.values(),
                entries.keys(),
                loc="outside lower center",
                # Three long names fit a width of 7 inches.
                ncols=min(len(entries), max(1, int(0.45 * width))),
            )
        written = BytesIO()
        figure.savefig(written, format="png")
    return written.getvalue()
