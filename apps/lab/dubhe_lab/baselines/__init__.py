"""The methods Dubhe is compared with: random selection, label oracles, and loss-based selection.

All are selectors for the same Flower driver as Dubhe. They only need to know each node's alias,
so they share one base class, `roll_call.RollCall`. The label oracles (`oracle.OracleSelector`) and
the loss-based methods (`losses.LossSelector`) see what a real server must not see, so they are for
simulation only.
"""

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
