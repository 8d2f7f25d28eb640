"""The client side: any Flower client, and DubheMod."""

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp

from dubhe_flwr.clientapp import DubheMod
from dubhe_flwr.training import TorchClient, adam
from quickstart.task import label_counts, new_model, train_data


def client_fn(context: Context) -> Client:
    """Return the client that trains at this node; a NumPyClient of your own does as well."""
    client = TorchClient(
        new_model(),
        train_data(context),
        optimizer=adam(float(context.run_config.get("learning-rate", 0.01))),
        alias=str(context.node_config["partition-id"]),
    )
    return client.to_client()


def seeded_draws(context: Context) -> bool:
    """Return whether draws repeat from the server's seed: in a simulation, never in deployment."""
    return bool(context.run_config.get("seeded-draws", True))


app = ClientApp(client_fn=client_fn, mods=[DubheMod(label_counts, seeded_draws=seeded_draws)])
