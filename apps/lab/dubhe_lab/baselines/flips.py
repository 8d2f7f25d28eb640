"""FLIPS: a label oracle that clusters clients by their labels and takes turns among clusters."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.distribution import label_distribution
from dubhe_lab.baselines.oracle import OracleSelector
from dubhe_lab.baselines.roll_call import Past

_NUM_STARTS: Final = 10
_CLUSTERS_BEYOND_CLASSES: Final = 10


def label_clusters(label_counts: ArrayLike) -> NDArray[np.int64]:
    """Cluster clients by k-means on their label distributions (N, C); return each one's cluster.

    The number of clusters k, from 2 to C + 10 or N / 2, minimises the Davies-Bouldin index

        DB = 1/k sum_i max_(j != i) (s_i + s_j) / ||m_i - m_j||

    where ``m_i`` is the centre of cluster i and ``s_i`` the mean distance of its clients to it.
    Each k gets the best of ten starts (k-means++).
    """
    # scikit-learn is an extra, so it is imported only here.
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.metrics import davies_bouldin_score  # noqa: PLC0415

    distributions = label_distribution(label_counts)
    num_clients, num_classes = distributions.shape
    most = min(
        num_classes + _CLUSTERS_BEYOND_CLASSES,
        num_clients // 2,  # the index favours clusters of one client, which leave no turns to take
        len(np.unique(distributions, axis=0)),
    )
    best, lowest = np.zeros(num_clients, dtype=np.int64), np.inf
    for number in range(2, most + 1):
        clusters = KMeans(number, n_init=_NUM_STARTS, random_state=0).fit_predict(distributions)
        index = davies_bouldin_score(distributions, clusters)
        if index < lowest:
            best, lowest = clusters.astype(np.int64), index
    return best


def take_turns(
    clusters: ArrayLike, times: ArrayLike, num_participants: int, first: int = 0
) -> NDArray[np.int64]:
    """Return K of N clients, taken from the clusters in turn, least-picked clients first.

    `clusters` holds each client's cluster, and `times` how often each was chosen before. Ties go to
    the lower index. The first turn goes to cluster `first`, or to the next one if it is empty.
    """
    cluster_of = np.asarray(clusters, dtype=np.int64)
    order, turns = np.argsort(np.asarray(times), kind="stable"), np.empty_like(cluster_of)
    for number in np.unique(cluster_of):
        own = order[cluster_of[order] == number]
        turns[own] = np.arange(own.size)
    by_turn = np.lexsort((cluster_of, cluster_of < first, turns))
    return np.asarray(by_turn[:num_participants], dtype=np.int64)


class FlipsSelector(OracleSelector):
    """Takes turns among clusters of clients with similar labels.

    Clients are clustered once, by k-means on their label distributions. Each round takes clients
    from the clusters in turn, beginning with the least-picked ones. After Bhope et al., "FLIPS:
    Federated Learning using Intelligent Participant Selection", Middleware 2023
    (https://arxiv.org/abs/2308.03901).

    Choices the paper leaves open, or varies between experiments:

    - The number of clusters: the paper takes the elbow of the Davies-Bouldin index over repeated
      k-means. Here it is the minimum, so that nobody has to read a curve.
    - Ties between clients picked equally often are broken at random in each round.
    - A round's first turn goes to the cluster after the previous round's last one.

    The paper's handling of stragglers is left out, since no client is late here. Takes the same
    arguments as `OracleSelector`; the clusters depend on the labels alone.

    Examples
    --------
    >>> selector = FlipsSelector(2, [[9, 1], [9, 1], [1, 9], [1, 9]], seed=7)
    >>> past = Past(2, {"0": 2, "3": 2})
    >>> sorted(selector.choose(["0", "1", "2", "3"], past, np.random.default_rng(0)).tolist())
    [1, 2]
    """

    def __init__(
        self, num_participants: int, label_counts: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, label_counts, seed)
        self._clusters = label_clusters(self.label_counts)

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the clients whose turn it is."""
        clusters, times = self._clusters[self.rows_of(aliases)], past.times_of(aliases)
        first = next((int(self._clusters[int(alias)]) + 1 for alias in past.recent(1)), 0)
        order = rng.permutation(len(aliases))  # so that ties are broken at random
        return order[take_turns(clusters[order], times[order], self.num_participants, first)]
