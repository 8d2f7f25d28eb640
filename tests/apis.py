"""The two APIs of Flower's strategies, for tests that hold in both."""

from typing import Any

import pytest
from flwr.clientapp import ClientApp
from flwr.server import strategy as of_server
from flwr.serverapp import Grid
from flwr.serverapp import strategy as of_serverapp
from numpy.typing import NDArray
from support import (
    NUM_NODES,
    SELECTION,
    Recorded,
    initial_parameters,
    main_server_app,
    message_client_app,
    numpy_client_app,
    strategy_server_app,
)

from dubhe_flwr import server, serverapp
from dubhe_flwr.adapter.wrapped import layers
from dubhe_flwr.simulation import InProcessGrid, run_on_grid


class Killed(BaseException):
    """Ends a ServerApp as a signal would: nothing on the way catches it."""


class WatchedGrid(InProcessGrid):
    """Notes who gets what, and may end the ServerApp once nodes have answered a message."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.batches: list[tuple[str, list[int]]] = []
        self.stop_after = ""

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        nodes = [self.contexts[message.metadata.dst_node_id] for message in messages]
        kind = messages[0].metadata.message_type if messages else ""
        self.batches.append((kind, [int(node.node_config["partition-id"]) for node in nodes]))
        message_ids = super().push_messages(messages)
        if self.stop_after and self.stop_after == kind:
            self.stop_after = ""
            raise Killed
        return message_ids

    def got(self, kind: str, size: int = 6) -> list[list[int]]:
        """Return the partitions that got messages of a type, in order, so many at a time."""
        all_of_them = [partition for of, batch in self.batches if of == kind for partition in batch]
        starts = range(0, len(all_of_them), size)
        return [sorted(all_of_them[start : start + size]) for start in starts]

    @property
    def stages(self) -> list[str]:
        """The stages of the protocol, batch by batch."""
        prefix = "evaluate.dubhe_"
        return [kind.removeprefix(prefix) for kind, _ in self.batches if kind.startswith(prefix)]


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
