"""pytorchexample: the same server, written with a `server_fn`."""

from flwr.app import Context
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp

from dubhe_flwr.server import Dubhe
from pytorchexample.numpy_client_app import get_weights
from pytorchexample.task import Net


def weighted_average(metrics):
    """Return the accuracy over all evaluated samples."""
    accuracies = [num_examples * m["accuracy"] for num_examples, m in metrics]
    return {"accuracy": sum(accuracies) / sum(num_examples for num_examples, _ in metrics)}


def server_fn(context: Context) -> ServerAppComponents:
    """Return the server's strategy and configuration."""
    strategy = FedAvg(
        fraction_evaluate=1.0,
        initial_parameters=ndarrays_to_parameters(get_weights(Net())),
        evaluate_metrics_aggregation_fn=weighted_average,
    )
    strategy = Dubhe(strategy, num_participants=5)
    config = ServerConfig(num_rounds=context.run_config["num-server-rounds"])
    return ServerAppComponents(strategy=strategy, config=config)


app = ServerApp(server_fn=server_fn)
