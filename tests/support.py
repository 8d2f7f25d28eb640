"""A small federation and the apps of both APIs, for the tests that need a Flower runtime."""

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from dubhe_flwr.clientapp import DubheMod, register_dubhe
from dubhe_flwr.protocol import Plan
from dubhe_flwr.rules import Paper

NUM_NODES = 24
NUM_CLASSES = 4
SELECTION: dict[str, Any] = {
    "num_participants": 6,
    "rule": Paper((1, 2, NUM_CLASSES), {1: 0.7, 2: 0.2}),
    "equal_weights": True,
    "simulation": "encrypted",
    "tries": 4,
    "key_bits": 512,
    "seed": 7,
}
MODEL = [np.zeros(3), np.ones((2, 2))]


def skewed_label_counts(num_nodes: int = NUM_NODES, seed: int = 0) -> NDArray[np.int64]:
    """Return label counts of shape (N, C) in which low classes are frequent."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(0.3 * np.arange(NUM_CLASSES, 0, -1), size=num_nodes)
    return np.array([rng.multinomial(64, share) for share in shares], dtype=np.int64)


LABEL_COUNTS = skewed_label_counts()


def label_counts(context: Context) -> NDArray[np.int64]:
    """Return a node's own row of the federation."""
    return np.asarray(LABEL_COUNTS[int(context.node_config["partition-id"])])


class Trainer(NumPyClient):
    """Adds its partition-id and 1 to every parameter, and tells it in its metrics."""

    def __init__(self, partition: int) -> None:
        self.partition = partition

    def get_parameters(self, config: dict[str, Any]) -> list[NDArray[Any]]:
        return MODEL

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Any]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Any]]:
        trained = [array + self.partition + 1 for array in parameters]
        return trained, 10 + self.partition, {"partition": self.partition, **config}

    def evaluate(
        self, parameters: list[NDArray[Any]], config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        return float(parameters[0].mean()) + 1.0, 10, {"partition": self.partition}


def numpy_client_app(
    counts: Callable[[Context], Any] = label_counts, mods: tuple[Any, ...] = (), **options: Any
) -> ClientApp:
    """Return a ClientApp of NumPyClients with the mod."""

    def client_fn(context: Context) -> Any:
        return Trainer(int(context.node_config["partition-id"])).to_client()

    options = {"simulated": True, "min_key_bits": 512, **options}
    return ClientApp(client_fn=client_fn, mods=[DubheMod(counts, **options), *mods])


def message_client_app(
    counts: Callable[[Context], Any] = label_counts, mods: tuple[Any, ...] = (), **options: Any
) -> ClientApp:
    """Return a ClientApp of the Message API with the handlers registered."""
    app = ClientApp()

    @app.train(mods=list(mods))
    def train(message: Message, context: Context) -> Message:
        partition = int(context.node_config["partition-id"])
        arrays = message.content.array_records["arrays"].to_numpy_ndarrays()
        metrics = MetricRecord(
            {"num-examples": 10 + partition, "train_loss": 1.0, "partition": partition}
        )
        trained = ArrayRecord([array + partition + 1 for array in arrays])
        return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": 10, "eval_loss": 1.0})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    register_dubhe(app, counts, **{"simulated": True, "min_key_bits": 512, **options})
    return app


def strategy_server_app(strategy: Any, num_rounds: int) -> ServerApp:
    """Return a ServerApp for a strategy with `configure_fit`."""

    def server_fn(context: Context) -> ServerAppComponents:
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=num_rounds))

    return ServerApp(server_fn=server_fn)


def main_server_app(strategy: Any, num_rounds: int) -> ServerApp:
    """Return a ServerApp for a strategy with `configure_train`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        result = strategy.start(grid, ArrayRecord(MODEL), num_rounds=num_rounds)
        context.state["arrays"] = result.arrays

    return app


def initial_parameters() -> Any:
    """Return the model as the configure_fit API wants it."""
    return ndarrays_to_parameters(MODEL)


class Recorded:
    """Mixin for a Dubhe strategy that keeps every plan."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.plans: list[Plan] = []
        told = options.pop("on_selection", lambda _plan, _seconds: None)

        def keep(plan: Plan, seconds: float) -> Any:
            self.plans.append(plan)
            return told(plan, seconds)

        super().__init__(*arguments, on_selection=keep, **options)  # type: ignore[call-arg]

    @property
    def selected(self) -> list[list[int]]:
        """The partition-ids selected in each round."""
        return [[int(alias) for alias in plan.aliases] for plan in self.plans]
