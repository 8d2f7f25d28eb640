"""The client: any Flower client, plus DubheMod."""

from typing import TYPE_CHECKING

from flwr.app import Context
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import NDArrays, Scalar

from dubhe_flwr.clientapp import DubheMod
from quickstart.data import label_counts, train_data

if TYPE_CHECKING:
    from torch import nn


class DigitsClient(NumPyClient):
    """Trains the model on this node's images."""

    def __init__(self, model: "nn.Module", context: Context) -> None:
        self.model = model
        self.context = context

    def fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Train for one epoch."""
        from quickstart.model import get_parameters, set_parameters, train  # noqa: PLC0415

        set_parameters(self.model, parameters)
        images, labels = train_data(self.context)
        rate = float(self.context.run_config.get("learning-rate", 0.1))
        loss = train(self.model, images, labels, rate, seed=int(config["server-round"]))
        return get_parameters(self.model), len(labels), {"loss": loss}


def client_fn(context: Context) -> Client:
    """Return this node's client.

    Importing torch takes seconds, and a SuperNode starts a new process for each message. The import
    is here so that Dubhe's own messages do not wait for it.
    """
    from quickstart.model import new_model  # noqa: PLC0415

    return DigitsClient(new_model(), context).to_client()


def simulated(context: Context) -> bool:
    """Return whether this node's own config, not the server, says that it is simulated."""
    return bool(context.node_config.get("simulated", False))


app = ClientApp(client_fn=client_fn, mods=[DubheMod(label_counts, simulated=simulated)])
