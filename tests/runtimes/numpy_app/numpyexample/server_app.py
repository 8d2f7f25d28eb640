"""Lets Dubhe choose the nodes, and says what came of it."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.protocol import Plan
from dubhe_flwr.rules import Paper, Prices
from dubhe_flwr.serverapp import Dubhe

app = ServerApp()


def show(plan: Plan, _seconds: float) -> None:
    """Print who was selected."""
    print("selected:", *plan.aliases)  # noqa: T201


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    timeout = float(context.run_config["stage-timeout"])
    simulated = bool(context.run_config["simulated"])
    strategy = Dubhe(
        FedAvg(fraction_evaluate=0.0),
        num_participants=int(context.run_config["num-participants"]),
        rule=Prices() if simulated else Paper((1, 2, 4), {1: 0.7, 2: 0.2}),
        seed=1 if simulated else None,
        simulation="encrypted" if simulated else None,
        on_selection=show,
        equal_weights=True,
        expected_nodes=int(context.run_config["expected-nodes"]),
        stage_timeout=timeout,
        checkpoint_dir=str(context.run_config["checkpoint-dir"]),
    )
    num_rounds = int(context.run_config["num-server-rounds"])
    arrays = ArrayRecord([np.zeros(2)])
    result = strategy.start(grid, arrays, num_rounds=num_rounds, timeout=timeout)
    print("final model:", result.arrays.to_numpy_ndarrays()[0].tolist())  # noqa: T201
