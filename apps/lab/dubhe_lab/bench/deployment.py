"""How long a round takes on SuperNodes of this host, with Dubhe and with random clients."""

import json
import sys
import tempfile
from dataclasses import dataclass
from itertools import chain
from os import getloadavg
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from dubhe_flwr.errors import SettingsError
from dubhe_lab.bench.measuring import BenchResults, environment
from dubhe_lab.experiments.options import CommandSettings, option
from dubhe_lab.report.table import Table

_APPS: Final = Path(__file__).parents[3]
_MEASURED: Final = "measured: "
_KINDS: Final = {"committee": "Dubhe", "paillier": "Dubhe, the paper's rule"}
"""Names of the runs with Dubhe: in the app, and in the tables."""
_STEPS: Final = (
    "polls of SuperNode and SuperExec, until the process starts",
    "start of Python, imports of Flower, the message",
    "imports of the app, Dubhe among them",
    "reply, polls of SuperNode and server",
)
_BOUNDS: Final = {
    "round_ratio": ("at most", 1.1),
    "waited_median_seconds": ("at most", 0.2),
    "waited_below_1_second": ("at least", 0.95),
    "largest_exchange_ratio": ("at most", 1.2),
}


@dataclass(frozen=True, kw_only=True)
class DeploymentSettings(CommandSettings):
    """Settings of a run on SuperNodes, with and without Dubhe."""

    num_nodes: int = option(8, "SuperNodes, all on this host.", least=3, quick=3)
    num_participants: int = option(4, "Clients that train in a round.", least=1, quick=3)
    num_rounds: int = option(20, "Rounds of each kind; the first is not counted.", least=4, quick=4)
    num_selections: int = option(3, "First selections of each kind to time.", least=1, quick=1)
    registration_interval: int = option(10, "Rounds between registrations.", least=1)
    seconds: float = option(10.0, "Seconds that a training takes; clients only wait.", least=0)


def bench_deployment(settings: DeploymentSettings) -> BenchResults:
    """Run SuperNodes, and compare a round with Dubhe to one with random clients."""
    load = getloadavg()[0]
    measured = _measured(settings)
    random = fmean(seconds for part in measured["random"] for seconds in part[1:])
    of_kind = {kind: _figures(measured[kind], random) for kind in _KINDS}
    figures = {
        "random_round_seconds": random,
        **{f"{kind}_{name}": of for kind, own in of_kind.items() for name, of in own.items()},
    }
    bounds = {f"{kind}_{name}": bound for kind in _KINDS for name, bound in _BOUNDS.items()}
    return BenchResults(
        config={**settings.flat(), **environment(["dubhe-flwr", "flwr"]), "load_before": load},
        figures=figures,
        bounds=bounds if settings == DeploymentSettings() else {},
        measured=measured,
        tables=[
            _rounds_table(settings, random, of_kind),
            *(_exchanges_table(name, measured[kind]) for kind, name in _KINDS.items()),
            _steps_table([steps for kind in _KINDS for steps in measured[kind]["empty_steps"]]),
        ],
    )


def _figures(measured: dict[str, Any], random: float) -> dict[str, float]:
    """Return the figures of a run with Dubhe, given the mean seconds of a random round."""
    dubhe, waited = measured["rounds"][1:], measured["waited"][1:]
    exchanges = _exchanges(measured)
    return {
        "round_seconds": fmean(dubhe),
        "round_ratio": fmean(dubhe) / random,
        "waited_share": sum(waited) / sum(dubhe),
        "waited_median_seconds": median(waited),
        "waited_below_1_second": fmean(seconds < 1.0 for seconds in waited),
        "first_selection_seconds": sum(each["seconds"] for each in exchanges),
        "first_selection_exchanges": len(exchanges),
        "largest_exchange_ratio": max(each["seconds"] / each["empty"] for each in exchanges),
    }


def _exchanges(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each exchange of a first selection, with the medians of its seconds."""
    of_stage: dict[str, list[dict[str, Any]]] = {}
    for each in chain.from_iterable(measured["first_exchanges"]):
        of_stage.setdefault(each["stage"], []).append(each)
    return [
        each[0] | {name: median(one[name] for one in each) for name in ("empty", "seconds")}
        for each in of_stage.values()
    ]


def _rounds_table(
    settings: DeploymentSettings, random: float, of_kind: dict[str, dict[str, float]]
) -> Table:
    rows = [("FedAvg, random clients", f"{random:.1f} s", "", "", "")]
    rows += [
        (
            _KINDS[kind],
            f"{own['round_seconds']:.1f} s",
            f"{own['round_ratio']:.2f}",
            f"{own['waited_share']:.1%} of the time",
            f"{own['first_selection_seconds']:.0f} s",
        )
        for kind, own in of_kind.items()
    ]
    return Table(
        f"{settings.num_nodes} SuperNodes on this host; in each round, K = "
        f"{settings.num_participants} clients train for {settings.seconds:g} s. Mean wall time of "
        "a round, not counting the first.",
        ("", "a round", "ratio", "waits for its selection", "the first selection"),
        rows,
    )


def _exchanges_table(name: str, measured: dict[str, Any]) -> Table:
    """Return the exchanges of the first selection next to empty messages to the same nodes."""
    return Table(
        f"{name}: the exchanges of a first selection, and an empty message to the same nodes "
        "before each, both right after another message; medians of "
        f"{len(measured['first_exchanges'])}.",
        ("exchange", "nodes", "empty message", "exchange", "ratio"),
        [
            (
                each["stage"],
                str(each["nodes"]),
                f"{each['empty']:.1f} s",
                f"{each['seconds']:.1f} s",
                f"{each['seconds'] / each['empty']:.2f}",
            )
            for each in _exchanges(measured)
        ],
    )


def _steps_table(steps: list[list[float]]) -> Table:
    """Return the median seconds of each step of an empty message."""
    columns = zip(*steps, strict=True)
    return Table(
        f"How long each step of an empty message takes: median of {len(steps)} messages.",
        ("step", "seconds"),
        [(name, f"{median(of):.2f} s") for name, of in zip(_STEPS, columns, strict=True)],
    )


def _measured(settings: DeploymentSettings) -> dict[str, Any]:
    """Return what the ServerApp of `apps/deployment/timed_app` printed."""
    folder = _APPS / "deployment"
    if not folder.is_dir():
        raise SettingsError(
            "The SuperNodes are started by apps/deployment, which is not installed; run `dubhe "
            "bench deployment` in a clone of the repository."
        )
    sys.path.insert(0, str(folder))
    # No distribution contains them.
    from deployment import Federation  # noqa: PLC0415
    from deployment.processes import end_by_exceptions  # noqa: PLC0415

    end_by_exceptions()
    given = settings.flat()
    names = {name.replace("_", "-"): value for name, value in given.items()}
    config = " ".join(f"{name}={value}" for name, value in names.items())
    with (
        tempfile.TemporaryDirectory(prefix="dubhe-bench-") as home,
        Federation(Path(home), settings.num_nodes) as federation,
    ):
        status, output = federation.run(folder / "timed_app", config, timeout=7200.0)
    lines = [line.partition(_MEASURED)[2] for line in output.splitlines() if _MEASURED in line]
    if not lines:
        raise RuntimeError(f"The run ended as {status}: {output[-4000:]}")
    measured: dict[str, Any] = json.loads(lines[-1])
    return measured
