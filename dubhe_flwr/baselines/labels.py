"""The labels of all clients in the clear, and which client is which row of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import SettingsError

__all__ = ["label_table", "rows_of"]


def label_table(labels: ArrayLike) -> NDArray[np.float64]:
    """Return the labels of all clients as a table, checked.

    Parameters
    ----------
    labels : array_like of float, shape (N, C)
        Samples of each class at each client, or shares of them.

    Raises
    ------
    SettingsError
        If they are not finite non-negative numbers in rows, or a row is all zero.

    Examples
    --------
    >>> label_table([[3, 1], [0, 0]])
    Traceback (most recent call last):
    dubhe_flwr.errors.SettingsError: Labels of shape (2, 2) must be one row of finite non-negative \
counts or shares for each client, none of them all zero.
    """
    table = np.asarray(labels, dtype=np.float64)
    # A NaN fails every comparison, so the check asks for what must hold.
    if table.ndim != 2 or not (
        np.all((table >= 0) & (table < np.inf)) and np.all(table.sum(axis=1) > 0)
    ):
        raise SettingsError(
            f"Labels of shape {table.shape} must be one row of finite non-negative counts or "
            "shares for each client, none of them all zero."
        )
    return table


def rows_of(aliases: Sequence[str], num_rows: int) -> list[int]:
    """Return the row of each client, whose alias is the row's number.

    Raises
    ------
    SettingsError
        If an alias is not the number of a row.

    Examples
    --------
    >>> rows_of(["0", "10"], num_rows=11)
    [0, 10]
    """
    known = {str(row) for row in range(num_rows)}
    if unknown := [alias for alias in aliases if alias not in known]:
        raise SettingsError(
            f"Client {unknown[0]!r} is not a row of the {num_rows} that hold the labels; selection "
            "that sees labels is for simulations whose partition-ids are these rows."
        )
    return [int(alias) for alias in aliases]
