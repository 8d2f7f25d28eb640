"""Virtual clients of equal size (FedVC), simulated and in deployment.

Hsu, Qi and Brown, "Federated Visual Classification with Real-World Data Distribution" (ECCV
2020): a large data set is split, the samples of a small one are repeated, so that each client
takes the same number of steps and weighs the same in the average (eq. 1 of the Dubhe paper).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import DataError, SettingsError

__all__ = ["VirtualClientSampler", "assign_samples"]


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

    Raises
    ------
    DataError
        If a class is wanted of which the data set has no sample.
    SettingsError
        If the clients want different numbers of samples.

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


@dataclass(frozen=True)
class VirtualClientSampler:
    """The samples with which one node trains in each round, always ``N_VC`` of them.

    The node's own data are put into a seeded order and walked through in a circle, ``N_VC``
    samples a round. A node that holds more trains on another part every round and on all of its
    data over the rounds (split); one that holds fewer trains on each sample as often as any other,
    give or take once (repeated). Nothing but the three settings needs to be kept.

    Parameters
    ----------
    num_samples : int
        ``N_VC``, the samples of a round.
    num_available : int
        Size of the node's own data set.
    seed : int
        Fixes the order of the walk.

    Raises
    ------
    SettingsError
        If either number is below 1.

    Examples
    --------
    >>> split = VirtualClientSampler(num_samples=2, num_available=5, seed=7)
    >>> sorted({int(index) for turn in range(3) for index in split.indices(turn)})
    [0, 1, 2, 3, 4]
    >>> repeated = VirtualClientSampler(num_samples=5, num_available=2, seed=7)
    >>> np.bincount(repeated.indices(0)).tolist(), np.bincount(repeated.indices(1)).tolist()
    ([3, 2], [2, 3])
    """

    num_samples: int
    num_available: int
    seed: int

    def __post_init__(self) -> None:
        if self.num_samples < 1 or self.num_available < 1:
            raise SettingsError(
                f"num_samples is {self.num_samples} and num_available is {self.num_available}; "
                "a node without data cannot train, so leave it out of the federation."
            )

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.random.default_rng(self.seed).permutation(self.num_available)

    def indices(self, turn: int) -> NDArray[np.int64]:
        """Return the samples of one training.

        Parameters
        ----------
        turn : int
            How often the node has trained before. A node that is chosen only now and then keeps
            the count in its ``Context.state``; with the server's round number in its place the
            walk skips the parts of the rounds it was not chosen in.

        Returns
        -------
        ndarray of int64, shape (N_VC,)
            Indices into the node's own data set.
        """
        walk = turn * self.num_samples + np.arange(self.num_samples)
        return self._order[walk % self.num_available]
