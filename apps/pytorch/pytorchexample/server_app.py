"""pytorchexample: the server, written with the Message API."""

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.serverapp import Dubhe
from pytorchexample.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run federated learning from the first round to the last."""
    num_rounds = int(context.run_config["num-server-rounds"])
    lr = float(context.run_config["learning-rate"])

    arrays = ArrayRecord(Net().state_dict())

    strategy = Dubhe(FedAvg(fraction_evaluate=1.0), num_participants=5)

    result = strategy.start(
        grid=grid,
        initial_arrays=arrays,
        train_config=ConfigRecord({"lr": lr}),
        num_rounds=num_rounds,
    )

    context.state["final-arrays"] = result.arrays
