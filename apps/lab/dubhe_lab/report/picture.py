"""Pictures: panels stacked to fit a phone, in colours that colour-blind readers can tell apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeAlias

Panel: TypeAlias = Callable[[Any], None]
"""Draws one panel into the given axes."""

GLOBAL_COLOUR: Final = "#C9CCD1"
UNIFORM_COLOUR: Final = "#22262B"

_STYLE: Final[dict[Any, Any]] = {
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


@dataclass(frozen=True)
class Picture:
    """Stacked panels, each of this width and height in inches, over one legend.

    The name is the file's, without a suffix; the caption is a sentence. Nothing is drawn until
    `png` or `save` needs it.
    """

    name: str
    caption: str
    panels: Sequence[Panel]
    width: float = 7.0
    height: float = 3.4

    def save(self, folder: Path) -> None:
        """Write a PNG file, and make the folder if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.png").write_bytes(self.png)

    @cached_property
    def png(self) -> bytes:
        """The content of the PNG file."""
        # Matplotlib takes long to import, and most commands draw nothing.
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415

        with rc_context(_STYLE):
            # A bare Figure draws with Agg and leaves the user's backend alone.
            figure = Figure(figsize=(self.width, 0.6 + self.height * len(self.panels)))
            axes = figure.subplots(len(self.panels), squeeze=False)
            for drawn, draw in zip(axes.flat, self.panels, strict=True):
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
                    ncols=min(len(entries), max(1, int(0.45 * self.width))),
                )
            written = BytesIO()
            figure.savefig(written, format="png")
        return written.getvalue()
