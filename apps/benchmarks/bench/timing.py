"""How long something takes: repeated, in turn with what it is compared with."""

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from dubhe_flwr.experiments.findings import provenance

__all__ = ["Timing", "environment", "interleaved", "seconds_of"]


@dataclass(frozen=True)
class Timing:
    """The times of some repeats.

    Parameters
    ----------
    seconds : tuple of float
        CPU time of each.
    """

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
    """Return the CPU time of an action in this process.

    On a machine that is shared it says more than the time on the clock; on an idle one, and in
    one thread, they are the same.
    """
    began = process_time()
    action()
    return process_time() - began


def interleaved(
    actions: Mapping[str, Callable[[], object]],
    rounds: int,
    times: Mapping[str, int] | None = None,
) -> dict[str, Timing]:
    """Time actions in turn, so that a change of the machine's speed meets all of them.

    Parameters
    ----------
    actions : mapping of str to callable
        What to time.
    rounds : int
        How often all of them are gone through.
    times : mapping of str to int, optional
        How often an action is timed in each round, if not once.

    Examples
    --------
    >>> timings = interleaved({"nothing": lambda: None, "sum": lambda: sum(range(99))}, 3,
    ...                       times={"sum": 2})
    >>> {name: len(timing.seconds) for name, timing in timings.items()}
    {'nothing': 3, 'sum': 6}
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            seconds[name] += [seconds_of(action) for _ in range((times or {}).get(name, 1))]
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def environment(packages: Iterable[str]) -> dict[str, Any]:
    """Return versions, command and date, and the processor.

    Parameters
    ----------
    packages : iterable of str
        The packages on which the numbers depend.
    """
    return {
        **provenance(packages, "python apps/benchmarks"),
        "device": f"{cpu_count()} cores of {_processor()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
