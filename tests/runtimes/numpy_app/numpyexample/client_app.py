"""Nodes that add one to what they get, and hold skewed labels."""

import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from dubhe_flwr.clientapp import register_dubhe


class HaltingApp(ClientApp):
    """Waits at a stage where a test asks for it, so that the test can strike at just that moment.

    The test puts a file `STAGE-PARTITION` or `STAGE-any` into the folder; a node that gets there
    renames it to `halted-STAGE-PARTITION` and waits until it is gone.
    """

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer a message, now or later."""
        if folder := str(context.run_config["halts"]):
            stage = message.metadata.message_type.removeprefix("evaluate.dubhe_")
            self.halt(Path(folder), stage, str(context.node_config["partition-id"]))
        return super().__call__(message, context)

    def halt(self, folder: Path, stage: str, partition: str) -> None:
        """Wait if this node, or any, is to halt at this stage."""
        halted = folder / f"halted-{stage}-{partition}"
        for asked in (folder / f"{stage}-{partition}", folder / f"{stage}-any"):
            try:
                asked.rename(halted)
            except FileNotFoundError:
                continue
        while halted.exists():
            time.sleep(0.2)


app = HaltingApp()


def label_counts(context: Context) -> list[int]:
    """Return counts of four classes, one of which dominates."""
    counts = [2, 2, 2, 2]
    counts[int(context.node_config["partition-id"]) % 4] = 50
    return counts


def simulated(context: Context) -> bool:
    """Return whether the test says so; real nodes do not let a server decide that."""
    return bool(context.run_config["simulated"])


register_dubhe(app, label_counts, simulated=simulated)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Add one to every parameter."""
    arrays = message.content.array_records["arrays"].to_numpy_ndarrays()
    trained = ArrayRecord([np.asarray(array) + 1 for array in arrays])
    metrics = MetricRecord({"num-examples": 58})
    return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)
