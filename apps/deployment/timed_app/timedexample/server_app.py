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
from dubhe_flwr.serverapp import Dubhe

app = ServerApp()

MEASURED = "measured: "
"""What the line of the log begins with that has all times as JSON."""


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

    def seconds(self) -> list[float]:
        """Return how long each round took."""
        return np.diff(self.times).tolist()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run Dubhe's rounds between two halves of those with random clients, and print the times."""
    config = context.run_config
    num_rounds, number = int(config["num-rounds"]), int(config["num-participants"])
    num_nodes = int(config["num-nodes"])
    while len(list(grid.get_node_ids())) < num_nodes:
        time.sleep(1.0)

    def rounds(timed: Timed, strategy: Any, num_rounds: int) -> list[float]:
        timed.times = [time.monotonic()]
        strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=num_rounds)
        return timed.seconds()

    waited: list[float] = []
    exchanges: list[list[str]] = []

    def note(plan: Plan, seconds: float) -> None:
        waited.append(seconds)
        exchanges.append([report.stage for report in plan.stages])

    random = Timed(fraction_train=number / num_nodes, min_available_nodes=num_nodes)
    timed = Timed()
    dubhe = Dubhe(
        timed,
        num_participants=number,
        expected_nodes=num_nodes,
        registration_interval=int(config["registration-interval"]),
        on_selection=note,
    )
    before = rounds(random, random, num_rounds // 2)
    with_dubhe = rounds(timed, dubhe, num_rounds)
    after = rounds(random, random, num_rounds - num_rounds // 2)
    measured = {
        "random": [before, after],
        "dubhe": with_dubhe,
        "waited": waited,
        "exchanges": exchanges,
    }
    print(f"{MEASURED}{json.dumps(measured)}")  # noqa: T201 - the log is where results go
