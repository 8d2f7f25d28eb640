"""How the server's time and memory grow with the number of nodes; one process per size."""

import multiprocessing
import resource
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

import numpy as np

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.he.secret_key import generate_secret_key
from dubhe_flwr.protocol.settings import most_registered
from dubhe_lab.bench.measuring import BenchResults, environment, seconds_of
from dubhe_lab.bench.protocol import MEASURED, PACKAGES, measured_rounds, server_and_nodes
from dubhe_lab.experiments.options import CommandSettings, numbers, option, same
from dubhe_lab.experiments.settings import SelectionSettings
from dubhe_lab.report.table import Table

_DISTINCT: Final = 100
_ROUNDS_PER_DRAW: Final = 4
_BOUNDS: Final = {
    "sum_seconds_n1000000": ("at most", 8),
    "sum_peak_mb_n1000000": ("at most", 200),
    "epoch_exponent": ("at most", 1.05),
}

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ScaleSettings(CommandSettings):
    """The settings of `bench_scale`."""

    sizes: tuple[int, ...] = option(
        (1000, 10_000, 50_000, 1_000_000),
        "Values of N, separated by commas; if N is too large to register, only sums are timed.",
        parse=numbers,
        quick=(100, 200),
    )
    method: str = option(
        "dubhe-paper", f"Selection method: {' or '.join(MEASURED)}.", choices=MEASURED
    )
    num_real: int = option(
        50, "Clients whose work is measured.", least=2 * _ROUNDS_PER_DRAW, quick=10
    )
    num_participants: int = same(SelectionSettings, "num_participants", quick=6)
    key_bits: int = same(SelectionSettings, "key_bits", quick=512)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.sizes_of_epochs)) < 2:
            most = most_registered(self.key_bits)
            raise SettingsError(
                f"sizes={self.sizes} show no growth; pass at least two up to {most}, the most "
                "nodes that can register."
            )

    @property
    def sizes_of_epochs(self) -> tuple[int, ...]:
        """The sizes at which all nodes can register."""
        return tuple(size for size in self.sizes if size <= most_registered(self.key_bits))


def bench_scale(settings: ScaleSettings) -> BenchResults:
    """Measure the server's time and memory for up to a million nodes."""
    sums: dict[int, dict[str, float]] = {}
    epochs: dict[int, dict[str, Any]] = {}
    for number in settings.sizes:
        sums[number] = _in_fresh_process(_measure_sum, number, settings.key_bits)
        if number in settings.sizes_of_epochs:
            epochs[number] = _in_fresh_process(_measure_epoch, number, settings)
    return BenchResults(
        config={**settings.flat(), "rounds_per_draw": _ROUNDS_PER_DRAW, **environment(PACKAGES)},
        figures=_figures(sums, epochs),
        measured={
            "sums": {str(number): of for number, of in sums.items()},
            "epochs": {str(number): of for number, of in epochs.items()},
        },
        tables=[_table(settings.method, sums, epochs)],
        bounds=_BOUNDS if settings.key_bits == 2048 else {},
    )


def growth_exponent(seconds: Mapping[int, float]) -> float:
    """Return the slope of a straight line fitted to the logarithms of sizes and times."""
    numbers, values = np.log(list(seconds.keys())), np.log(list(seconds.values()))
    return float(np.polyfit(numbers, values, 1)[0])


def _figures(
    sums: Mapping[int, Mapping[str, float]], epochs: Mapping[int, Mapping[str, Any]]
) -> dict[str, float]:
    names = {"epoch": "epoch_seconds", "draw": "draw_seconds", "drawless_round": "drawless_seconds"}
    values = {"sum_exponent": growth_exponent({n: of["seconds"] for n, of in sums.items()})}
    for name, key in names.items():
        values[f"{name}_exponent"] = growth_exponent({n: of[key] for n, of in epochs.items()})
    for number, of in sums.items():
        values[f"sum_seconds_n{number}"] = of["seconds"]
        values[f"sum_peak_mb_n{number}"] = of["peak_mb"]
    for number, of in epochs.items():
        values[f"epoch_server_seconds_n{number}"] = of["epoch_seconds"]
        values[f"drawless_round_ms_n{number}"] = 1e3 * of["drawless_seconds"]
        values[f"epoch_peak_mb_n{number}"] = of["peak_mb"]
        values[f"epoch_bytes_per_node_n{number}"] = 1e6 * (of["peak_mb"] - of["start_mb"]) / number
    return values


