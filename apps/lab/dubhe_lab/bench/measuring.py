"""Timing, and the results of a benchmark: figures, bounds and tables."""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import cpu_count
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from dubhe_lab.experiments.findings import provenance
from dubhe_lab.report.results import write_json
from dubhe_lab.report.table import Table


def seconds_of(action: Callable[[], object], *, on_the_clock: bool = False) -> float:
    """Return an action's CPU time, which a shared machine disturbs less than wall time."""
    now = perf_counter if on_the_clock else process_time
    began = now()
    action()
    return now() - began


def interleaved(
    actions: Mapping[str, Callable[[], object]], rounds: int, times: Mapping[str, int] | None = None
) -> dict[str, list[float]]:
    """Return the CPU times of actions, timed in turns so that slow phases affect all of them.

    `times` says how often to time an action per round, by default once.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            seconds[name] += [seconds_of(action) for _ in range((times or {}).get(name, 1))]
    return seconds


def summed_up(timings: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return the median and the minimum of each action's times, and how often it was timed."""
    return {
        name: {"median_seconds": median(of), "minimum_seconds": min(of), "repeats": len(of)}
        for name, of in timings.items()
    }


def environment(packages: Iterable[str]) -> dict[str, Any]:
    """Return package versions, command, date and processor."""
    device = f"{cpu_count()} cores of {_processor()}"
    return {**provenance(packages), "device": device}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


@dataclass(frozen=True)
class BenchResults:
    """A benchmark's results: its config, headline figures, raw measurements and tables.

    `bounds` maps a figure to ``"at least"`` or ``"at most"`` and a number.
    """

    config: Mapping[str, Any]
    figures: Mapping[str, float]
    measured: Mapping[str, Any]
    tables: Sequence[Table]
    bounds: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    def _wanted(self) -> dict[str, dict[str, Any]]:
        wanted = {}
        for name, (side, bound) in self.bounds.items():
            if (value := self.figures.get(name)) is not None:
                kept = value >= bound if side == "at least" else value <= bound
                wanted[name] = {"bound": f"{side} {bound:g}", "kept": kept}
        return wanted

    def to_dict(self) -> dict[str, Any]:
        """Return the results as `save` writes them, with each figure under its own name."""
        return {
            **self.figures,
            "wanted": self._wanted(),
            "measured": dict(self.measured),
            "tables": [f"{of.caption}\n\n{of.for_markdown()}" for of in self.tables],
            "config": dict(self.config),
        }

    def save(self, path: Path) -> None:
        """Write the results as JSON."""
        write_json(path, self.to_dict())

    def figure_table(self) -> Table:
        """Return the figures next to their bounds."""
        wanted = self._wanted()
        told = {n: (of["bound"], "yes" if of["kept"] else "no") for n, of in wanted.items()}
        rows = [
            (name, f"{value:.4g}", *told.get(name, ("", "")))
            for name, value in self.figures.items()
        ]
        return Table("Figures", ("figure", "measured", "wanted", "kept"), rows)
