"""Greedy selection (Astraea): an oracle, which sees the labels of all clients."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.oracle import OracleSelector
from dubhe_flwr.baselines.roll_call import Past


def greedy_selection(
    label_distributions: ArrayLike, num_participants: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose a random client, then again and again the one that brings ``p_o`` closest to uniform.

    Closeness is the Kullback-Leibler divergence KL(p_o || p_u), as in Duan et al. 2020
    (https://arxiv.org/abs/1907.01132). Time O(N K C). From ``p_l`` or the label counts of all
    clients, shape (N, C), it returns the indices of K, as they were chosen; ties go to the lower.

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
