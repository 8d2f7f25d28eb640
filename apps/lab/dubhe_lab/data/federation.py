"""A federation: which client holds how many samples of which class."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import global_distribution, label_distribution
from dubhe_flwr.errors import SettingsError
from dubhe_lab.data.measures import average_emd, imbalance_ratio
from dubhe_lab.data.partition import PartitionKind, client_distributions


@dataclass(frozen=True, eq=False)
class Federation:
    """The label counts of all virtual clients, and the figures that describe their skew.

    Parameters
    ----------
    dataset : str
        Name of the data set that the samples come from.
    label_counts : ndarray of int64, shape (N, C)
        Number of samples of each class at each client; every row sums to ``N_VC``.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> skew = {"num_classes": 10, "rho": 10, "emd": 1.5}
    >>> Federation.draw("MNIST", num_clients=1000, **skew, generator=rng).name
    'MNIST-10/1.5'
    """

    dataset: str
    label_counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        counts = np.array(self.label_counts, dtype=np.int64)
        totals = counts.sum(axis=-1)
        if counts.ndim != 2 or not counts.size or np.any(counts < 0) or np.ptp(totals) > 0:
            raise SettingsError(
                f"label_counts has shape {counts.shape}; pass one row of non-negative counts for "
                "each client, all of the same total."
            )
        counts.flags.writeable = False
        object.__setattr__(self, "label_counts", counts)

    @classmethod
    def draw(
        cls,
        dataset: str,
        *,
        num_clients: int,
        num_classes: int,
        rho: float,
        emd: float,
        generator: np.random.Generator,
        num_samples: int = 128,
        kind: PartitionKind = "dirichlet",
    ) -> Self:
        """Draw a federation as the paper does, with half-normal global skew and a given EMD_avg.

        `num_clients`, `num_classes` and `num_samples` are ``N``, ``C`` and ``N_VC``, the samples
        of each client; `rho` is the largest class divided by the smallest, over all clients. The
        rest is as in `client_distributions`.
        """
        proportions = half_normal_proportions(num_classes, rho)
        counts = client_distributions(
            num_clients, proportions, emd, generator, kind=kind, num_samples=num_samples
        )
        return cls(dataset, counts)

    @property
    def num_clients(self) -> int:
        """``N``, the number of clients."""
        return int(self.label_counts.shape[0])

    @property
    def num_classes(self) -> int:
        """``C``, the number of classes."""
        return int(self.label_counts.shape[1])

    @property
    def num_samples(self) -> int:
        """``N_VC``, the samples of each client."""
        return int(self.label_counts[0].sum())

    @property
    def label_distributions(self) -> NDArray[np.float64]:
        """``p_l`` of each client, shape (N, C)."""
        return label_distribution(self.label_counts)

    @property
    def global_distribution(self) -> NDArray[np.float64]:
        """``p_g``, the realised class proportions of all clients together, shape (C,)."""
        return global_distribution(self.label_counts)

    @property
    def rho(self) -> float:
        """The realised imbalance ratio: largest class divided by smallest."""
        return imbalance_ratio(self.global_distribution)

    @property
    def emd(self) -> float:
        """The realised ``EMD_avg``."""
        return average_emd(self.label_distributions, self.global_distribution)

    @property
    def name(self) -> str:
        """The federation's name in the paper, ``dataset-rho/EMD_avg``."""
        return f"{self.dataset}-{round(self.rho, 1):g}/{round(self.emd, 2)}"


def half_normal_proportions(num_classes: int, rho: float) -> NDArray[np.float64]:
    """Return descending class proportions ``p_g``, half normal over the class index.

    The share of class ``c`` (0 to C-1) is proportional to ``rho ** -(c / (C - 1)) ** 2``, so the
    first class is ``rho`` times as frequent as the last.

    Examples
    --------
    >>> half_normal_proportions(3, rho=16).round(3)
    array([0.64, 0.32, 0.04])
    """
    if num_classes < 2 or not 1 <= rho < math.inf:
        raise SettingsError(
            f"num_classes is {num_classes} and rho is {rho}; pass at least 2 classes, and a finite "
            "number of at least 1 for the largest class divided by the smallest."
        )
    shares = rho ** -(np.linspace(0.0, 1.0, num_classes) ** 2)
    return np.asarray(shares / shares.sum())
