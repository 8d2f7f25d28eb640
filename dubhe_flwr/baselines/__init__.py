"""What Dubhe is compared with: random selection, and a greedy oracle that sees all labels."""

from dubhe_flwr.baselines.greedy import GreedySelector, greedy_selection
from dubhe_flwr.baselines.roll_call import RandomSelector

__all__ = ["GreedySelector", "RandomSelector", "greedy_selection"]
