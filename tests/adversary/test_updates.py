"""A server that sends models of its choice: it reads off labels from metrics and from updates.

Each model is a vector of logits, one for each class, the same for every sample: a network whose
hidden units are off, so that only the last layer's bias counts.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from apis import LABEL_COUNTS, NUM_CLASSES, NUM_NODES, TRAIN, label_counts
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.simulation import InProcessGrid

BATCH, RATE = 10, 0.1
SHARES = LABEL_COUNTS / LABEL_COUNTS.sum(axis=1, keepdims=True)

app = ClientApp()
register_dubhe(app, label_counts, simulated=True, min_key_bits=512)


def step(logits: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logits after a step of SGD on samples with these class shares."""
    odds = np.exp(logits)
    return np.asarray(logits + RATE * (shares - odds / odds.sum()))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for one epoch."""
    (logits,) = message.content.array_records["arrays"].to_numpy_ndarrays()
    labels = np.repeat(np.eye(NUM_CLASSES), label_counts(context), axis=0)
    labels = generator(0, "order").permutation(labels)
    for start in range(0, len(labels), BATCH):
        logits = step(logits, labels[start : start + BATCH].mean(axis=0))
    arrays, metrics = ArrayRecord([logits]), MetricRecord({"num-examples": len(labels)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate on labels like those for training."""
    (logits,) = message.content.array_records["arrays"].to_numpy_ndarrays()
    counts, metrics = label_counts(context), MetricRecord({"num-examples": 1})
    if context.run_config["tells-metrics"]:
        metrics["accuracy"] = float(counts[logits.argmax()] / counts.sum())
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


class Curious(FedAvg):
    """Notes accuracies, and guesses the class shares that lead to a node's logits."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[int, dict[int, float]] = defaultdict(dict)  # accuracies by node and class
        self.guesses: dict[int, NDArray[np.float64]] = {}

    def configure_train(self, server_round: int, _arrays: Any, *rest: Any) -> Iterable[Message]:
        """Send equal logits, which approach the node's class shares."""
        return super().configure_train(server_round, ArrayRecord([np.zeros(NUM_CLASSES)]), *rest)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        for reply in (replies := list(replies)):
            (told,) = reply.content.array_records["arrays"].to_numpy_ndarrays()
            metrics: Any = reply.content.metric_records["metrics"]
            num_steps, guess = -(-metrics["num-examples"] // BATCH), np.full(NUM_CLASSES, 0.25)
            for _ in range(100):
                logits = np.zeros(NUM_CLASSES)
                for _ in range(num_steps):
                    logits = step(logits, guess)
                guess = guess + (told - logits) / (RATE * num_steps)
            self.guesses[reply.metadata.src_node_id] = guess
        return super().aggregate_train(server_round, replies)

    def configure_evaluate(self, server_round: int, _arrays: Any, *rest: Any) -> Iterable[Message]:
        """Send a model that always predicts the same class, another one in each round."""
        logits = np.eye(NUM_CLASSES)[server_round - 1]
        return super().configure_evaluate(server_round, ArrayRecord([logits]), *rest)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Any:
        for reply in (replies := list(replies)):
            metrics: Any = reply.content.metric_records["metrics"]
            if "accuracy" in metrics:
                node_id = reply.metadata.src_node_id
                self.told[node_id][server_round - 1] = metrics["accuracy"]
        return super().aggregate_evaluate(server_round, replies)


@cache
def attacked(*, tells_metrics: bool) -> tuple[Curious, list[int]]:
    """Return what the server found out, and the ids of the nodes in the order of their labels."""
    grid, curious = InProcessGrid(app, NUM_NODES, {"tells-metrics": tells_metrics}), Curious()
    strategy = TRAIN.dubhe(curious, simulation="plain", equal_weights=False)
    TRAIN.run(strategy, grid, num_rounds=NUM_CLASSES)
    return curious, list(grid.contexts)


@pytest.mark.parametrize("tells_metrics", [True, False])
def test_what_evaluations_tell(tells_metrics: bool) -> None:
    """The label distributions of all nodes, unless the app returns no metrics."""
    curious, ids = attacked(tells_metrics=tells_metrics)
    assert set(curious.told) == set(ids if tells_metrics else [])
    for node_id, accuracies in curious.told.items():
        found = [accuracies[label] for label in range(NUM_CLASSES)]
        assert found == pytest.approx(SHARES[ids.index(node_id)])


def test_what_updates_tell() -> None:
    """The label distribution of each node that trains, nearly exactly."""
    curious, ids = attacked(tells_metrics=False)
    guessed = {ids.index(node_id): guess for node_id, guess in curious.guesses.items()}
    errors = [
        [np.abs(each - SHARES[row]).sum() for each in (guess, SHARES.mean(axis=0))]
        for row, guess in guessed.items()
    ]
    told, blind = np.median(errors, axis=0)
    assert len(errors) > 6
    assert told == pytest.approx(0.05 * blind, rel=0.1)
