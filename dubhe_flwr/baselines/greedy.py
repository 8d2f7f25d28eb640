"""Greedy selection (Astraea), and FedEntOpt, which lets recent clients rest from it."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.oracle import OracleSelector, label_table, rows_of
from dubhe_flwr.baselines.roll_call import Past, RollCall, RollCallState
from dubhe_flwr.errors import SettingsError

__all__ = ["FedEntOptSelector", "GreedySelector", "greedy_selection"]

_BUFFER_SHARE: Final = 0.5  # Q / N of FedEntOpt: the clients that rest


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


class GreedySelector(RollCall):
    """Chooses by `greedy_selection`; simulation only, since no client may give its labels away.

    Row i of the label distributions (or counts) belongs to the client with alias (partition-id) i;
    the seed fixes the choices.
    """

    def __init__(
        self, num_participants: int, label_distributions: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self._label_distributions = label_table(label_distributions)

    def select(
        self, state: RollCallState, aliases: Sequence[str], rng: np.random.Generator
    ) -> tuple[RollCallState, NDArray[np.int64]]:
        """Choose anew, and leave the state as it is."""
        rows = self._label_distributions[rows_of(aliases, len(self._label_distributions))]
        number = min(self.num_participants, len(aliases))
        return state, np.sort(greedy_selection(rows, number, rng))


class FedEntOptSelector(OracleSelector):
    """Raises the entropy of the labels among clients that are not in a first-in-first-out buffer.

    The first client is random. With ``L`` the summed label counts of those chosen so far, the next
    one is the client m of largest ``H((L + l^(m)) / ||L + l^(m)||_1)``. The chosen ones enter the
    buffer, which holds the last Q. After Lutz et al. 2025, "Optimizing Federated Learning by
    Entropy-Based Client Selection", Algorithm 1 (https://arxiv.org/abs/2411.01240). Parameters
    are those of `FlipsSelector`.

    The paper leaves open, or has as an experiment's setting:

    - Q: the paper's experiments have 0.5 N (Dirichlet clients) to 0.7 N (clients of two classes)
      and at most N - K. Here it is 0.5 N, with N the clients that are there in the round.
    - The buffer changes between rounds, not within one.
    - Nodes that leave keep their place in the buffer.
    """

    def choose(
        self, rows: NDArray[np.int64], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the choice among those who rested long enough."""
        most = len(rows) - self.num_participants
        buffer = past.recent(min(round(_BUFFER_SHARE * len(rows)), most))
        free = np.flatnonzero(~np.isin(rows, buffer))
        # KL(p || uniform) = ln C - H(p), and H is what the paper maximises.
        return free[greedy_selection(self._label_counts[rows[free]], self.num_participants, rng)]
