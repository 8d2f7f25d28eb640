"""FLIPS: an oracle that clusters clients by their labels and takes turns among the clusters.

Bhope et al., Middleware 2023, "FLIPS: Federated Learning using Intelligent Participant Selection"
(https://arxiv.org/abs/2308.03901).
"""

from collections import deque
from itertools import cycle
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.labels import label_table
from dubhe_flwr.baselines.oracle import OracleSelector
from dubhe_flwr.baselines.past import Past
from dubhe_flwr.core import label_distribution
from dubhe_flwr.errors import SettingsError

__all__ = ["FlipsSelector", "label_clusters", "take_turns"]

NUM_STARTS: Final = 10
"""Runs of k-means for each number of clusters."""

CLUSTERS_BEYOND_CLASSES: Final = 10
"""Up to C and this many clusters are tried, where there are twice as many clients."""


def label_clusters(label_counts: ArrayLike) -> NDArray[np.int64]:
    """Group clients whose label distributions are alike, by k-means.

    The number of clusters, from 2 to C + 10 or N / 2, is the one of the lowest Davies-Bouldin index

        DB = 1/k sum_i max_(j != i) (s_i + s_j) / ||m_i - m_j||

    with ``m_i`` the centre of cluster i and ``s_i`` the mean distance of its clients to it; for
    each number the best of ten starts (k-means++) counts. A thousand clients of ten classes take
    seconds, nine thousand of 52 classes minutes.

    Parameters
    ----------
    label_counts : array_like of float, shape (N, C)
        Samples of each class at each client.

    Returns
    -------
    ndarray of int64, shape (N,)
        Cluster of each client, from 0. The same counts give the same clusters.

    Raises
    ------
    SettingsError
        If scikit-learn is missing, or the counts are not rows of non-negative numbers.

    Examples
    --------
    >>> label_clusters([[9, 1], [1, 9], [9, 1], [1, 9]]).tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    True
    """
    try:
        # An extra, imported where it is needed.
        from sklearn.cluster import KMeans  # noqa: PLC0415
        from sklearn.metrics import davies_bouldin_score  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            "FLIPS needs scikit-learn for k-means; install it with `pip install "
            "'dubhe-flwr[torch]'`."
        ) from error
    distributions = label_distribution(label_table(label_counts))
    num_clients, num_classes = distributions.shape
    most = min(
        num_classes + CLUSTERS_BEYOND_CLASSES,
        num_clients // 2,  # the index likes clusters of one client, in which nobody takes turns
        len(np.unique(distributions, axis=0)),
    )
    best, lowest = np.zeros(num_clients, dtype=np.int64), np.inf
    for number in range(2, most + 1):
        clusters = KMeans(number, n_init=NUM_STARTS, random_state=0).fit_predict(distributions)
        index = davies_bouldin_score(distributions, clusters)
        if index < lowest:
            best, lowest = clusters.astype(np.int64), index
    return best


def take_turns(
    clusters: ArrayLike, times: ArrayLike, num_participants: int, first: int = 0
) -> NDArray[np.int64]:
    """Choose clients round robin over the clusters, within a cluster the least picked first.

    Parameters
    ----------
    clusters : array_like of int, shape (N,)
        Cluster of each client.
    times : array_like of float, shape (N,)
        How often each was chosen before; ties go to the lower index.
    num_participants : int
        ``K``, at most N.
    first : int (default: 0)
        Cluster whose turn it is, or the next one that has clients.

    Returns
    -------
    ndarray of int64, shape (K,)
        Indices of the chosen clients, in the order of choice.

    Raises
    ------
    SettingsError
        If K is not from 1 to N.

    Examples
    --------
    >>> take_turns([0, 0, 1, 1], times=[2, 1, 0, 0], num_participants=3, first=1).tolist()
    [2, 1, 3]
    """
    cluster_of = np.asarray(clusters, dtype=np.int64)
    if not 1 <= num_participants <= len(cluster_of):
        raise SettingsError(
            f"num_participants={num_participants} must be from 1 to the {len(cluster_of)} clients "
            "of clusters."
        )
    waiting: dict[int, deque[int]] = {number: deque() for number in np.unique(cluster_of).tolist()}
    for index in np.argsort(np.asarray(times), kind="stable").tolist():
        waiting[int(cluster_of[index])].append(index)
    turns = sorted(waiting, key=lambda number: (number < first, number))
    chosen: list[int] = []
    for number in cycle(turns):
        if len(chosen) == num_participants:
            break
        if waiting[number]:
            chosen.append(waiting[number].popleft())
    return np.array(chosen, dtype=np.int64)


class FlipsSelector(OracleSelector):
    """Takes turns among clusters of clients with like labels (Bhope et al., Middleware 2023).

    Clients are clustered once, by `label_clusters`; the participants of each round are chosen by
    `take_turns` (https://arxiv.org/abs/2308.03901).

    The paper leaves open, or has as an experiment's setting:

    - The number of clusters: the paper looks for the elbow of the Davies-Bouldin index over
      repeated k-means. Here it is the minimum, which no one has to read from a curve; see
      `label_clusters`.
    - Who comes first of those that were picked equally often: at random in each round.
    - Turns go on from round to round: the next round begins with the cluster after the last
      one's. Clusters of which nobody is there, or is left, are passed over.

    Left out is what the paper does about stragglers: it chooses more clients than it needs, from
    the clusters of those that were late. Here nobody is late.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_counts : array_like of float, shape (N, C)
        Samples of each class at all clients; row i belongs to the client with alias
        (partition-id) i.
    seed : int, optional (default: from the operating system)
        Fixes the choices; the clusters follow from the labels alone.

    Raises
    ------
    SettingsError
        If a value cannot work, or scikit-learn is missing.

    Examples
    --------
    >>> selector = FlipsSelector(2, [[9, 1], [9, 1], [1, 9], [1, 9]], seed=7)
    >>> past = Past(2, {"0": 2, "3": 2})
    >>> sorted(selector.choose(np.arange(4), past, np.random.default_rng(0)).tolist())
    [1, 2]
    """

    def __init__(
        self, num_participants: int, label_counts: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, label_counts, seed)
        self._clusters = label_clusters(self._label_counts)

    def choose(
        self, rows: NDArray[np.int64], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the clients whose turn it is."""
        first = 0
        for alias in past.recent(1):
            first = int(self._clusters[int(alias)]) + 1
        order = rng.permutation(len(rows))  # so that ties are broken at random
        shuffled = rows[order]
        chosen = take_turns(
            self._clusters[shuffled],
            past.times_of(shuffled.tolist()),
            self.num_participants,
            first,
        )
        return order[chosen]
