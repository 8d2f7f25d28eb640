"""What the oracles share: labels in the clear, and a memory of whom they chose."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.baselines.greedy import label_table, rows_of
from dubhe_flwr.baselines.roll_call import RollCall, RollCallState
from dubhe_flwr.protocol.saved import check_keys, from_json, to_json

__all__ = ["OracleSelector", "OracleState", "Past"]


@dataclass(frozen=True)
class Past:
    """How many rounds there were, and how often each row was chosen; the last one stands last."""

    num_rounds: int = 0
    times: Mapping[int, int] = field(default_factory=dict)

    def followed_by(self, rows: Iterable[int]) -> "Past":
        """Return the past after another round, whose clients are given in the order of choice."""
        times = dict(self.times)
        for row in rows:
            times[row] = times.pop(row, 0) + 1
        return Past(self.num_rounds + 1, times)

    def times_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how often each of some clients was chosen."""
        return np.array([self.times.get(row, 0) for row in rows.tolist()], dtype=np.int64)

    def recent(self, number: int) -> list[int]:
        """Return up to that many clients that were chosen last, the latest one last."""
        return list(self.times)[max(len(self.times) - number, 0) :]


@dataclass(frozen=True)
class OracleState(RollCallState):
    """The state of a roll call, and whom the selector chose."""

    past: Past = field(default_factory=Past)


class OracleSelector(RollCall[OracleState]):
    """Sees every client's labels and remembers whom it chose; a subclass says how it chooses.

    For simulation only, since no client may give its labels away. What it remembers is part of
    the state, so that a run can be resumed. The arguments are those of `FlipsSelector`.
    """

    def __init__(
        self, num_participants: int, label_counts: ArrayLike, seed: int | None = None
    ) -> None:
        super().__init__(num_participants, seed)
        self._label_counts = label_table(label_counts)

    def initial_state(self) -> OracleState:
        """Return the state before the first round."""
        return OracleState(self.seed)

    @abstractmethod
    def choose(
        self, rows: NDArray[np.int64], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the positions in `rows` of K clients, in the order of choice.

        `rows` are those of the clients that are there, more than K.
        """

    def select(
        self, state: OracleState, aliases: Sequence[str], rng: np.random.Generator
    ) -> tuple[OracleState, NDArray[np.int64]]:
        """Choose, and remember whom; where there are at most K clients, all of them."""
        rows = np.array(rows_of(aliases, len(self._label_counts)), dtype=np.int64)
        if len(rows) <= self.num_participants:
            chosen = np.arange(len(rows))
        else:
            chosen = self.choose(rows, state.past, rng)
        past = state.past.followed_by(rows[chosen].tolist())
        return replace(state, past=past), np.sort(chosen)

    def state_dict(self, state: OracleState) -> dict[str, Any]:
        """Return the seed and the past; the nodes are asked for their aliases again."""
        return {**super().state_dict(state), "past": to_json(state.past)}

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool) -> OracleState:
        """Return the state that was saved, without the nodes' aliases."""
        values = check_keys(saved, ["seed", "past"], "selector")
        return replace(
            super().load_state_dict({"seed": values["seed"]}, interrupted=interrupted),
            past=from_json(Past, values["past"], "selector.past"),
        )
