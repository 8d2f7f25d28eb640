"""Greedy selection (Astraea): an oracle that sees every client's label distribution."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        ``p_l`` of all clients, in the clear.
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
        If K is not from 1 to N, or the distributions are not non-negative numbers in rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sorted(greedy_selection([[1, 0], [0.9, 0.1], [0, 1]], 2, rng).tolist())
    [0, 2]
    """
    distributions = _checked(label_distributions)
    if not 1 <= num_participants <= len(distributions):
        raise SettingsError(
            f"num_participants={num_participants} must be from 1 to the {len(distributions)} rows "
            "of label_distributions."
        )
    chosen = [int(rng.integers(len(distributions)))]
    total = distributions[chosen[0]].copy()
    free = np.ones(len(distributions), dtype=bool)
    free[chosen] = False
    while len(chosen) < num_participants:
        populations = (total + distributions) / (len(chosen) + 1)
        # KL(p || uniform) = log C + sum p log p; 0 log 0 = 0.
        logarithms = np.log(populations, out=np.zeros_like(populations), where=populations > 0)
        divergence = np.where(free, (populations * logarithms).sum(axis=1), np.inf)
        best = int(np.argmin(divergence))
        chosen.append(best)
        free[best] = False
        total += distributions[best]
    return np.array(chosen, dtype=np.int64)


class GreedySelector(RollCallSelector):
    """Chooses by `greedy_selection`; simulation only, since no client may give its labels away.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_distributions : array_like of float, shape (N, C)
        ``p_l`` of all clients; row i belongs to the client with alias (partition-id) i.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def __init__(
        self, num_participants: int, label_distributions: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self._label_distributions = _checked(label_distributions)

    def choose(self, aliases: Sequence[str], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the greedy choice; an alias without a row is a `SettingsError`."""
        known = {str(row) for row in range(len(self._label_distributions))}
        if unknown := [alias for alias in aliases if alias not in known]:
            raise SettingsError(
                f"Client {unknown[0]!r} has no label distribution; greedy selection is for "
                "simulations whose partition-ids are the rows of label_distributions."
            )
        rows = self._label_distributions[[int(alias) for alias in aliases]]
        chosen = greedy_selection(rows, min(self.num_participants, len(aliases)), rng)
        return np.sort(chosen)


def _checked(label_distributions: ArrayLike) -> NDArray[np.float64]:
    distributions = np.asarray(label_distributions, dtype=np.float64)
    # A NaN fails every comparison, so the check asks for what must hold.
    if distributions.ndim != 2 or not np.all(distributions >= 0):
        raise SettingsError(
            f"label_distributions of shape {distributions.shape} must be one row of non-negative "
            "shares for each client."
        )
    return distributions
