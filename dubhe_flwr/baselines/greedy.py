"""Greedy selection (Astraea): an oracle, which sees the labels of all clients."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.roll_call import RollCall, RollCallState
from dubhe_flwr.errors import SettingsError

__all__ = ["GreedySelector", "greedy_selection", "label_table", "rows_of"]


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
        Indices of the chosen clients, in the order of choice; ties go to the lower index.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sorted(greedy_selection([[1, 0], [0.9, 0.1], [0, 1]], 2, rng).tolist())
    [0, 2]
    """
    table = label_table(label_distributions)
    if not 1 <= num_participants <= len(table):
        raise SettingsError(
            f"num_participants={num_participants} must be from 1 to the {len(table)} rows of "
            "label_distributions."
        )
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


class GreedySelector(RollCall[RollCallState]):
    """Chooses by `greedy_selection`; simulation only, since no client may give its labels away.

    Row i of the label distributions (or counts) belongs to the client with alias (partition-id) i;
    the seed fixes the choices.
    """

    def __init__(
        self, num_participants: int, label_distributions: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self._label_distributions = label_table(label_distributions)

    def initial_state(self) -> RollCallState:
        """Return the state before the first round."""
        return RollCallState(self.seed)

    def select(
        self, state: RollCallState, aliases: Sequence[str], rng: np.random.Generator
    ) -> tuple[RollCallState, NDArray[np.int64]]:
        """Choose anew, and leave the state as it is."""
        rows = self._label_distributions[rows_of(aliases, len(self._label_distributions))]
        number = min(self.num_participants, len(aliases))
        return state, np.sort(greedy_selection(rows, number, rng))


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


def rows_of(aliases: Sequence[str], num_rows: int) -> list[int]:
    """Return the row of each client, whose alias is the row's number."""
    known = {str(row) for row in range(num_rows)}
    if unknown := [alias for alias in aliases if alias not in known]:
        raise SettingsError(
            f"Client {unknown[0]!r} is not a row of the {num_rows} that hold the labels; selection "
            "that sees labels is for simulations whose partition-ids are these rows."
        )
    return [int(alias) for alias in aliases]
