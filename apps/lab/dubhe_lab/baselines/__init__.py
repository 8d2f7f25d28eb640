"""What Dubhe is compared with: random selection, oracles that see labels, and who sees losses."""

from dubhe_lab.baselines.afl import ActiveSelector
from dubhe_lab.baselines.fedcbs import FedCbsSelector
from dubhe_lab.baselines.fedentopt import FedEntOptSelector
from dubhe_lab.baselines.flips import FlipsSelector
from dubhe_lab.baselines.losses import LossSelector
from dubhe_lab.baselines.oort import OortSelector
from dubhe_lab.baselines.oracle import GreedySelector
from dubhe_lab.baselines.powd import PowerOfChoiceSelector
from dubhe_lab.baselines.roll_call import RandomSelector

__all__ = [
    "ActiveSelector",
    "FedCbsSelector",
    "FedEntOptSelector",
    "FlipsSelector",
    "GreedySelector",
    "LossSelector",
    "OortSelector",
    "PowerOfChoiceSelector",
    "RandomSelector",
]
