"""A server that evaluates models of its choice: it reads off each node's labels from the metrics.

The model is a vector of logits, one for each class, the same for every sample. In round c the
server lets it predict class c, so a node's accuracy is the share of this class in its test data.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from apis import LABEL_COUNTS, NUM_CLASSES, NUM_NODES, TRAIN, label_counts
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.simulation import InProcessGrid

SHARES = LABEL_COUNTS / LABEL_COUNTS.sum(axis=1, keepdims=True)


class Curious(FedAvg):
    """Sends each node a model that always predicts the same class, another one in each round."""

    def __init__(self) -> None:
        super().__init__(fraction_evaluate=1.0)
        self.told: dict[int, dict[int, float]] = defaultdict(dict)  # accuracies by node and class

    def configure_evaluate(self, server_round: int, arrays: Any, *rest: Any) -> Iterable[Message]:
        logits = np.eye(NUM_CLASSES)[server_round - 1]
        return super().configure_evaluate(server_round, ArrayRecord([logits]), *rest)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Any:
        for reply in (replies := list(replies)):
            metrics: Any = reply.content.metric_records["metrics"]
            if "accuracy" in metrics:
                node_id = reply.metadata.src_node_id
                self.told[node_id][server_round - 1] = metrics["accuracy"]
        return super().aggregate_evaluate(server_round, replies)


def client_app(*, tells_metrics: bool) -> ClientApp:
    """Return an app that evaluates a model on labels like those that it trains with."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        (logits,) = message.content.array_records["arrays"].to_numpy_ndarrays()
        labels = np.repeat(np.arange(NUM_CLASSES), label_counts(context))
        told = {"accuracy": float(np.mean(labels == logits.argmax()))} if tells_metrics else {}
        metrics = MetricRecord({"num-examples": len(labels), **told})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    register_dubhe(app, label_counts, simulated=True, min_key_bits=512)
    return app


@pytest.mark.parametrize("tells_metrics", [True, False])
def test_what_evaluations_tell(tells_metrics: bool) -> None:
    """The label distributions of all nodes, unless the app returns no metrics."""
    grid = InProcessGrid(client_app(tells_metrics=tells_metrics), NUM_NODES)
    curious = Curious()
    strategy = TRAIN.dubhe(curious, simulation="plain")
    TRAIN.run(strategy, grid, num_rounds=NUM_CLASSES)
    seen = np.full(SHARES.shape, np.nan)
    for node_id, accuracies in curious.told.items():
        partition = int(grid.contexts[node_id].node_config["partition-id"])
        seen[partition, list(accuracies)] = list(accuracies.values())
    expected = SHARES if tells_metrics else np.full(SHARES.shape, np.nan)
    assert seen == pytest.approx(expected, nan_ok=True)
