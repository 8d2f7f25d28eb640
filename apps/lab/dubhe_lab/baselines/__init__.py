"""What Dubhe is compared with: random selection, and oracles that see all labels."""

from dubhe_lab.baselines.fedcbs import FedCbsSelector
from dubhe_lab.baselines.fedentopt import FedEntOptSelector
from dubhe_lab.baselines.flips import FlipsSelector
from dubhe_lab.baselines.oracle import GreedySelector
from dubhe_lab.baselines.roll_call import RandomSelector

__all__ = [
    "FedCbsSelector",
    "FedEntOptSelector",
    "FlipsSelector",
    "GreedySelector",
    "RandomSelector",
]
