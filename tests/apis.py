"""A small federation in both of Flower's APIs, for the tests that need a runtime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server import strategy as of_server
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp import strategy as of_serverapp
from numpy.typing import NDArray

from dubhe_flwr import server, serverapp
from dubhe_flwr.adapter.wrapped import layers
from dubhe_flwr.clientapp import DubheMod, register_dubhe
from dubhe_flwr.protocol import Plan
from dubhe_flwr.rules import Paper, Tries
from dubhe_flwr.simulation import InProcessGrid, run_on_grid

NUM_NODES = 24
NUM_CLASSES = 4
SELECTION: dict[str, Any] = {
    "num_participants": 6,
    "rule": Paper((1, 2, NUM_CLASSES), {1: 0.7, 2: 0.2}),
    "equal_weights": True,
    "simulation": "encrypted",
    "rounds_per_draw": 1,
    "determination": Tries(4),
    "key_bits": 512,
    "seed": 7,
}
MODEL = [np.zeros(3), np.ones((2, 2))]
WRAPPERS: dict[str, tuple[float, ...]] = {
    "ServerSideFixed": (0.1, 1.0),
    "ClientSideFixed": (0.1, 1.0),
    "ServerSideAdaptive": (0.1,),
    "ClientSideAdaptive": (0.1,),
}
"""Flower's wrappers for differential privacy, and their noise and norm."""


def skewed_label_counts(num_nodes: int = NUM_NODES) -> NDArray[np.int64]:
    """Return label counts of shape (N, C) in which low classes are frequent."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(0.3 * np.arange(NUM_CLASSES, 0, -1), size=num_nodes)
    return np.array([rng.multinomial(64, share) for share in shares], dtype=np.int64)


LABEL_COUNTS = skewed_label_counts()


def label_counts(context: Context) -> NDArray[np.int64]:
    """Return a node's own row of the federation."""
    return np.asarray(LABEL_COUNTS[int(context.node_config["partition-id"])])


def node_context(partition: int = 3, **node_config: Any) -> Context:
    """Return the Context of a node outside any run."""
    config = {"partition-id": partition, **node_config}
    return Context(run_id=17, node_id=99, node_config=config, state=RecordDict(), run_config={})


class Trainer(NumPyClient):
    """Adds its partition-id and 1 to every parameter, and tells it in its metrics."""

    def __init__(self, partition: int) -> None:
        self.partition = partition

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Any]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Any]]:
        trained = [array + self.partition + 1 for array in parameters]
        return trained, 10 + self.partition, {"partition": self.partition, **config}


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


class Killed(BaseException):
    """Ends a ServerApp as a signal would: nothing on the way catches it."""


class WatchedGrid(InProcessGrid):
    """Notes who gets what."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.batches: list[tuple[str, list[int]]] = []

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        nodes = [self.contexts[message.metadata.dst_node_id] for message in messages]
        kind = messages[0].metadata.message_type if messages else ""
        self.batches.append((kind, [int(node.node_config["partition-id"]) for node in nodes]))
        return super().push_messages(messages)

    def got(self, kind: str, size: int = 6) -> list[list[int]]:
        """Return the partitions that got messages of a type, in order, in groups of a size."""
        all_of_them = [partition for of, batch in self.batches if of == kind for partition in batch]
        starts = range(0, len(all_of_them), size)
        return [sorted(all_of_them[start : start + size]) for start in starts]


class Api:
    """What differs between the APIs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_fit = name == "fit"
        self.flower: Any = of_server if self.is_fit else of_serverapp
        self.ours: Any = server if self.is_fit else serverapp
        self._dubhe = type("RecordedDubhe", (Recorded, self.ours.Dubhe), {})
        self._selection = type("RecordedSelection", (Recorded, self.ours.Selection), {})

    def __repr__(self) -> str:
        return self.name

    def client_app(self, *counts: Any, **options: Any) -> ClientApp:
        """Return an app whose nodes add their partition-id and 1 to the model."""
        make = numpy_client_app if self.is_fit else message_client_app
        return make(*counts, **options)

    def grid(self, *counts: Any, num_nodes: int = NUM_NODES, seed: int = 0, **app: Any) -> Any:
        """Return nodes that wait for a ServerApp; more arguments are those of the client app."""
        return WatchedGrid(self.client_app(*counts, **app), num_nodes, seed=seed)

    def wrapped(self, kind: str = "FedAvg", **options: Any) -> Any:
        """Return a strategy of Flower, which evaluates on no client unless it is told."""
        if self.is_fit:
            options["initial_parameters"] = initial_parameters()
        return getattr(self.flower, kind)(**{"fraction_evaluate": 0.0, **options})

    def wanting(self, fraction: float = 1.0, least: int = 2) -> dict[str, Any]:
        """Return options by which a strategy takes that fraction of at least so many nodes."""
        if self.is_fit:
            return {"fraction_fit": fraction, "min_fit_clients": 2, "min_available_clients": least}
        return {"fraction_train": fraction, "min_train_nodes": 2, "min_available_nodes": least}

    def private(self, kind: str, strategy: Any, number: int = 6) -> Any:
        """Return a strategy within one of Flower's wrappers for differential privacy."""
        wrapper = getattr(self.flower, f"DifferentialPrivacy{kind}Clipping")
        return wrapper(strategy, *WRAPPERS[kind], number)

    def dubhe(self, wrapped: Any = None, **settings: Any) -> Any:
        """Return Dubhe around a strategy; it keeps its plans."""
        return self._dubhe(wrapped or self.wrapped(), **{**SELECTION, **settings})

    def selection(self, selector: Any, wrapped: Any = None, **options: Any) -> Any:
        """Return a selection by another selector; it keeps its plans."""
        return self._selection(wrapped or self.wrapped(), selector, **options)

    def run(self, strategy: Any, grid: Grid, num_rounds: int = 3) -> list[NDArray[Any]]:
        """Run a ServerApp to the end of the given round and return the model."""
        if not self.is_fit:
            context = run_on_grid(main_server_app(strategy, num_rounds), grid)
            return context.state.array_records["arrays"].to_numpy_ndarrays()
        models: list[Any] = []

        def evaluate(_round: int, arrays: Any, _config: Any) -> tuple[float, dict[str, Any]]:
            models.append(arrays)
            return 1.0, {}

        layers(strategy)[-1].evaluate_fn = evaluate
        rounds_left = getattr(strategy, "rounds_left", lambda number: number)
        run_on_grid(strategy_server_app(strategy, rounds_left(num_rounds)), grid)
        return list(models[-1])


FIT, TRAIN = Api("fit"), Api("train")
in_both_apis = pytest.mark.parametrize("api", [FIT, TRAIN], ids=str)


def same(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> bool:
    """Tell whether two models are the same bit for bit."""
    return [a.tobytes() for a in one] == [b.tobytes() for b in other]
