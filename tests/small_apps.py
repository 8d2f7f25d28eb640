"""Minimal versions of Flower's examples, each with the lines that add Dubhe.

An app is a pair of names, such as `sklearn_server` and `sklearn_client`, also for `flwr run`.
"""

import json
from typing import Any, Final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import fixedclipping_mod, secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server import strategy as of_server
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, FedXgbBagging
from numpy.typing import NDArray

from dubhe_flwr import count_labels, server, serverapp
from dubhe_flwr.clientapp import DubheMod, register_dubhe

ROUNDS: Final = 2
SELECTION: Final[dict[str, Any]] = {"num_participants": 5, "simulation": "plain", "seed": 0}


def data(context: Context) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a node's features and labels: three classes, of which one is frequent."""
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    labels = rng.choice(3, 30, p=rng.dirichlet([3, 1, 0.5]))
    return np.eye(3)[labels] + rng.normal(0, 0.1, (30, 3)), labels


def label_counts(context: Context) -> NDArray[np.int64]:
    """Return the node's label counts."""
    return count_labels(data(context)[1], num_classes=3)


def reply(message: Message, arrays: Any, **metrics: float) -> Message:
    """Return a node's model or statistics."""
    content = RecordDict({"arrays": ArrayRecord(arrays)})
    content["metrics"] = MetricRecord({"num-examples": 30, **metrics})
    return Message(content, reply_to=message)


START: Final = [np.zeros((3, 3)), np.zeros(3)]


def kept(context: Context, outcome: float) -> None:
    """Write a run's result to the place where a test finds it."""
    context.state["outcome"] = MetricRecord({"outcome": outcome})


# quickstart-xgboost: trees in bytes, put together by FedXgbBagging, with `configure_train`.
xgboost_server = ServerApp()
xgboost_client = ClientApp()
register_dubhe(xgboost_client, label_counts, simulated=True)


@xgboost_client.train()
def train_xgboost(message: Message, context: Context) -> Message:
    """Return a booster of one tree, as XGBoost writes it."""
    model = {
        "gbtree_model_param": {"num_trees": "1", "num_parallel_tree": "1"},
        "trees": [{"id": 0}],
        "tree_info": [0],
        "iteration_indptr": [0, 1],
    }
    booster = json.dumps({"learner": {"gradient_booster": {"model": model}}}).encode()
    return reply(message, [np.frombuffer(booster, dtype=np.uint8)])


@xgboost_server.main()
def main_xgboost(grid: Grid, context: Context) -> None:
    """Begin without a booster."""
    strategy = serverapp.Dubhe(FedXgbBagging(fraction_evaluate=0.0), **SELECTION)
    empty = ArrayRecord([np.empty(0, dtype=np.uint8)])
    result = strategy.start(grid, empty, num_rounds=ROUNDS)
    booster = json.loads(result.arrays["0"].numpy().tobytes())
    kept(context, len(booster["learner"]["gradient_booster"]["model"]["trees"]))


# fl-dp-sa and flower-secure-aggregation: a NumPyClient with mods, noise and masked models.
class Client(NumPyClient):
    """Adds a tenth of its partition-id to every parameter."""

    def __init__(self, context: Context) -> None:
        self.tenth = int(context.node_config["partition-id"]) / 10

    def fit(self, parameters: Any, config: Any) -> Any:
        """Return the model after it."""
        return [array + self.tenth for array in parameters], 30, {}


masked_server = ServerApp()
masked_client = ClientApp(
    client_fn=lambda context: Client(context).to_client(),
    mods=[DubheMod(label_counts, simulated=True), secaggplus_mod, fixedclipping_mod],
)


@masked_server.main()
def main_masked(grid: Grid, context: Context) -> None:
    """Record how far what clients masked is from the mean of those that Dubhe selected."""
    models, selected = list[Any](), list[int]()
    strategy = of_server.DifferentialPrivacyClientSideFixedClipping(
        of_server.FedAvg(
            fraction_evaluate=0.0,
            initial_parameters=ndarrays_to_parameters(START),
            evaluate_fn=lambda _round, model, _config: models.append(model),
        ),
        noise_multiplier=1e-4,
        clipping_norm=10.0,
        num_sampled_clients=5,
    )
    take_note = lambda plan, _seconds: selected.extend(map(int, plan.aliases))  # noqa: E731
    dubhe = server.Dubhe(strategy, equal_weights=True, on_selection=take_note, **SELECTION)
    legacy = LegacyContext(context, config=ServerConfig(num_rounds=ROUNDS), strategy=dubhe)
    secure = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2, max_weight=100)
    DefaultWorkflow(fit_workflow=secure)(grid, legacy)
    assert dubhe.driver.run.last == ROUNDS
    kept(context, float(np.abs(models[-1][0] - sum(selected) / 50).max()))


# quickstart-sklearn, advanced-pytorch and custom-mods: a model of scikit-learn, a strategy with a
# `start` and a schedule of its own, nodes that remember, and a mod that reads each config.
def reads_config(message: Message, context: Context, call_next: Any) -> Message:
    """Read the round from a message, as the app's mod does; Dubhe's messages have none."""
    assert message.content.config_records["config"]["server-round"] in {1, 2}
    answer: Message = call_next(message, context)
    return answer


advanced_server = ServerApp()
advanced_client = ClientApp(mods=[reads_config])
register_dubhe(advanced_client, label_counts, simulated=True)


class KeepsBest(FedAvg):
    """Halves the learning rate, and keeps the best model."""

    best = 0.0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Any:
        """Tell nodes another rate in each round."""
        config["rate"] = 1 / server_round
        return super().configure_train(server_round, arrays, config, grid)

    def start(self, grid: Grid, initial_arrays: ArrayRecord, num_rounds: int = 3, *_: Any) -> Any:
        """Run the rounds by itself."""
        for server_round in range(1, num_rounds + 1):
            messages = self.configure_train(server_round, initial_arrays, ConfigRecord(), grid)
            arrays, metrics = self.aggregate_train(server_round, grid.send_and_receive(messages))
            initial_arrays = arrays or initial_arrays
            accuracy = metrics["accuracy"] if metrics else 0.0
            assert isinstance(accuracy, float)
            self.best = max(self.best, accuracy)


@advanced_server.main()
def main_advanced(grid: Grid, context: Context) -> None:
    """Record the best model that the strategy kept."""
    strategy = serverapp.Dubhe(KeepsBest(), **SELECTION)
    strategy.start(grid, ArrayRecord(START), num_rounds=ROUNDS)
    kept(context, strategy.best)


@advanced_client.train()
def train_advanced(message: Message, context: Context) -> Message:
    """Fit a model that begins with the global one, and keep it in the node's state."""
    from sklearn.linear_model import SGDClassifier

    assert message.content.config_records["config"]["rate"] in {1.0, 0.5}
    classifier = SGDClassifier(random_state=0)
    global_model = message.content.array_records["arrays"].to_numpy_ndarrays()
    classifier.coef_, classifier.intercept_ = global_model
    classifier.partial_fit(*data(context), classes=[0, 1, 2])
    model = [classifier.coef_, classifier.intercept_]
    context.state["own"] = ArrayRecord(model)
    return reply(message, model, accuracy=classifier.score(*data(context)))
