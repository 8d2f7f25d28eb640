"""A server that sends models of its choice to train: it reads off labels from the updates.

It sends a network whose hidden units are off, whatever the sample. Only the last layer's bias is
then trained: a vector of logits, one for each class, which approaches the node's class shares.
"""

from collections.abc import Iterable
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


def step(logits: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logits after a step of SGD on samples with these class shares."""
    odds = np.exp(logits)
    return np.asarray(logits + RATE * (shares - odds / odds.sum()))


class Curious(FedAvg):
    """Guesses the class shares that lead to a node's logits, from the number of its samples."""

    def __init__(self) -> None:
        super().__init__(fraction_evaluate=0.0)
        self.guesses: dict[int, NDArray[np.float64]] = {}

    def configure_train(self, server_round: int, _arrays: Any, *rest: Any) -> Iterable[Message]:
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


app = ClientApp()


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


register_dubhe(app, label_counts, simulated=True, min_key_bits=512)


def test_what_updates_tell() -> None:
    """The label distribution of each node that trains, nearly exactly."""
    grid, curious = InProcessGrid(app, NUM_NODES), Curious()
    TRAIN.run(TRAIN.dubhe(curious, simulation="plain", equal_weights=False), grid, num_rounds=3)
    shares = LABEL_COUNTS / LABEL_COUNTS.sum(axis=1, keepdims=True)
    errors = []
    for node_id, guess in curious.guesses.items():
        own = shares[int(grid.contexts[node_id].node_config["partition-id"])]
        errors.append([np.abs(each - own).sum() for each in (guess, shares.mean(axis=0))])
    told, blind = np.median(errors, axis=0)
    assert len(errors) > 6
    assert told == pytest.approx(0.05 * blind, rel=0.1)
