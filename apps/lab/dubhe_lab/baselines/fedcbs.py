"""Fed-CBS: a label oracle that samples clients one by one, favouring balanced classes."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_lab.baselines.oracle import OracleSelector
from dubhe_lab.baselines.roll_call import Past

_EXPLORATION: Final = 10.0  # lambda of the paper's experiments
_SMALLEST_IMBALANCE: Final = 1e-12
"""Below this, sets count as equally balanced; otherwise 1 / QCID^beta would be unbounded."""


def class_imbalance(label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return QCID, the quadratic class-imbalance degree, of summed label counts (..., C).

    For a set M of clients, where client n has ``q_n`` samples and a share ``alpha_(n,c)`` of them
    in class c:

        QCID(M) = sum_c (sum_(n in M) q_n alpha_(n,c) / sum_(n in M) q_n - 1/C)^2
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    shares = counts / counts.sum(axis=-1, keepdims=True)
    return np.asarray(((shares - 1 / counts.shape[-1]) ** 2).sum(axis=-1))


def first_probabilities(
    label_counts: ArrayLike, times: ArrayLike, server_round: int
) -> NDArray[np.float64]:
    """Return each client's probability of being drawn first, from label counts (N, C).

    Proportional to ``1 / QCID({n})^beta_1 + lambda sqrt(3 ln k / (2 T_n))`` in round k, with
    beta_1 = 1 and lambda = 10. Both k and the `times` T_n count from 1.
    """
    imbalance = np.maximum(class_imbalance(label_counts), _SMALLEST_IMBALANCE)
    exploration = _EXPLORATION * np.sqrt(3 * np.log(server_round) / (2 * np.asarray(times)))
    weights = 1 / imbalance + exploration
    return np.asarray(weights / weights.sum())


def next_probabilities(
    label_counts: ArrayLike, chosen_counts: ArrayLike, place: int
) -> NDArray[np.float64]:
    """Return each remaining client's probability of being drawn m-th, from label counts (N, C).

    Proportional to ``QCID(M)^beta_(m-1) / QCID(M + {n})^beta_m`` with beta_m = m > 1, where M is
    the set of the m - 1 clients chosen so far. The numerator is the same for every client and
    cancels.
    """
    imbalance = class_imbalance(np.asarray(label_counts) + np.asarray(chosen_counts))
    # In logarithms, since raising to the power K would overflow.
    logarithms = -place * np.log(np.maximum(imbalance, _SMALLEST_IMBALANCE))
    weights = np.exp(logarithms - logarithms.max())
    return np.asarray(weights / weights.sum())


class FedCbsSelector(OracleSelector):
    """Samples clients whose pooled classes are balanced.

    The first client is drawn with `first_probabilities`, the rest with `next_probabilities`. After
    Zhang et al., "Fed-CBS: A Heterogeneity-Aware Client Sampling Mechanism for Federated Learning
    via Class-Imbalance Reduction", ICML 2023 (https://arxiv.org/abs/2209.15245). Takes the same
    arguments as `OracleSelector`.

    Choices the paper leaves open, or varies between experiments:

    - beta_m = m and lambda = 10, as in the paper's experiments. Rounds k and times chosen T_n both
      count from 1, since the exploration term is undefined for a client that was never chosen.
    - QCID below 1e-12 is taken as 1e-12, so that balanced sets are treated alike. The paper
      computes QCID from encrypted inner products of all pairs of clients; the value is the same.
    """

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw clients one by one, without replacement."""
        counts, times = self.label_counts[self.rows_of(aliases)], past.times_of(aliases) + 1
        probabilities = first_probabilities(counts, times, past.num_rounds + 1)
        left, chosen = np.arange(len(aliases)), np.empty(0, dtype=np.int64)
        while True:
            position = rng.choice(len(left), p=probabilities)
            chosen, left = np.append(chosen, left[position]), np.delete(left, position)
            if len(chosen) == self.num_participants:
                return chosen
            probabilities = next_probabilities(
                counts[left], counts[chosen].sum(axis=0), len(chosen) + 1
            )
