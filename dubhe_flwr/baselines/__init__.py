"""What Dubhe is compared with: random selection, and oracles that see all labels."""

from dubhe_flwr.baselines.fedcbs import FedCbsSelector
from dubhe_flwr.baselines.fedentopt import FedEntOptSelector
from dubhe_flwr.baselines.flips import FlipsSelector
from dubhe_flwr.baselines.oracle import GreedySelector
from dubhe_flwr.baselines.roll_call import RandomSelector

__all__ = [
    "FedCbsSelector",
    "FedEntOptSelector",
    "FlipsSelector",
    "GreedySelector",
    "RandomSelector",
]
