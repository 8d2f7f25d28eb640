"""What the oracles with a memory share: labels in the clear, and whom they chose before."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.labels import label_table, rows_of
from dubhe_flwr.baselines.past import Past
from dubhe_flwr.baselines.roll_call import RollCall, RollCallState
from dubhe_flwr.protocol import check_keys, from_json

__all__ = ["OracleSelector"]


class OracleSelector(RollCall):
    """Sees every client's labels and remembers whom it chose; a subclass says how it chooses.

    For simulation only, since no client may give its labels away. What it remembers is part of
    the state, so that a run can be resumed.

    Parameters
    ----------
    num_participants : int
        ``K``.
    label_counts : array_like of float, shape (N, C)
        Samples of each class at all clients; row i belongs to the client with alias
        (partition-id) i. Give shares where training averages clients with equal weights.
    seed : int, optional (default: from the operating system)
        Fixes the choices.

    Raises
    ------
    SettingsError
        If a value cannot work.
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
        """Return the indices of the chosen clients, in the order of choice.

        Parameters
        ----------
        rows : ndarray of int64
            The rows of the clients that are there, in the order of their aliases; more than K.
        past : Past
            Whom the rounds before chose.
        rng : numpy.random.Generator
            Randomness of this round.

        Returns
        -------
        ndarray of int64, shape (K,)
            Positions in `rows`, all different.
        """

    def select(
        self, state: RollCallState, aliases: Sequence[str], rng: np.random.Generator
    ) -> tuple[RollCallState, NDArray[np.int64]]:
        """Choose, and remember whom; where there are at most K clients, all of them.

        Raises
        ------
        SettingsError
            If an alias is not the number of a row.
        """
        rows = np.array(rows_of(aliases, len(self._label_counts)), dtype=np.int64)
        if len(rows) <= self.num_participants:
            chosen = np.arange(len(rows))
        else:
            chosen = self.choose(rows, state.past, rng)
        past = state.past.followed_by(aliases[index] for index in chosen.tolist())
        return replace(state, past=past), np.sort(chosen)

    def state_dict(self, state: RollCallState) -> dict[str, Any]:
        """Return the seed and the past; the nodes are asked for their aliases again."""
        return {"seed": state.seed, "past": state.past.to_json()}

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool) -> RollCallState:
        """Return the state that was saved, without the nodes' aliases."""
        del interrupted
        values = check_keys(saved, ["seed", "past"], "selector")
        return RollCallState(
            from_json(int, values["seed"], "selector.seed"),
            past=Past.from_json(values["past"], "selector.past"),
        )
