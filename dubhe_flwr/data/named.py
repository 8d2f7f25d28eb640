"""Federations by the names that the paper gives them, such as CIFAR10-10/1.5."""

import re
from dataclasses import dataclass
from typing import Final, Self

from dubhe_flwr.errors import SettingsError

__all__ = ["TABLE_1", "NamedFederation"]

_NAME: Final = re.compile(
    r"(?P<dataset>[A-Za-z][A-Za-z0-9]*)-(?P<rho>\d+(\.\d+)?)/(?P<emd>\d+(\.\d+)?)"
)
_NUM_CLIENTS: Final = {"FEMNIST": 8962}
_PAPER_NUM_CLIENTS: Final = 1000


@dataclass(frozen=True)
class NamedFederation:
    """A data set, a global skew and a local one: ``dataset-rho/EMD_avg``.

    Parameters
    ----------
    dataset : str
        Name of the data set as in the paper.
    rho : float
        Largest class divided by the smallest, over all clients.
    emd : float
        ``EMD_avg``.

    Examples
    --------
    >>> federation = NamedFederation.parse("CIFAR10-10/1.5")
    >>> federation.rho, federation.emd, federation.num_clients
    (10.0, 1.5, 1000)
    >>> print(federation)
    CIFAR10-10/1.5
    """

    dataset: str
    rho: float
    emd: float

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a name.

        Parameters
        ----------
        name : str
            As in the paper.

        Raises
        ------
        SettingsError
            If it is no such name.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            raise SettingsError(
                f"{name!r} is no name of a federation; give data set, rho and EMD_avg as in "
                "CIFAR10-10/1.5."
            )
        return cls(match["dataset"], float(match["rho"]), float(match["emd"]))

    @property
    def num_clients(self) -> int:
        """``N`` in the paper."""
        return _NUM_CLIENTS.get(self.dataset, _PAPER_NUM_CLIENTS)

    def __str__(self) -> str:
        return f"{self.dataset}-{self.rho:g}/{self.emd}"


TABLE_1: Final = (
    *(
        NamedFederation(dataset, rho, emd)
        for dataset in ("MNIST", "CIFAR10")
        for rho in (10.0, 5.0, 2.0, 1.0)
        for emd in (0.0, 0.5, 1.0, 1.5)
    ),
    NamedFederation("FEMNIST", 13.64, 0.554),
)
"""The federations of the paper's Table 1."""
