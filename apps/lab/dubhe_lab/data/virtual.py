"""Virtual clients of equal size (FedVC).

Hsu, Qi and Brown, "Federated Visual Classification with Real-World Data Distribution" (ECCV
2020): a large data set is split, and the samples of a small one are repeated, so each client
takes the same number of steps and weighs the same in the average (eq. 1 of the Dubhe paper).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import DataError, SettingsError


def assign_samples(
    labels: ArrayLike, label_counts: ArrayLike, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Deal the samples of a data set to clients with given counts of each class.

    The samples of a class are shuffled and dealt one by one; when all are dealt, they are
    shuffled and dealt again. So no sample is used twice while another of its class is unused.

    `labels` has shape (M,); `label_counts` has shape (N, C) and rows that sum to ``N_VC``. Returns
    the indices of the samples, shape (N, N_VC), with each row shuffled.

    >>> labels = np.array([0, 0, 1, 1])
    >>> dealt = assign_samples(labels, [[2, 1], [1, 2]], np.random.default_rng(7))
    >>> np.sort(labels[dealt]).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    available = np.asarray(labels)
    wanted = np.asarray(label_counts, dtype=np.int64)
    if np.ptp(wanted.sum(axis=1)) > 0:
        raise SettingsError(
            "The rows of label_counts have different sums; virtual clients all hold the same "
            "number of samples."
        )
    dealt, owners = [], []
    for label, total in enumerate(wanted.sum(axis=0)):
        pool = np.flatnonzero(available == label)
        if total and not pool.size:
            raise DataError(
                f"The data set has no sample of class {label}; leave the class out of label_counts."
            )
        shuffles = [generator.permutation(pool) for _ in range(-(-total // max(pool.size, 1)))]
        dealt.append(np.concatenate([*shuffles, pool[:0]])[:total])
        owners.append(np.repeat(np.arange(wanted.shape[0]), wanted[:, label]))
    by_owner = np.argsort(np.concatenate(owners), kind="stable")
    samples = np.concatenate(dealt)[by_owner].reshape(wanted.shape[0], -1)
    return np.asarray(generator.permuted(samples, axis=1), dtype=np.int64)
