"""How figures look, with colours that colour-blind readers can tell apart."""

from collections.abc import Iterable
from types import ModuleType
from typing import Any, Final

from dubhe_flwr.errors import DubheError

__all__ = [
    "GLOBAL_COLOUR",
    "STYLE",
    "UNIFORM_COLOUR",
    "method_colours",
    "method_label",
    "require_matplotlib",
]

# Okabe and Ito's palette (https://jfly.uni-koeln.de/color/); the known methods keep their colours.
_KNOWN_COLOURS: Final = {
    "random": "#D55E00",
    "dubhe-paper": "#56B4E9",
    "dubhe": "#0072B2",
    "greedy": "#009E73",
}
_LABELS: Final = {
    "dubhe": "Dubhe",
    "dubhe-paper": "Dubhe (paper)",
    "greedy": "greedy (oracle)",
}
_FURTHER_COLOURS: Final = ("#CC79A7", "#E69F00", "#F0E442", "#999999")

GLOBAL_COLOUR: Final = "#C9CCD1"
"""Of what all clients hold together."""

UNIFORM_COLOUR: Final = "#22262B"
"""Of the uniform distribution, the aim."""

STYLE: Final[dict[str, Any]] = {
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
"""Settings of matplotlib for all figures."""


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """Return a colour for each method, the same in every figure.

    Parameters
    ----------
    methods : iterable of str
        Their names.

    Examples
    --------
    >>> method_colours(["dubhe", "calibrated"])
    {'dubhe': '#0072B2', 'calibrated': '#CC79A7'}
    """
    names = list(methods)
    unknown = [name for name in names if name not in _KNOWN_COLOURS]
    further = {name: _FURTHER_COLOURS[i % len(_FURTHER_COLOURS)] for i, name in enumerate(unknown)}
    return {name: _KNOWN_COLOURS.get(name) or further[name] for name in names}


def method_label(method: str) -> str:
    """Return what a reader is to see for a method; what follows a comma is kept.

    Examples
    --------
    >>> method_label("dubhe"), method_label("random"), method_label("dubhe-paper, H=1")
    ('Dubhe', 'random', 'Dubhe (paper), H=1')
    """
    name, comma, setting = method.partition(",")
    return _LABELS.get(name, name) + comma + setting


def require_matplotlib() -> ModuleType:
    """Return matplotlib, which the base install does without.

    Raises
    ------
    DubheError
        If it is not installed; the message says how to install it.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, imported where it is needed
    except ImportError as error:
        raise DubheError(
            "Figures need matplotlib; install it with `pip install 'dubhe-flwr[report]'`."
        ) from error
    return mpl
