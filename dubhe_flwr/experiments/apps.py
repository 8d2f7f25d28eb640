"""The Flower apps of a comparison: one ClientApp for all methods, a strategy for each."""

from collections.abc import Callable
from functools import partial
from typing import Any

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.common import NDArrays, Scalar, ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg, Strategy
from flwr.serverapp import ServerApp
from numpy.typing import NDArray

from dubhe_flwr.baselines import GreedySelector, RandomSelector
from dubhe_flwr.clientapp import DubheMod
from dubhe_flwr.experiments.methods import DUBHE_RULES
from dubhe_flwr.experiments.recording import RecordedSelection
from dubhe_flwr.experiments.scenario import Scenario, scenario_of
from dubhe_flwr.experiments.settings import CompareSettings
from dubhe_flwr.protocol import Coordinator, Selector
from dubhe_flwr.training import get_parameters

__all__ = ["build_client_app", "build_server_app", "build_strategy"]


def build_client_app(settings: CompareSettings) -> ClientApp:
    """Return the app of all nodes; it holds the settings and nothing else.

    Parameters
    ----------
    settings : CompareSettings
        What each process makes the scenario from.
    """
    mod = DubheMod(
        partial(_label_counts, settings),
        seeded_draws=True,
        min_key_bits=min(2048, settings.key_bits),
    )
    return ClientApp(client_fn=partial(_client, settings), mods=[mod])


def build_strategy(
    method: str, scenario: Scenario, on_round: Callable[[int, float | None], None]
) -> RecordedSelection:
    """Return federated averaging over the clients that a method selects.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    scenario : Scenario
        Where it is to train.
    on_round : callable (int, float or None) -> None
        Is told each round and the accuracy after it, None without an evaluation.
    """

    def test(
        server_round: int, parameters: NDArrays, _config: dict[str, Scalar]
    ) -> tuple[float, dict[str, Scalar]] | None:
        if not scenario.settings.is_evaluated(server_round):
            return None
        loss, accuracy = scenario.test(parameters)
        return loss, {"accuracy": accuracy}

    averaging = FedAvg(
        fraction_evaluate=0.0,
        evaluate_fn=test,
        on_fit_config_fn=lambda server_round: {"server-round": server_round},
        fit_metrics_aggregation_fn=lambda _metrics: {},
        initial_parameters=ndarrays_to_parameters(get_parameters(scenario.new_model())),
    )
    return RecordedSelection(
        averaging,
        _selector(method, scenario),
        expected_nodes=scenario.federation.num_clients,
        on_round=on_round,
    )


def build_server_app(strategy: Strategy, num_rounds: int) -> ServerApp:
    """Return the app that runs a strategy.

    Parameters
    ----------
    strategy : Strategy
        What to run.
    num_rounds : int
        For how long.
    """

    def server_fn(_context: Context) -> ServerAppComponents:
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=num_rounds))

    return ServerApp(server_fn=server_fn)


def _selector(method: str, scenario: Scenario) -> Selector[Any]:
    settings = scenario.settings
    if method in DUBHE_RULES:
        return Coordinator(settings.protocol_settings(method))
    if method == "greedy":
        return GreedySelector(
            settings.num_participants, scenario.federation.label_distributions, settings.seed
        )
    return RandomSelector(settings.num_participants, settings.seed)


def _client(settings: CompareSettings, context: Context) -> Client:
    return scenario_of(settings).client(int(context.node_config["partition-id"])).to_client()


def _label_counts(settings: CompareSettings, context: Context) -> NDArray[Any]:
    partition = int(context.node_config["partition-id"])
    counts: NDArray[Any] = scenario_of(settings).federation.label_counts[partition]
    return counts
