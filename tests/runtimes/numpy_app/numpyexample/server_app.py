"""Lets Dubhe choose the nodes, and says what came of it."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.serverapp import Dubhe

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    strategy = Dubhe(
        FedAvg(fraction_evaluate=0.0),
        num_participants=int(context.run_config["num-participants"]),
        reference_set=(1, 2, 4),
        thresholds={1: 0.7, 2: 0.2},
        expected_nodes=int(context.run_config["expected-nodes"]),
    )
    num_rounds = int(context.run_config["num-server-rounds"])
    result = strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=num_rounds)
    print("final model:", result.arrays.to_numpy_ndarrays()[0].tolist())  # noqa: T201
