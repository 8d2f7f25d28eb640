"""What the oracles share: the labels of all clients, in the clear."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.roll_call import RollCall
from dubhe_flwr.errors import SettingsError


class OracleSelector(RollCall):
    """Sees every client's labels: for simulation only, since no client may give its labels away.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_counts : array_like of float, shape (N, C)
        Samples of each class at all clients; row i belongs to the client with alias
        (partition-id) i. Give shares where training averages clients with equal weights.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def __init__(
        self, num_participants: int, label_counts: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self.label_counts = label_table(label_counts)

    def rows_of(self, aliases: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each client, whose alias is the row's number."""
        known = {str(row): row for row in range(len(self.label_counts))}
        if unknown := [alias for alias in aliases if alias not in known]:
            raise SettingsError(
                f"Client {unknown[0]!r} is not a row of the {len(known)} that hold the labels; "
                "selection that sees labels is for simulations whose partition-ids are these rows."
            )
        return np.array([known[alias] for alias in aliases], dtype=np.int64)


def label_table(labels: ArrayLike) -> NDArray[np.float64]:
    """Return the label counts or shares of all clients (N, C), checked."""
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
