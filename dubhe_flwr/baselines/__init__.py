"""What Dubhe is compared with: random selection, and greedy selection by an oracle."""

from dubhe_flwr.baselines.greedy import GreedySelector, greedy_selection
from dubhe_flwr.baselines.roll_call import RandomSelector

__all__ = ["GreedySelector", "RandomSelector", "greedy_selection"]
