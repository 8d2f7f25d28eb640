"""Greedy selection, and the base class of label oracles, which see every client's labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import SettingsError
from dubhe_lab.baselines.roll_call import Past, RollCall


class OracleSelector(RollCall):
    """Selects by every client's labels: for simulation only, since clients must not reveal them.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_counts : array_like of float, shape (N, C)
        Samples of each class at every client. Row i belongs to the client with alias
        (partition-id) i. Pass shares if training weights clients equally.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def __init__(
        self, num_participants: int, label_counts: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self.label_counts = label_table(label_counts)

    def rows_of(self, aliases: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each client; a client's alias is its row number."""
        known = {str(row): row for row in range(len(self.label_counts))}
        if unknown := [alias for alias in aliases if alias not in known]:
            raise SettingsError(
                f"Client {unknown[0]!r} has no row in the label table of {len(known)} rows; "
                "label oracles are for simulations whose partition-ids are row numbers."
            )
        return np.array([known[alias] for alias in aliases], dtype=np.int64)


def label_table(labels: ArrayLike) -> NDArray[np.float64]:
    """Return the label counts or shares of all clients (N, C), after checking them."""
    table = np.asarray(labels, dtype=np.float64)
    # NaN fails every comparison, so test for valid values, not for invalid ones.
    if table.ndim != 2 or not (
        np.all((table >= 0) & (table < np.inf)) and np.all(table.sum(axis=1) > 0)
    ):
        raise SettingsError(
            f"The label table of shape {table.shape} must have one row per client of finite "
            "non-negative counts or shares, and no row may be all zero."
        )
    return table


def greedy_selection(
    label_distributions: ArrayLike, num_participants: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose a random client, then repeatedly the one that brings ``p_o`` closest to uniform.

    Closeness is the Kullback-Leibler divergence KL(p_o || p_u), as in Duan et al. 2020
    (https://arxiv.org/abs/1907.01132). Takes the ``p_l`` or label counts of all clients, shape
    (N, C), and returns K <= N indices in the order of choice; ties go to the lower index. Runs in
    O(N K C).

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
    """Return minus the entropy of label counts (..., C), which is KL(p || p_u) - ln C."""
    # Rounding makes the total of several label distributions exact: each sums to 1.
    shares = label_counts / label_counts.sum(axis=-1, keepdims=True).round(9)
    logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)  # 0 ln 0 = 0
    return np.asarray((shares * logarithms).sum(axis=-1))


class GreedySelector(OracleSelector):
    """Selects by `greedy_selection`; takes the same arguments as `OracleSelector`."""

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Select greedily, whatever was selected before."""
        del past
        return greedy_selection(
            self.label_counts[self.rows_of(aliases)], self.num_participants, rng
        )
