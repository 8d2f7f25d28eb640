"""The client side: any Flower client, and DubheMod."""

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp

from dubhe_flwr.clientapp import DubheMod
from dubhe_flwr.training.client import TorchClient
from dubhe_flwr.training.loop import adam
from quickstart.task import label_counts, new_model, train_data


def client_fn(context: Context) -> Client:
    """Return the client that trains at this node; a NumPyClient of your own does as well."""
    client = TorchClient(
        new_model(),
        train_data(context),
        optimizer=adam(float(context.run_config.get("learning-rate", 0.003))),
        alias=str(context.node_config["partition-id"]),
    )
    return client.to_client()


def simulated(context: Context) -> bool:
    """Return whether this node's own config says that it is simulated; the server cannot say so."""
    return bool(context.node_config.get("simulated", False))


app = ClientApp(client_fn=client_fn, mods=[DubheMod(label_counts, simulated=simulated)])
