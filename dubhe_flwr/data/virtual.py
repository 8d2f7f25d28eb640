"""Virtual clients of equal size (FedVC).

Hsu, Qi and Brown, "Federated Visual Classification with Real-World Data Distribution" (ECCV
2020): a large data set is split, the samples of a small one are repeated, so that each client
takes the same number of steps and weighs the same in the average (eq. 1 of the Dubhe paper).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.data.partition import largest_remainder
from dubhe_flwr.errors import DataError, SettingsError

__all__ = ["assign_samples", "split_writers"]


def assign_samples(
    labels: ArrayLike, label_counts: ArrayLike, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Deal the samples of a data set to clients that want given counts of each class.

    The samples of a class are shuffled and dealt one by one; when all are dealt, they are
    shuffled and dealt again. So no sample is used twice while another of its class is unused.

    Parameters
    ----------
    labels : array_like of int, shape (M,)
        Class of each sample of the data set.
    label_counts : array_like of int, shape (N, C)
        Samples of each class that each client gets; all rows have the sum ``N_VC``.
    generator : numpy.random.Generator
        Source of the shuffles.

    Returns
    -------
    ndarray of int64, shape (N, N_VC)
        Indices into the data set, in random order within each client.

    Examples
    --------
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


def split_writers(
    writers: ArrayLike, num_clients: int, num_samples: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Split the samples of writers into virtual clients that hold equally many (FedVC).

    Every writer becomes at least one client, and those with more samples more. The shuffled samples
    of a writer are dealt in a circle, so that none is used twice while another is unused.

    `writers` tells whose each of M samples is, numbered from 0 without gaps; `num_clients` is at
    least their number. What is returned are indices into the samples, of shape (N, N_VC).

    Examples
    --------
    >>> samples = split_writers([0, 0, 0, 0, 1], 3, 2, np.random.default_rng(7))
    >>> np.sort(samples[:2].ravel()).tolist(), samples[2].tolist()
    ([0, 1, 2, 3], [4, 4])
    """
    owners = np.asarray(writers, dtype=np.int64)
    held = np.bincount(owners)
    if num_samples < 1 or not held.size or num_clients < held.size:
        raise SettingsError(
            f"num_clients={num_clients} and num_samples={num_samples} do not fit {held.size} "
            "writers; give at least one client for each of them, and one sample."
        )
    further = largest_remainder(held / held.sum(), num_clients - held.size)
    by_writer = np.split(np.argsort(owners, kind="stable"), np.cumsum(held)[:-1])
    dealt = [
        np.resize(generator.permutation(own), (1 + more, num_samples))
        for own, more in zip(by_writer, further.tolist(), strict=True)
    ]
    return np.concatenate(dealt)
