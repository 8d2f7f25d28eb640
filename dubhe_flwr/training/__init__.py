"""Local training with torch: a Flower client, and the loop and models it is made of."""

from dubhe_flwr.training.client import Samples, TorchClient
from dubhe_flwr.training.loop import (
    OptimizerFactory,
    adam,
    evaluate,
    limited_threads,
    resolve_device,
    sgd,
)
from dubhe_flwr.training.models import build_model, get_parameters, set_parameters

__all__ = [
    "OptimizerFactory",
    "Samples",
    "TorchClient",
    "adam",
    "build_model",
    "evaluate",
    "get_parameters",
    "limited_threads",
    "resolve_device",
    "set_parameters",
    "sgd",
]
