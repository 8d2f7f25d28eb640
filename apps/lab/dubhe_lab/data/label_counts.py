"""Label counts read from a table, and the check that a federation can have them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError
from dubhe_lab.data.grids import shown


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts:
    """Number of samples of each class at each client, with the names of both.

    Parameters
    ----------
    counts : ndarray of int64, shape (N, C)
    classes : tuple of str, length C
    clients : tuple of str, length N
        Numbers from 0 if the table has no names.

    Examples
    --------
    >>> counts = np.array([[9, 0], [2, 2]])
    >>> read = LabelCounts(counts, ("cat", "dog"), ("north", "south"))
    >>> print(read.summary)
    2 clients, 2 classes, 13 samples. Samples of each class: cat: 11, dog: 2.
    >>> print(read.extremes)
    Smallest client: south with 4 samples. Largest client: north with 9 samples.
    """

    counts: NDArray[np.int64]
    classes: tuple[str, ...]
    clients: tuple[str, ...]

    @property
    def summary(self) -> str:
        """A line about the classes that were read."""
        totals = self.counts.sum(axis=0)
        each = (f"{name}: {own}" for name, own in zip(self.classes, totals, strict=True))
        return (
            f"{len(self.clients)} clients, {len(totals)} classes, {totals.sum()} samples. "
            f"Samples of each class: {shown(each)}."
        )

    @property
    def extremes(self) -> str:
        """The names and sizes of the smallest and the largest client."""
        sizes = self.counts.sum(axis=1).tolist()
        small, large = sizes.index(min(sizes)), sizes.index(max(sizes))
        if small == large:
            return f"Each client has {_samples(sizes[small])}."
        return (
            f"Smallest client: {self.clients[small]} with {_samples(sizes[small])}. "
            f"Largest client: {self.clients[large]} with {_samples(sizes[large])}."
        )


def _samples(number: int) -> str:
    return "1 sample" if number == 1 else f"{number} samples"


def check_counts(
    counts: NDArray[np.int64],
    name: str,
    places: Sequence[str],
    totals: Sequence[str] = ("row", "column"),
) -> None:
    """Refuse counts that no federation can have.

    `places` says where each client is in the table, and `totals` where to look for unnamed totals:
    among rows or columns, first or last. Raises `DataError` if there are fewer than two classes, a
    client has no samples, or counts are flags or totals.
    """
    if counts.shape[1] < 2 or not len(counts):
        raise DataError(
            f"{name} has {len(counts)} clients and {counts.shape[1]} columns of counts; pass a "
            "row for each client and a column for each of at least two classes."
        )
    if empty := np.flatnonzero(counts.sum(axis=1) == 0).tolist():
        raise DataError(f"{name}, {places[empty[0]]}: the client has no samples; leave it out.")
    if counts.max() == 1:
        raise DataError(
            f"{name} holds only 0 and 1, as one-hot labels do; pass the number of samples of each "
            "class at each client."
        )
    for what in totals:
        lines = counts if what == "row" else counts.T
        # With only two lines, equal ones would each pass for the other's total.
        if len(lines) >= 3 and any((2 * lines[at] == lines.sum(axis=0)).all() for at in (0, -1)):
            raise DataError(
                f"{name}: the first or last {what} is the sum of all others; leave it out, or "
                "move it between the others if it is not a total."
            )
