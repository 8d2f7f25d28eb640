"""Nodes that add one to what they get, and hold skewed labels."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from dubhe_flwr.clientapp import register_dubhe

app = ClientApp()


def label_counts(context: Context) -> list[int]:
    """Return counts of four classes, one of which dominates."""
    counts = [2, 2, 2, 2]
    counts[int(context.node_config["partition-id"]) % 4] = 50
    return counts


register_dubhe(app, label_counts)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Add one to every parameter."""
    arrays = message.content.array_records["arrays"].to_numpy_ndarrays()
    trained = ArrayRecord([np.asarray(array) + 1 for array in arrays])
    metrics = MetricRecord({"num-examples": 58})
    return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)
