"""What a round takes on SuperNodes of this host: with Dubhe, and with random clients."""

import json
import sys
import tempfile
from dataclasses import dataclass
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
_BOUNDS: Final = {
    "round_ratio": ("at most", 1.1),
    "waited_median_seconds": ("at most", 0.2),
    "waited_below_1_second": ("at least", 0.95),
}


@dataclass(frozen=True, kw_only=True)
class DeploymentSettings(CommandSettings):
    """Settings of a run on SuperNodes: rounds with Dubhe, with random rounds before and after."""

    num_nodes: int = option(8, "SuperNodes, all on this host.", least=3, quick=3)
    num_participants: int = option(4, "Clients that train in a round.", least=1, quick=2)
    num_rounds: int = option(20, "Rounds of each kind; first ones do not count.", least=4, quick=4)
    registration_interval: int = option(10, "Rounds between registrations.", least=1)
    seconds: float = option(10.0, "Seconds of a training, which is a wait.")


def bench_deployment(settings: DeploymentSettings) -> BenchResults:
    """Run SuperNodes, and compare a round with Dubhe to one with random clients."""
    load = getloadavg()[0]
    measured = _measured(settings)
    random = [seconds for half in measured["random"] for seconds in half[1:]]
    dubhe, waited = measured["dubhe"][1:], measured["waited"][1:]
    figures = {
        "random_round_seconds": fmean(random),
        "dubhe_round_seconds": fmean(dubhe),
        "round_ratio": fmean(dubhe) / fmean(random),
        "waited_share": sum(waited) / sum(dubhe),
        "waited_median_seconds": median(waited),
        "waited_below_1_second": fmean(seconds < 1.0 for seconds in waited),
        "first_selection_seconds": measured["waited"][0],
        "first_selection_exchanges": len(measured["exchanges"][0]),
    }
    return BenchResults(
        config={**settings.flat(), **environment(["dubhe-flwr", "flwr"]), "load_before": load},
        figures=figures,
        bounds=_BOUNDS if settings == DeploymentSettings() else {},
        measured=measured,
        tables=[_table(settings, figures)],
    )


def _table(settings: DeploymentSettings, figures: dict[str, float]) -> Table:
    return Table(
        f"{settings.num_nodes} SuperNodes on this host, K = {settings.num_participants}, trainings "
        f"of {settings.seconds:g} s. Mean seconds of a round on the clock, the first one apart.",
        ("", "a round", "waits for its selection", "the first selection"),
        [
            ("FedAvg, random clients", f"{figures['random_round_seconds']:.1f} s", "", ""),
            (
                "Dubhe",
                f"{figures['dubhe_round_seconds']:.1f} s",
                f"{figures['waited_share']:.1%} of the time",
                f"{figures['first_selection_seconds']:.0f} s",
            ),
        ],
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
    from deployment import Federation  # noqa: PLC0415 - it is no part of any distribution

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
