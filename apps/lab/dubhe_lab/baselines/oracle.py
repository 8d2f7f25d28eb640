"""Oracles, which see the labels of all clients in the clear; the first one selects greedily."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import SettingsError
from dubhe_lab.baselines.roll_call import Past, RollCall


class OracleSelector(RollCall):
    """Sees every client's labels: for simulation only, since no client may give its labels away.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_counts : array_like of float, shape (N, C)
        Samples of each class at all clients; row i belongs to the client with alias
        (partition-id) i. Give shares where training averages clients with equal weights.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def __init__(
        self, num_participants: int, label_counts: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self.label_counts = label_table(label_counts)

    def rows_of(self, aliases: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each client, whose alias is the row's number."""
        known = {str(row): row for row in range(len(self.label_counts))}
        if unknown := [alias for alias in aliases if alias not in known]:
            raise SettingsError(
                f"Client {unknown[0]!r} is not a row of the {len(known)} that hold the labels; "
                "selection that sees labels is for simulations whose partition-ids are these rows."
            )
        return np.array([known[alias] for alias in aliases], dtype=np.int64)


def label_table(labels: ArrayLike) -> NDArray[np.float64]:
    """Return the label counts or shares of all clients (N, C), checked."""
    table = np.asarray(labels, dtype=np.float64)
    # A NaN fails every comparison, so the check asks for what must hold.
    if table.ndim != 2 or not (
        np.all((table >= 0) & (table < np.inf)) and np.all(table.sum(axis=1) > 0)
    ):
        raise SettingsError(
            f"Labels of shape {table.shape} must be one row of finite non-negative counts or "
            "shares for each client, none of them all zero."
        )
    return table


def greedy_selection(
    label_distributions: ArrayLike, num_participants: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose a random client, then again and again the one that brings ``p_o`` closest to uniform.

    Closeness is the Kullback-Leibler divergence KL(p_o || p_u), as in Duan et al. 2020
    (https://arxiv.org/abs/1907.01132). Time O(N K C). From ``p_l`` or the label counts of all
    clients, shape (N, C), it returns the indices of K <= N, as chosen; ties go to the lower.

    >>> rng = np.random.default_rng(0)
    >>> sorted(greedy_selection([[1, 0], [0.9, 0.1], [0, 1]], 2, rng).tolist())
    [0, 2]
    """
    table = np.asarray(label_distributions, dtype=np.float64)
    chosen = [int(rng.integers(len(table)))]
    while len(chosen) < num_participants:
        divergence = _divergence(table[chosen].sum(axis=0) + table)
        divergence[chosen] = np.inf
        chosen.append(int(np.argmin(divergence)))
    return np.array(chosen, dtype=np.int64)


def _divergence(label_counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return KL(p || p_u) - ln C of label counts (..., C), that is minus the entropy of p."""
    # Of label distributions the total is exactly as many as they are.
    shares = label_counts / label_counts.sum(axis=-1, keepdims=True).round(9)
    logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)  # 0 ln 0 = 0
    return np.asarray((shares * logarithms).sum(axis=-1))


class GreedySelector(OracleSelector):
    """Chooses by `greedy_selection`; the arguments are those of `OracleSelector`."""

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Choose anew, whatever was chosen before."""
        del past
        return greedy_selection(
            self.label_counts[self.rows_of(aliases)], self.num_participants, rng
        )
