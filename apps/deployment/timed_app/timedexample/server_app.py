"""Times rounds of FedAvg with random clients and with Dubhe, in one run."""

import json
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.protocol import Plan
from dubhe_flwr.rules import Paper
from dubhe_flwr.serverapp import Dubhe
from timedexample.stopwatch import Stopwatch

app = ServerApp()

MEASURED = "measured: "
"""Prefix of the log line that holds all times as JSON."""
RULES: dict[str, dict[str, Any]] = {
    "committee": {},
    "paillier": {"rule": Paper((1, 2, 10))},
}
"""Settings of the two kinds of runs with Dubhe: the default, and the paper's."""


class Timed(FedAvg):
    """Federated averaging that records when each round ends."""

    def __init__(self, **options: Any) -> None:
        super().__init__(fraction_evaluate=0.0, **options)
        self.times: list[float] = []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate, and record the time."""
        aggregated = super().aggregate_train(server_round, replies)
        self.times.append(time.monotonic())
        return aggregated


def rounds(timed: Timed, strategy: Any, grid: Grid, num_rounds: int) -> list[float]:
    """Return how long each round took."""
    timed.times = [time.monotonic()]
    strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=num_rounds)
    return np.diff(timed.times).tolist()


def with_dubhe(grid: Grid, num_rounds: int, **settings: Any) -> dict[str, Any]:
    """Run rounds with Dubhe, and return all times."""
    timed, stopwatch = Timed(), Stopwatch(grid)
    waited: list[float] = []
    exchanges: list[list[str]] = []

    def note(plan: Plan, seconds: float) -> None:
        waited.append(seconds)
        exchanges.append([report.stage for report in plan.stages])

    dubhe = Dubhe(timed, on_selection=note, **settings)
    return {
        "rounds": rounds(timed, dubhe, stopwatch, num_rounds),
        "waited": waited,
        "exchanges": exchanges,
        "first_exchanges": stopwatch.exchanges,
        "empty_steps": stopwatch.steps,
    }


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run Dubhe's rounds among rounds with random clients, and print the times."""
    config = context.run_config
    num_rounds, number = int(config["num-rounds"]), int(config["num-participants"])
    num_nodes = int(config["num-nodes"])
    settings = {
        "num_participants": number,
        "expected_nodes": num_nodes,
        "registration_interval": int(config["registration-interval"]),
    }
    while len(list(grid.get_node_ids())) < num_nodes:
        time.sleep(1.0)
    random = Timed(fraction_train=number / num_nodes, min_available_nodes=num_nodes)
    part = -(-num_rounds // (len(RULES) + 1))
    measured: dict[str, Any] = {"random": [rounds(random, random, grid, part)]}
    for name, rule in RULES.items():
        measured[name] = with_dubhe(grid, num_rounds, **settings, **rule)
        measured["random"].append(rounds(random, random, grid, part))
    print(f"{MEASURED}{json.dumps(measured)}")  # noqa: T201 - the log is where results go
