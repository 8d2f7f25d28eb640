"""The server: any Flower strategy, wrapped in Dubhe."""

from flwr.app import Context
from flwr.common import NDArrays, Scalar, ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp

from dubhe_flwr.server import Dubhe
from quickstart import model
from quickstart.data import test_data


def server_fn(context: Context) -> ServerAppComponents:
    """Return the server's strategy and configuration."""
    config = context.run_config
    timeout = float(config.get("stage-timeout", 600.0))
    strategy = Dubhe(
        FedAvg(
            fraction_evaluate=0.0,
            evaluate_fn=test,
            on_fit_config_fn=lambda server_round: {"server-round": server_round},
            initial_parameters=ndarrays_to_parameters(model.get_parameters(model.new_model())),
        ),
        num_participants=int(config.get("num-participants", 5)),
        expected_nodes=int(config.get("expected-nodes", 0)) or None,
        stage_timeout=timeout,
        checkpoint_dir=str(config.get("checkpoint-dir", "")),
    )
    # A resumed run trains only the rounds that the checkpoint has not finished.
    num_rounds = strategy.rounds_left(int(config.get("num-server-rounds", 10)))
    return ServerAppComponents(
        strategy=strategy, config=ServerConfig(num_rounds=num_rounds, round_timeout=timeout)
    )


def test(
    _server_round: int, parameters: NDArrays, _config: dict[str, Scalar]
) -> tuple[float, dict[str, Scalar]]:
    """Return the global model's loss and accuracy on the server's test images."""
    network = model.new_model()
    model.set_parameters(network, parameters)
    loss, accuracy = model.test(network, *test_data())
    return loss, {"accuracy": accuracy}


app = ServerApp(server_fn=server_fn)
