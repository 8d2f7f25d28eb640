"""Federations of people: the samples of each writer, split into virtual clients of equal size."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.data.rounding import largest_remainder
from dubhe_flwr.errors import SettingsError

__all__ = ["label_counts", "split_writers"]


def split_writers(
    writers: ArrayLike, num_clients: int, num_samples: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Split the samples of writers into virtual clients that hold equally many (FedVC).

    Every writer becomes at least one client, and those with more samples more. No client holds
    samples of two writers. The shuffled samples of a writer are dealt in a circle, so that none of
    them is used twice while another of his is unused.

    Parameters
    ----------
    writers : array_like of int, shape (M,)
        Whose each sample is, numbered from 0 without gaps.
    num_clients : int
        ``N``, at least the number of writers.
    num_samples : int
        ``N_VC``.
    generator : numpy.random.Generator
        Source of the shuffles.

    Returns
    -------
    ndarray of int64, shape (N, N_VC)
        Indices into the samples.

    Raises
    ------
    SettingsError
        If there are fewer clients than writers, or no samples.

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


def label_counts(labels: ArrayLike, num_classes: int) -> NDArray[np.int64]:
    """Count the labels of each client.

    Parameters
    ----------
    labels : array_like of int, shape (N, N_VC)
        Classes of the samples of each client.
    num_classes : int
        ``C``.

    Returns
    -------
    ndarray of int64, shape (N, C)

    Examples
    --------
    >>> label_counts([[0, 0], [2, 1]], 3).tolist()
    [[2, 0, 0], [0, 1, 1]]
    """
    classes = np.asarray(labels, dtype=np.int64)
    offsets = np.arange(len(classes))[:, None] * num_classes
    counts = np.bincount((classes + offsets).ravel(), minlength=len(classes) * num_classes)
    return counts.reshape(len(classes), num_classes)