def _measure_sum(number: int, key_bits: int) -> dict[str, float]:
    """Add up the ciphertexts of N nodes, repeating a few real ones."""
    key = generate_secret_key(key_bits)
    distinct = [key.encrypt([row]) for row in range(_DISTINCT)]
    start = _peak_mb()
    stream = (distinct[row % _DISTINCT] for row in range(number))
    seconds = seconds_of(lambda: key.public_key.add_up(stream))
    return {"seconds": seconds, "start_mb": start, "peak_mb": _peak_mb()}


def _measure_epoch(number: int, settings: ScaleSettings) -> dict[str, Any]:
    """Register, draw for several rounds and run them; then draw and run once more."""
    server, nodes = server_and_nodes(
        settings.method,
        number,
        settings.num_real,
        key_bits=settings.key_bits,
        num_participants=settings.num_participants,
        rounds_per_draw=_ROUNDS_PER_DRAW,
    )
    present = frozenset(nodes.ids)
    start = _peak_mb()
    costs = measured_rounds(server, nodes, 2 * _ROUNDS_PER_DRAW, present)
    first, draw = costs[0], costs[_ROUNDS_PER_DRAW]
    drawless = [cost.begin_seconds for cost in costs if not cost.stages]
    return {
        "epoch_seconds": first.server_seconds,
        "client_seconds": first.client_seconds,
        "draw_seconds": draw.server_seconds,
        "drawless_seconds": median(drawless),
        "bytes_up": sum(stage.bytes_up for stage in first.stages),
        "bytes_down": sum(stage.bytes_down for stage in first.stages),
        "messages": sum(stage.messages for stage in first.stages),
        "start_mb": start,
        "peak_mb": _peak_mb(),
        "rounds": [asdict(cost) for cost in costs],
    }


def _table(
    method: str, sums: Mapping[int, Mapping[str, float]], epochs: Mapping[int, Mapping[str, Any]]
) -> Table:
    cells: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "registration and draw": lambda of: f"{of['epoch_seconds']:.2f} s",
        "a draw": lambda of: f"{of['draw_seconds']:.3f} s",
        "a round without a draw": lambda of: f"{1e3 * of['drawless_seconds']:.2f} ms",
        "memory": lambda of: f"{of['start_mb']:.0f} / {of['peak_mb']:.0f} MB",
        "up": lambda of: f"{of['bytes_up'] / 1e6:.1f} MB",
        "down": lambda of: f"{of['bytes_down'] / 1e6:.1f} MB",
        "clients": lambda of: f"{of['client_seconds']:.0f} s",
    }
    rows = [
        (
            f"N = {n:,}".replace(",", "\N{NO-BREAK SPACE}"),
            f"{of['seconds']:.2f} s",
            f"{of['peak_mb']:.0f} MB",
            *(cell(epochs[n]) if n in epochs else "" for cell in cells.values()),
        )
        for n, of in sums.items()
    ]
    return Table(
        f"The server's cost by the number of nodes, {method}. Times are CPU times. Memory: a "
        "fresh process, at its start / at its peak. Clients: all together, extrapolated from a "
        "sample.",
        ("", "sum of N", "its memory", *cells),
        rows,
    )


def _in_fresh_process(measure: Callable[..., T], *arguments: Any) -> T:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure, *arguments).result()


def _peak_mb() -> float:
    """Return this process's peak memory so far."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        # macOS reports bytes, other systems kilobytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
