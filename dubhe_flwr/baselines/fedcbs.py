"""Fed-CBS: an oracle that samples one client after the other in proportion to class balance.

Zhang et al., ICML 2023, "Fed-CBS: A Heterogeneity-Aware Client Sampling Mechanism for Federated
Learning via Class-Imbalance Reduction" (https://arxiv.org/abs/2209.15245).
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.oracle import OracleSelector
from dubhe_flwr.baselines.past import Past

__all__ = ["FedCbsSelector", "class_imbalance", "first_probabilities", "next_probabilities"]

EXPLORATION: Final = 10.0
"""lambda of the paper's experiments."""

SMALLEST_IMBALANCE: Final = 1e-12
"""Sets below are all as good as balanced, where 1 / QCID^beta would have no end."""


def class_imbalance(label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return QCID, the quadratic class-imbalance degree of a set's summed label counts.

    For a set M of clients with ``q_n`` samples, a share ``alpha_(n,c)`` of them of class c:

        QCID(M) = sum_c (sum_(n in M) q_n alpha_(n,c) / sum_(n in M) q_n - 1/C)^2

    Parameters
    ----------
    label_counts : array_like of float, shape (..., C)
        ``sum_(n in M) q_n alpha_(n,c)``: samples of each class in each set; no row is all zero.

    Returns
    -------
    ndarray of float64, shape (...)
        From 0 (balanced) to 1 - 1/C (one class).

    Examples
    --------
    >>> class_imbalance([[8, 0], [6, 2], [4, 4]]).tolist()
    [0.5, 0.125, 0.0]
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    shares = counts / counts.sum(axis=-1, keepdims=True)
    return np.asarray(((shares - 1 / counts.shape[-1]) ** 2).sum(axis=-1))


def first_probabilities(
    label_counts: ArrayLike, times: ArrayLike, server_round: int
) -> NDArray[np.float64]:
    """Return how likely each client is the first of a round.

    In proportion to ``1 / QCID({n})^beta_1 + lambda sqrt(3 ln k / (2 T_n))`` in round k, with
    beta_1 = 1 and lambda = 10.

    Parameters
    ----------
    label_counts : array_like of float, shape (N, C)
        Samples of each class at each client.
    times : array_like of int, shape (N,)
        ``T_n``, from 1.
    server_round : int
        ``k``, from 1.

    Returns
    -------
    ndarray of float64, shape (N,)
        They sum to 1.

    Examples
    --------
    >>> first_probabilities([[8, 0], [6, 2]], times=[1, 1], server_round=1).round(3).tolist()
    [0.2, 0.8]
    """
    imbalance = np.maximum(class_imbalance(label_counts), SMALLEST_IMBALANCE)
    exploration = EXPLORATION * np.sqrt(3 * np.log(server_round) / (2 * np.asarray(times)))
    weights = 1 / imbalance + exploration
    return np.asarray(weights / weights.sum())


def next_probabilities(
    label_counts: ArrayLike, chosen_counts: ArrayLike, place: int
) -> NDArray[np.float64]:
    """Return how likely each client is the m-th of a round, m > 1.

    In proportion to ``QCID(M)^beta_(m-1) / QCID(M + {n})^beta_m`` with beta_m = m, where M are
    the m - 1 clients chosen so far. The numerator is the same for all and cancels.

    Parameters
    ----------
    label_counts : array_like of float, shape (N, C)
        Samples of each class at the clients that are left.
    chosen_counts : array_like of float, shape (C,)
        Summed samples of M.
    place : int
        ``m``.

    Returns
    -------
    ndarray of float64, shape (N,)
        They sum to 1.

    Examples
    --------
    >>> next_probabilities([[8, 0], [2, 6]], chosen_counts=[8, 0], place=2).round(4).tolist()
    [0.0039, 0.9961]
    """
    imbalance = class_imbalance(np.asarray(label_counts) + np.asarray(chosen_counts))
    # Through logarithms, since powers of K would overflow.
    logarithms = -place * np.log(np.maximum(imbalance, SMALLEST_IMBALANCE))
    weights = np.exp(logarithms - logarithms.max())
    return np.asarray(weights / weights.sum())


class FedCbsSelector(OracleSelector):
    """Samples clients so that few classes are rare among them (Zhang et al., ICML 2023).

    The first client follows `first_probabilities`, which prefer balanced clients and those that
    were chosen seldom; each further one follows `next_probabilities`
    (https://arxiv.org/abs/2209.15245).

    The paper leaves open, or has as an experiment's setting:

    - beta_m = m and lambda = 10, as in the paper's experiments.
    - T_n counts from 1, since the term of exploration has no value for clients that were never
      chosen; k counts the rounds from 1.
    - For the second client the paper divides by the first one's whole weight, exploration and all.
      That is one number for all candidates, which cancels as the numerator does.
    - QCID below 1e-12 is taken as 1e-12, so that balanced sets are alike.

    In the paper QCID is computed from inner products of all pairs of clients, which come out of
    homomorphic encryption; here from the labels themselves, with the same value.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_counts : array_like of float, shape (N, C)
        Samples of each class at all clients; row i belongs to the client with alias
        (partition-id) i.
    seed : int, optional (default: from the operating system)
        Fixes the choices.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> selector = FedCbsSelector(2, [[8, 0], [7, 1], [0, 8]], seed=7)
    >>> sorted(selector.choose(np.arange(3), Past(), np.random.default_rng(0)).tolist())
    [1, 2]
    """

    def choose(
        self, rows: NDArray[np.int64], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return one client after the other, drawn without replacement."""
        counts = self._label_counts[rows]
        left = np.arange(len(rows))
        chosen: list[int] = []
        probabilities = first_probabilities(
            counts, past.times_of(rows.tolist()) + 1, past.num_rounds + 1
        )
        while True:
            position = int(rng.choice(len(left), p=probabilities))
            chosen.append(int(left[position]))
            if len(chosen) == self.num_participants:
                return np.array(chosen, dtype=np.int64)
            left = np.delete(left, position)
            probabilities = next_probabilities(
                counts[left], counts[chosen].sum(axis=0), len(chosen) + 1
            )
