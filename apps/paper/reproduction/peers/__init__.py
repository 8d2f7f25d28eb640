"""Other ways of balancing labels: oracles that see every client's labels."""

from typing import Any, Final

from dubhe_flwr.data import Federation
from dubhe_flwr.experiments import study
from dubhe_flwr.experiments.settings import ExperimentSettings
from dubhe_flwr.protocol import Selector
from reproduction.peers.fedcbs import FedCbsSelector
from reproduction.peers.fedentopt import FedEntOptSelector
from reproduction.peers.flips import FlipsSelector
from reproduction.peers.oracle import OracleSelector

__all__ = ["PEERS", "FedCbsSelector", "FedEntOptSelector", "FlipsSelector", "selector_of"]

PEERS: Final[dict[str, type[OracleSelector]]] = {
    "flips": FlipsSelector,
    "fedcbs": FedCbsSelector,
    "fedentopt": FedEntOptSelector,
}


def selector_of(method: str, settings: ExperimentSettings, federation: Federation) -> Selector[Any]:
    """Return what selects by one of `METHODS` or `PEERS`."""
    if method not in PEERS:
        return study.selector_of(method, settings, federation)
    wanted, seed = settings.selection.num_participants, settings.federation.seed
    return PEERS[method](wanted, federation.label_distributions, seed)
