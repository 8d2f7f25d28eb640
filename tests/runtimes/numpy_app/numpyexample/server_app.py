"""Lets Dubhe choose the nodes, and says what came of it."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.adapter.transport import ForwardingGrid
from dubhe_flwr.protocol import Plan
from dubhe_flwr.rules import Paper, Prices
from dubhe_flwr.serverapp import Dubhe

app = ServerApp()

REFERENCE_SET = (1, 2, 4)
THRESHOLDS = {1: 0.7, 2: 0.2}


class RecordingGrid(ForwardingGrid):
    """Writes down all that passes through it: `sent` and `received` in a folder."""

    def __init__(self, grid: Grid, folder: Path) -> None:
        super().__init__(grid)
        self.folder = folder

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Pass them on and write down both directions."""
        messages = list(messages)
        self.write("sent", messages)
        replies = list(super().send_and_receive(messages, timeout=timeout))
        self.write("received", replies)
        return replies

    def write(self, name: str, messages: Iterable[Message]) -> None:
        """Append every value of every record."""
        with (self.folder / name).open("ab") as file:
            for message in messages:
                if message.has_error():
                    continue
                for record in message.content.values():
                    for value in record.values():
                        data = getattr(value, "data", value)
                        file.write(data if isinstance(data, bytes) else repr(data).encode())
                        file.write(b"|")


def show(plan: Plan, _seconds: float) -> None:
    """Print who was selected."""
    print("selected:", *plan.aliases)  # noqa: T201


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    if folder := str(context.run_config["record"]):
        grid = RecordingGrid(grid, Path(folder))
    timeout = float(context.run_config["stage-timeout"])
    simulated = bool(context.run_config["simulated"])
    strategy = Dubhe(
        FedAvg(fraction_evaluate=0.0),
        num_participants=int(context.run_config["num-participants"]),
        rule=Prices() if simulated else Paper(REFERENCE_SET, THRESHOLDS),
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
