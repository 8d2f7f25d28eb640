"""pytorchexample: the same client, written as a NumPyClient."""

from collections import OrderedDict

import torch
from flwr.app import Context
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp

from dubhe_flwr import count_labels
from dubhe_flwr.clientapp import DubheMod
from pytorchexample.task import Net, load_own_data, test, train


class FlowerClient(NumPyClient):
    """Trains and evaluates one partition."""

    def __init__(self, net, trainloader, valloader, local_epochs, lr):
        self.net = net
        self.trainloader = trainloader
        self.valloader = valloader
        self.local_epochs = local_epochs
        self.lr = lr
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    def fit(self, parameters, config):
        """Train the model on local data."""
        set_weights(self.net, parameters)
        loss = train(self.net, self.trainloader, self.local_epochs, self.lr, self.device)
        return get_weights(self.net), len(self.trainloader.dataset), {"train_loss": loss}

    def evaluate(self, parameters, config):
        """Evaluate the model on local data."""
        set_weights(self.net, parameters)
        loss, accuracy = test(self.net, self.valloader, self.device)
        return loss, len(self.valloader.dataset), {"accuracy": accuracy}


def get_weights(net):
    """Return the model's weights as a list of arrays."""
    return [value.cpu().numpy() for value in net.state_dict().values()]


def set_weights(net, parameters):
    """Load a list of arrays into the model."""
    names = net.state_dict().keys()
    state = OrderedDict((n, torch.tensor(v)) for n, v in zip(names, parameters, strict=True))
    net.load_state_dict(state, strict=True)


def client_fn(context: Context) -> Client:
    """Return the client of a node."""
    trainloader, valloader = load_own_data(context)
    local_epochs = context.run_config["local-epochs"]
    lr = context.run_config["learning-rate"]
    return FlowerClient(Net(), trainloader, valloader, local_epochs, lr).to_client()


def label_counts(context):
    return count_labels(load_own_data(context)[0], num_classes=10)


app = ClientApp(client_fn=client_fn, mods=[DubheMod(label_counts)])
