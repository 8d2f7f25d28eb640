"""The start-up time of a SuperNode's process; Flower starts a new one for each message."""

import subprocess
import sys
from dataclasses import dataclass
from statistics import median
from typing import Final

from dubhe_lab.bench.measuring import BenchResults, environment
from dubhe_lab.experiments.options import CommandSettings, option
from dubhe_lab.report.table import Table

_FLOWER: Final = "flwr.supernode.runtime.run_clientapp"
_DUBHE: Final = "dubhe_flwr.clientapp"
_SECONDS: Final = """
import sys, time
for name in sys.argv[1:]:
    began = time.process_time()
    __import__(name)
    print(time.process_time() - began)
"""


@dataclass(frozen=True, kw_only=True)
class StartSettings(CommandSettings):
    """The settings of `bench_start`."""

    repeats: int = option(11, "Processes to start, one after another.", least=1, quick=1)


def bench_start(settings: StartSettings) -> BenchResults:
    """Time the imports of a node's process: Flower's, then Dubhe's on top."""
    measured: dict[str, list[float]] = {_FLOWER: [], _DUBHE: []}
    for _ in range(settings.repeats):
        for name, seconds in zip(measured, _imports(*measured), strict=True):
            measured[name].append(seconds)
    flower, dubhe = (median(measured[name]) for name in (_FLOWER, _DUBHE))
    return BenchResults(
        config={**settings.flat(), **environment(["dubhe-flwr", "flwr", "numpy", "cryptography"])},
        figures={"flower_seconds": flower, "dubhe_seconds": dubhe},
        measured=measured,
        tables=[
            Table(
                "Start-up of a SuperNode's process, which Flower starts for each message: median "
                "CPU seconds of its imports.",
                ("imports", "seconds"),
                [("Flower", f"{flower:.2f}"), ("Dubhe, on top", f"{dubhe:.2f}")],
            )
        ],
        bounds={"dubhe_seconds": ("at most", 0.3)},
    )


def _imports(*names: str) -> list[float]:
    """Return the CPU time to import each of these modules, in order, in a new process."""
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _SECONDS, *names], capture_output=True, text=True, check=True
    )
    return [float(line) for line in ended.stdout.split()]
