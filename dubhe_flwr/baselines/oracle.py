"""What the oracles share: labels in the clear, and a memory of whom they chose."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.roll_call import Past, RollCall, RollCallState
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.saved import check_keys, from_json, to_json

__all__ = ["OracleSelector", "label_table", "rows_of"]


class OracleSelector(RollCall):
    """Sees every client's labels and remembers whom it chose; a subclass says how it chooses.

    For simulation only, since no client may give its labels away. What it remembers is part of
    the state, so that a run can be resumed. The arguments are those of `FlipsSelector`.
    """

    def __init__(
        self, num_participants: int, label_counts: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self._label_counts = label_table(label_counts)

    @abstractmethod
    def choose(
        self, rows: NDArray[np.int64], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the positions in `rows` of K clients, in the order of choice.

        `rows` are those of the clients that are there, more than K.
        """

    def select(
        self, state: RollCallState, aliases: Sequence[str], rng: np.random.Generator
    ) -> tuple[RollCallState, NDArray[np.int64]]:
        """Choose, and remember whom; where there are at most K clients, all of them."""
        rows = np.array(rows_of(aliases, len(self._label_counts)), dtype=np.int64)
        if len(rows) <= self.num_participants:
            chosen = np.arange(len(rows))
        else:
            chosen = self.choose(rows, state.past, rng)
        past = state.past.followed_by(rows[chosen].tolist())
        return replace(state, past=past), np.sort(chosen)

    def state_dict(self, state: RollCallState) -> dict[str, Any]:
        """Return the seed and the past; the nodes are asked for their aliases again."""
        return {"seed": state.seed, "past": to_json(state.past)}

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool) -> RollCallState:
        """Return the state that was saved, without the nodes' aliases."""
        del interrupted
        values = check_keys(saved, ["seed", "past"], "selector")
        return RollCallState(
            from_json(int, values["seed"], "selector.seed"),
            past=from_json(Past, values["past"], "selector.past"),
        )


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


def rows_of(aliases: Sequence[str], num_rows: int) -> list[int]:
    """Return the row of each client, whose alias is the row's number."""
    known = {str(row) for row in range(num_rows)}
    if unknown := [alias for alias in aliases if alias not in known]:
        raise SettingsError(
            f"Client {unknown[0]!r} is not a row of the {num_rows} that hold the labels; selection "
            "that sees labels is for simulations whose partition-ids are these rows."
        )
    return [int(alias) for alias in aliases]
