"""Nodes with skewed labels, which only wait in training and report when they started."""

import time

BEGAN = time.time()  # before the app's own imports

import os  # noqa: E402
from pathlib import Path  # noqa: E402

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402

from dubhe_flwr.clientapp import register_dubhe  # noqa: E402

app = ClientApp()


def label_counts(context: Context) -> list[int]:
    """Return the counts of ten classes, two of which dominate."""
    partition = int(context.node_config["partition-id"])
    return [60 if label in {partition % 10, 3 * partition % 10} else 1 for label in range(10)]


register_dubhe(app, label_counts)
IMPORTED = time.time()


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


@app.query("empty")
def answer(message: Message, _context: Context) -> Message:
    """Return the times at which the process started, began with the app, and had imported it."""
    told = ConfigRecord({"started": started(), "began": BEGAN, "imported": IMPORTED})
    return Message(RecordDict({"times": told}), reply_to=message)


def started() -> float:
    """Return when this process started, according to Linux."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - since_boot + ticks / os.sysconf("SC_CLK_TCK")
