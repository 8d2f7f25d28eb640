"""Nodes with skewed labels whose training is a wait."""

import time

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from dubhe_flwr.clientapp import register_dubhe

app = ClientApp()


def label_counts(context: Context) -> list[int]:
    """Return the counts of ten classes, two of which dominate."""
    partition = int(context.node_config["partition-id"])
    return [60 if label in {partition % 10, 3 * partition % 10} else 1 for label in range(10)]


register_dubhe(app, label_counts)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Return the model as it came, after a while."""
    time.sleep(float(context.run_config["seconds"]))
    content = RecordDict(
        {
            "arrays": message.content.array_records["arrays"],
            "metrics": MetricRecord({"num-examples": 128}),
        }
    )
    return Message(content, reply_to=message)
