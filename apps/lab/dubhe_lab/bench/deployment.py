"""What a round takes on SuperNodes of this host: with Dubhe, and with random clients."""

import json
import sys
import tempfile
from dataclasses import dataclass
from os import getloadavg
from pathlib import Path
from statistics import median
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
    """What is measured: blocks of rounds on SuperNodes, in turn with Dubhe and without."""

    num_nodes: int = option(8, "SuperNodes, all on this host.", least=3, quick=3)
    num_participants: int = option(4, "Clients that train in a round.", least=1, quick=2)
    num_rounds: int = option(20, "Rounds of a block; the first one does not count.", least=2)
    repeats: int = option(1, "Blocks of each kind.", least=1)
    registration_interval: int = option(10, "Rounds between registrations.", least=1)
    seconds: float = option(10.0, "Seconds of a training, which is a wait.")


def bench_deployment(settings: DeploymentSettings) -> BenchResults:
    """Run SuperNodes, and compare a round with Dubhe to one with random clients."""
    load = getloadavg()[0]
    blocks = _blocks(settings)
    of = {
        kind: [block for block in blocks if block["selection"] == kind]
        for kind in ("random", "dubhe")
    }
    later = {
        kind: [seconds for block in of[kind] for seconds in block["seconds"][1:]] for kind in of
    }
    waited = [seconds for block in of["dubhe"] for seconds in block["waited"][1:]]
    first = [block["waited"][0] for block in of["dubhe"]]
    means = {kind: sum(seconds) / len(seconds) for kind, seconds in later.items()}
    figures = {
        "random_round_seconds": means["random"],
        "dubhe_round_seconds": means["dubhe"],
        "round_ratio": means["dubhe"] / means["random"],
        "waited_share": sum(waited) / sum(later["dubhe"]),
        "waited_median_seconds": median(waited),
        "waited_below_1_second": sum(seconds < 1.0 for seconds in waited) / len(waited),
        "first_selection_seconds": median(first),
        "first_selection_exchanges": len(of["dubhe"][0]["exchanges"][0]),
    }
    return BenchResults(
        config={**settings.flat(), **environment(["dubhe-flwr", "flwr"]), "load_before": load},
        figures=figures,
        bounds=_BOUNDS if settings == DeploymentSettings() else {},
        measured={"blocks": blocks},
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


def _blocks(settings: DeploymentSettings) -> list[dict[str, Any]]:
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
    blocks: list[dict[str, Any]] = json.loads(lines[-1])
    return blocks
