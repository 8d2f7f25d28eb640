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


def with_dubhe(grid: Grid, num_rounds: int, num_selections: int, **settings: Any) -> dict[str, Any]:
    """Run rounds with Dubhe, then only first rounds until `num_selections`; return all times."""
    waited: list[float] = []
    exchanges: list[list[str]] = []

    def note(plan: Plan, seconds: float) -> None:
        waited.append(seconds)
        exchanges.append([report.stage for report in plan.stages])

    stopwatches = [Stopwatch(grid) for _ in range(num_selections)]
    times: list[float] = []
    for stopwatch in stopwatches:
        timed = Timed()
        dubhe = Dubhe(timed, on_selection=note, **settings)
        times += rounds(timed, dubhe, stopwatch, 1 if times else num_rounds)
    return {
        "rounds": times[:num_rounds],
        "waited": waited[:num_rounds],
        "exchanges": exchanges[:num_rounds],
        "first_exchanges": [stopwatch.exchanges for stopwatch in stopwatches],
        "empty_steps": [steps for stopwatch in stopwatches for steps in stopwatch.steps],
    }


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run Dubhe's rounds among rounds with random clients, and print the times."""
    config = context.run_config
    num_rounds, number = int(config["num-rounds"]), int(config["num-participants"])
    num_nodes, num_selections = int(config["num-nodes"]), int(config["num-selections"])
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
        measured[name] = with_dubhe(grid, num_rounds, num_selections, **settings, **rule)
        measured["random"].append(rounds(random, random, grid, part))
    print(f"{MEASURED}{json.dumps(measured)}")  # noqa: T201 - the log is where results go
