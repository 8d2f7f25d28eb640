"""FedEntOpt: an oracle that maximises the entropy of the labels, and lets recent clients rest.

Lutz et al. 2025, "Optimizing Federated Learning by Entropy-Based Client Selection"
(https://arxiv.org/abs/2411.01240).
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.labels import label_table
from dubhe_flwr.baselines.oracle import OracleSelector
from dubhe_flwr.baselines.past import Past
from dubhe_flwr.errors import SettingsError

__all__ = ["FedEntOptSelector", "entropy_selection", "label_entropy"]

BUFFER_SHARE: Final = 0.5
"""Q / N: the clients that rest."""


def label_entropy(label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return the entropy of label counts, ``H(l / ||l||_1) = -sum_c p_c ln p_c``.

    Parameters
    ----------
    label_counts : array_like of float, shape (..., C)
        Samples of each class; no row is all zero.

    Returns
    -------
    ndarray of float64, shape (...)
        In nats, from 0 to ln C.

    Examples
    --------
    >>> label_entropy([[8, 0], [4, 4]]).round(3).tolist()
    [0.0, 0.693]
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    shares = counts / counts.sum(axis=-1, keepdims=True)
    logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)  # 0 ln 0 = 0
    return np.asarray(-(shares * logarithms).sum(axis=-1) + 0.0)


def entropy_selection(
    label_counts: ArrayLike, num_participants: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose a random client, then again and again the one that raises the entropy most.

    With ``L`` the summed label counts of those chosen so far, the next one is the client m of
    largest ``H((L + l^(m)) / ||L + l^(m)||_1)``. Time O(K N C).

    Parameters
    ----------
    label_counts : array_like of float, shape (N, C)
        ``l^(m)``: samples of each class at the clients that may be chosen.
    num_participants : int
        ``K``, at most N.
    rng : numpy.random.Generator
        Chooses the first client.

    Returns
    -------
    ndarray of int64, shape (K,)
        Indices of the chosen clients, in the order of choice; ties go to the lower index.

    Raises
    ------
    SettingsError
        If K is not from 1 to N, or the counts are not rows of non-negative numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sorted(entropy_selection([[8, 0], [7, 1], [0, 8]], 2, rng).tolist())
    [0, 2]
    """
    counts = label_table(label_counts)
    if not 1 <= num_participants <= len(counts):
        raise SettingsError(
            f"num_participants={num_participants} must be from 1 to the {len(counts)} rows of "
            "label_counts."
        )
    chosen = [int(rng.integers(len(counts)))]
    while len(chosen) < num_participants:
        entropies = label_entropy(counts[chosen].sum(axis=0) + counts)
        entropies[chosen] = -np.inf
        chosen.append(int(np.argmax(entropies)))
    return np.array(chosen, dtype=np.int64)


class FedEntOptSelector(OracleSelector):
    """Chooses by `entropy_selection` among the clients that are not in a first-in-first-out buffer.

    The chosen ones enter the buffer, which holds the last Q. After Lutz et al. 2025, Algorithm 1
    (https://arxiv.org/abs/2411.01240).

    The paper leaves open, or has as an experiment's setting:

    - Q: the paper's experiments have 0.5 N (Dirichlet clients) to 0.7 N (clients of two classes)
      and at most N - K. Here it is 0.5 N, with N the clients that are there in the round.
    - The buffer changes between rounds, not within one.
    - Nodes that leave keep their place in the buffer.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_counts : array_like of float, shape (N, C)
        Samples of each class at all clients; row i belongs to the client with alias
        (partition-id) i.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    buffer_share : float (default: 0.5)
        Q divided by the number of clients that are there, from 0 to 1.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> selector = FedEntOptSelector(2, [[8, 0], [8, 0], [0, 8], [0, 8]], seed=7)
    >>> rng = np.random.default_rng(0)
    >>> sorted(selector.choose(np.arange(4), Past(1, {"0": 1, "3": 1}), rng).tolist())
    [1, 2]
    """

    def __init__(
        self,
        num_participants: int,
        label_counts: ArrayLike,
        seed: int | None = None,
        *,
        buffer_share: float = BUFFER_SHARE,
    ) -> None:
        super().__init__(num_participants, label_counts, seed)
        if not 0 <= buffer_share <= 1:
            raise SettingsError(f"buffer_share={buffer_share} must be from 0 to 1.")
        self._buffer_share = buffer_share

    def choose(
        self, rows: NDArray[np.int64], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the choice among those who rested long enough."""
        most = len(rows) - self.num_participants
        buffer = past.recent(min(round(self._buffer_share * len(rows)), most))
        free = np.flatnonzero(~np.isin(rows, [int(alias) for alias in buffer]))
        chosen = entropy_selection(self._label_counts[rows[free]], self.num_participants, rng)
        return free[chosen]
