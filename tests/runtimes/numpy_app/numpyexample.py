"""Nodes that add one to what they get and hold skewed labels, and a server that selects them."""

import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.rules import Paper, Prices
from dubhe_flwr.serverapp import Dubhe


class HaltingApp(ClientApp):
    """Waits at a stage where a test asks for it, so that the test can strike at just that moment.

    The test puts a file `STAGE-PARTITION` or `STAGE-any` into the folder; a node that gets there
    renames it to `halted-STAGE-PARTITION` and waits until it is gone.
    """

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer a message, now or later."""
        folder = Path(str(context.run_config["halts"]))
        partition = context.node_config["partition-id"]
        stage = message.metadata.message_type.removeprefix("evaluate.dubhe_")
        halted = folder / f"halted-{stage}-{partition}"
        for asked in (folder / f"{stage}-{partition}", folder / f"{stage}-any"):
            with suppress(FileNotFoundError):
                asked.rename(halted)
        while halted.exists():
            time.sleep(0.2)
        return super().__call__(message, context)


client_app = HaltingApp()


def label_counts(context: Context) -> list[int]:
    """Return counts of four classes, one of which dominates."""
    counts = [2, 2, 2, 2]
    counts[int(context.node_config["partition-id"]) % 4] = 50
    return counts


def simulated(context: Context) -> bool:
    """Return whether the test says so; real nodes do not let a server decide that."""
    return bool(context.run_config["simulated"])


register_dubhe(client_app, label_counts, simulated=simulated)


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Add one to every parameter."""
    arrays = message.content.array_records["arrays"].to_numpy_ndarrays()
    trained = ArrayRecord([np.asarray(array) + 1 for array in arrays])
    metrics = MetricRecord({"num-examples": 58})
    return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)


server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds, and print who was selected and what came of it."""
    config = context.run_config
    timeout, is_simulated = float(config["stage-timeout"]), bool(config["simulated"])
    strategy = Dubhe(
        FedAvg(fraction_evaluate=0.0),
        num_participants=3,
        rule=Prices() if is_simulated else Paper((1, 2, 4), {1: 0.7, 2: 0.2}),
        seed=1 if is_simulated else None,
        simulation="encrypted" if is_simulated else None,
        on_selection=lambda plan, _seconds: print("selected:", *plan.aliases),  # noqa: T201
        equal_weights=True,
        expected_nodes=int(config["expected-nodes"]),
        stage_timeout=timeout,
    )
    result = strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=2, timeout=timeout)
    print("final model:", result.arrays.to_numpy_ndarrays()[0].tolist())  # noqa: T201
