"""Whom a selector chose so far: what it counts, and who is recent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol import check_keys, from_json

__all__ = ["Past"]


@dataclass(frozen=True, slots=True)
class Past:
    """The choices of all rounds so far.

    Parameters
    ----------
    num_rounds : int (default: 0)
        How many rounds there were.
    times : mapping of str to int (default: empty)
        How often each client was chosen, by alias; who was chosen last stands last.

    Examples
    --------
    >>> past = Past().followed_by(["3", "1"]).followed_by(["3"])
    >>> past.num_rounds, dict(past.times)
    (2, {'1': 1, '3': 2})
    """

    num_rounds: int = 0
    times: Mapping[str, int] = field(default_factory=dict)

    def followed_by(self, aliases: Iterable[str]) -> "Past":
        """Return the past after another round, whose clients are given in the order of choice."""
        times = dict(self.times)
        for alias in aliases:
            times[alias] = times.pop(alias, 0) + 1
        return Past(self.num_rounds + 1, times)

    def times_of(self, rows: Iterable[int]) -> NDArray[np.int64]:
        """Return how often each of some clients was chosen, whose aliases are these numbers."""
        return np.array([self.times.get(str(row), 0) for row in rows], dtype=np.int64)

    def recent(self, number: int) -> list[str]:
        """Return up to that many clients that were chosen last, the latest one last."""
        return list(self.times)[max(len(self.times) - number, 0) :]

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that JSON takes."""
        return {
            "num_rounds": self.num_rounds,
            "aliases": list(self.times),
            "times": list(self.times.values()),
        }

    @classmethod
    def from_json(cls, saved: object, where: str) -> "Past":
        """Return what `to_json` wrote.

        Parameters
        ----------
        saved : object
            As read.
        where : str
            What it is part of, for the message of an error.

        Raises
        ------
        CheckpointError
            If a key is missing or unknown, or a value is unfit.
        """
        values = check_keys(saved, ["num_rounds", "aliases", "times"], where)
        num_rounds = from_json(int, values["num_rounds"], f"{where}.num_rounds")
        aliases = from_json(tuple[str, ...], values["aliases"], f"{where}.aliases")
        times = from_json(tuple[int, ...], values["times"], f"{where}.times")
        fit = len(aliases) == len(times) == len(set(aliases))
        if not fit or min((num_rounds, *times)) < (1 if times else 0):
            raise CheckpointError(
                f"{where}: {len(times)} counts of {len(set(aliases))} clients in {num_rounds} "
                "rounds do not fit together; the state was changed or damaged."
            )
        return cls(num_rounds, dict(zip(aliases, times, strict=True)))
