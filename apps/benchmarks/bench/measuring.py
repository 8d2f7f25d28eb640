"""How long something takes, and what a benchmark found: figures, bounds and tables."""

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from dubhe_flwr.experiments.findings import provenance
from dubhe_flwr.report.table import Table

__all__ = ["BenchResults", "Figure", "Timing", "environment", "interleaved", "seconds_of"]


@dataclass(frozen=True)
class Timing:
    """The CPU times of some repeats, in seconds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return median(self.seconds)

    def to_dict(self) -> dict[str, float | int]:
        """Return median, minimum and number of repeats."""
        return {
            "median_seconds": self.median,
            "minimum_seconds": min(self.seconds),
            "repeats": len(self.seconds),
        }


def seconds_of(action: Callable[[], object]) -> float:
    """Return the CPU time of an action: on a shared machine it says more than the clock."""
    began = process_time()
    action()
    return process_time() - began


def interleaved(
    actions: Mapping[str, Callable[[], object]], rounds: int, times: Mapping[str, int] | None = None
) -> dict[str, Timing]:
    """Time actions in turn, so that a change of the machine's speed meets all of them.

    `times` says how often an action is timed in each round, if not once.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            seconds[name] += [seconds_of(action) for _ in range((times or {}).get(name, 1))]
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def environment(packages: Iterable[str]) -> dict[str, Any]:
    """Return versions of packages, command and date, and the processor."""
    device = f"{cpu_count()} cores of {_processor()}"
    return {**provenance(packages, "python apps/benchmarks"), "device": device}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


@dataclass(frozen=True)
class Figure:
    """One number, and a bound that it should keep; without one there is nothing to keep."""

    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_kept(self) -> bool | None:
        """Whether the bound is kept; None without one."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def wanted(self) -> str:
        """The bound in words; empty without one."""
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "" if self.at_most is None else f"at most {self.at_most:g}"


@dataclass(frozen=True)
class BenchResults:
    """All that a benchmark found: what was run, the numbers that count, and what they are from."""

    config: Mapping[str, Any]
    figures: Mapping[str, Figure]
    measured: Mapping[str, Any]
    tables: Sequence[Table]

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes: each figure under its own name."""
        return {
            **{name: figure.value for name, figure in self.figures.items()},
            "wanted": {
                name: {"bound": figure.wanted, "kept": figure.is_kept}
                for name, figure in self.figures.items()
                if figure.wanted
            },
            "measured": dict(self.measured),
            "config": dict(self.config),
        }

    def save(self, path: Path) -> None:
        """Write the results as JSON, into a folder that is made if need be."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    def figure_table(self) -> Table:
        """Return the figures beside what is wanted of them."""
        kept = {None: "", True: "yes", False: "no"}
        rows = [
            (name, f"{figure.value:.4g}", figure.wanted, kept[figure.is_kept])
            for name, figure in self.figures.items()
        ]
        return Table("Figures", ("figure", "measured", "wanted", "kept"), rows)

    def markdown(self) -> str:
        """Return command and tables as Markdown."""
        tables = "\n\n".join(table.for_markdown() for table in (*self.tables, self.figure_table()))
        return f"```bash\n{self.config['command']}\n```\n\n{tables}\n"
