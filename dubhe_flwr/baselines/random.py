"""Random selection: K clients uniformly, as FedAvg does."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.baselines.roll_call import RollCallSelector

__all__ = ["RandomSelector"]


class RandomSelector(RollCallSelector):
    """Chooses K clients uniformly at random in each round.

    Parameters
    ----------
    num_participants : int
        ``K``.
    seed : int, optional (default: from the operating system)
        Fixes the choices.

    Examples
    --------
    >>> selector = RandomSelector(num_participants=2, seed=7)
    >>> selector.choose(["0", "1", "2"], np.random.default_rng(0)).size
    2
    """

    def choose(self, aliases: Sequence[str], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return K indices, or all if there are fewer clients."""
        number = min(self.num_participants, len(aliases))
        return np.sort(rng.choice(len(aliases), number, replace=False))
