"""Greedy selection (Astraea): an oracle that sees every client's label distribution."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.labels import label_table, rows_of
from dubhe_flwr.baselines.roll_call import RollCallSelector
from dubhe_flwr.errors import SettingsError

__all__ = ["GreedySelector", "greedy_selection"]


def greedy_selection(
    label_distributions: ArrayLike, num_participants: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose a random client, then again and again the one that brings ``p_o`` closest to uniform.

    Closeness is the Kullback-Leibler divergence KL(p_o || p_u), as in Duan et al. 2020
    (https://arxiv.org/abs/1907.01132). Time O(N K C).

    Parameters
    ----------
    label_distributions : array_like of float, shape (N, C)
        ``p_l`` of all clients, in the clear; or their label counts, where clients count by their
        number of samples.
    num_participants : int
        ``K``, at most N.
    rng : numpy.random.Generator
        Chooses the first client.

    Returns
    -------
    ndarray of int64, shape (K,)
        Indices of the chosen clients, in the order of choice.

    Raises
    ------
    SettingsError
        If K is not from 1 to N, or the distributions are not rows of non-negative numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sorted(greedy_selection([[1, 0], [0.9, 0.1], [0, 1]], 2, rng).tolist())
    [0, 2]
    """
    distributions = label_table(label_distributions)
    if not 1 <= num_participants <= len(distributions):
        raise SettingsError(
            f"num_participants={num_participants} must be from 1 to the {len(distributions)} rows "
            "of label_distributions."
        )
    chosen = [int(rng.integers(len(distributions)))]
    weights = distributions.sum(axis=1).round(9)  # of shares exactly 1
    total, total_weight = distributions[chosen[0]].copy(), weights[chosen[0]]
    free = np.ones(len(distributions), dtype=bool)
    free[chosen] = False
    while len(chosen) < num_participants:
        populations = (total + distributions) / (total_weight + weights)[:, np.newaxis]
        # KL(p || uniform) = log C + sum p log p; 0 log 0 = 0.
        logarithms = np.log(populations, out=np.zeros_like(populations), where=populations > 0)
        divergence = np.where(free, (populations * logarithms).sum(axis=1), np.inf)
        best = int(np.argmin(divergence))
        chosen.append(best)
        free[best] = False
        total += distributions[best]
        total_weight += weights[best]
    return np.array(chosen, dtype=np.int64)


class GreedySelector(RollCallSelector):
    """Chooses by `greedy_selection`; simulation only, since no client may give its labels away.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_distributions : array_like of float, shape (N, C)
        ``p_l`` of all clients, or their label counts; row i belongs to the client with alias
        (partition-id) i.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def __init__(
        self, num_participants: int, label_distributions: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self._label_distributions = label_table(label_distributions)

    def choose(self, aliases: Sequence[str], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the greedy choice; an alias without a row is a `SettingsError`."""
        rows = self._label_distributions[rows_of(aliases, len(self._label_distributions))]
        chosen = greedy_selection(rows, min(self.num_participants, len(aliases)), rng)
        return np.sort(chosen)
