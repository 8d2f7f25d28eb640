"""Determination: what an agent chooses from, once the nodes have drawn (section 5.3).

`Tries` makes H tentative selections of K clients; the agent chooses the best one. `Groups` cuts the
volunteers into small groups, some of which train together. The same number of encrypted sums then
gives the agent a far larger choice, and no client is in more than one sum. Both sides of the
protocol use the same object: the server cuts a round, and the agent chooses.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.determination import (
    Clients,
    Mask,
    cut_into_groups,
    far_apart,
    fill_or_trim,
    group_sizes,
)
from dubhe_flwr.core.group_choice import best_groups, scores_of
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError


@dataclass(frozen=True)
class Volunteers:
    """A round to cut into selections; the clients are in an order that never changes."""

    decisions: Mask  # each client's own draws, shape (N, H)
    eligible: Mask  # the clients that may be chosen, shape (N,)
    num_participants: int  # ``K``
    min_cohort: int  # fewest clients by which two sums may differ
    seed: int
    server_round: int

    def generator(self, purpose: str, *path: int) -> np.random.Generator:
        """Return the generator that seed and round fix for a purpose."""
        return generator(self.seed, purpose, self.server_round, *path)

    def tries(self) -> list[Clients]:
        """Return the K clients of each try; a try too close to an earlier one is replaced by it."""
        tries = [
            fill_or_trim(
                volunteers,
                self.eligible,
                self.num_participants,
                self.generator("fill-or-trim", attempt),
            )
            for attempt, volunteers in enumerate(self.decisions.T)
        ]
        return far_apart(tries, self.min_cohort)


class Determination(ABC):
    """What an agent chooses from: selections of clients, one or more of which train together.

    By default there is a selection for each draw, selections may overlap, and one of them trains.
    """

    pool: int
    """Average number of volunteers for a draw, as a multiple of K."""

    def num_volunteers(self, num_participants: int, num_clients: int) -> int:
        """Return ``V``: how many of N clients volunteer for a draw, on average.

        More than `_most_volunteers` of them would leave little to balance.
        """
        most = self._most_volunteers(num_clients)
        return max(num_participants, min(self.pool * num_participants, most))

    @staticmethod
    @abstractmethod
    def _most_volunteers(num_clients: int) -> int:
        """Return the largest pool among N clients, unless K is larger."""

    @property
    @abstractmethod
    def has_agent(self) -> bool:
        """Whether an agent chooses; if not, nodes register no label distribution."""

    @property
    @abstractmethod
    def num_draws(self) -> int:
        """Number of draws that a node makes for a round."""

    def num_wanted(self, num_participants: int) -> int:
        """Return how many selections train together."""
        del num_participants
        return 1

    def num_selections(
        self, num_draws: int, num_participants: int, num_volunteers: int, *, covered: int, sums: int
    ) -> int:
        """Return how many selections a round has, given the expected number of volunteers.

        The sums of a round cover at most `covered` clients, and an agent decrypts at most `sums`.
        """
        del num_participants, num_volunteers, covered, sums
        return num_draws

    def num_covered(self, sizes: Sequence[int]) -> int:
        """Return how many clients any of an agent's sums cover, given the selections' sizes."""
        return max(sizes)

    @abstractmethod
    def cut(self, drawn: Volunteers, max_selections: int) -> list[Clients]:
        """Return the clients of each selection; the first `num_wanted` are a random choice of K."""

    @abstractmethod
    def choose(
        self,
        sums: NDArray[np.int64],
        sizes: NDArray[np.int64],
        num_participants: int,
        local_skew: float,
        target: ArrayLike | None,
    ) -> list[int]:
        """Return the selections whose combined data is best.

        Parameters
        ----------
        sums : ndarray of int64, shape (M, C + 1)
            As for `dubhe_flwr.core.group_choice.scores_of`.
        sizes : ndarray of int64, shape (M,)
            Clients in each selection.
        num_participants : int
            ``K``.
        local_skew, target
            As for `scores_of`.

        Raises
        ------
        SettingsError
            If the selections do not make up K clients.
        """


@dataclass(frozen=True)
class Tries(Determination):
    """The best of H tentative selections, as in the paper.

    Parameters
    ----------
    number : int (default: 20)
        ``H``. With 1 there is no choice: no agent, and no sum over few clients.
    pool : int (default: 1)
        Average number of volunteers for a try, as a multiple of K, up to a quarter of all clients
        plus seven. K of them are taken at random.

    Raises
    ------
    SettingsError
        If a number is below 1.
    """

    number: int = 20
    pool: int = 1

    def __post_init__(self) -> None:
        _require_positive("Tries", number=self.number, pool=self.pool)

    @staticmethod
    def _most_volunteers(num_clients: int) -> int:
        return num_clients // 4 + 7

    @property
    def has_agent(self) -> bool:
        """True for two or more tries."""
        return self.number > 1

    @property
    def num_draws(self) -> int:
        """One for each try."""
        return self.number

    def cut(self, drawn: Volunteers, max_selections: int) -> list[Clients]:
        """Return the K clients of each try."""
        del max_selections
        return drawn.tries()

    def choose(
        self,
        sums: NDArray[np.int64],
        sizes: NDArray[np.int64],
        num_participants: int,
        local_skew: float,
        target: ArrayLike | None,
    ) -> list[int]:
        """Return h*, the best try; the first one wins a tie."""
        del sizes, num_participants
        return [int(np.argmin(scores_of(sums, local_skew, target)))]


@dataclass(frozen=True)
class Groups(Determination):
    """The best groups of a pool of volunteers.

    Parameters
    ----------
    size : int (default: 4)
        ``g``: fewest clients in a group.
    pool : int (default: 5)
        Average number of volunteers, as a multiple of K, up to three fifths of all clients. One
        draw at such high probabilities keeps the proportions between categories; pooling everyone
        who volunteers in any of several draws would not.

    Raises
    ------
    SettingsError
        If a number is below 1.
    """

    size: int = 4
    pool: int = 5

    def __post_init__(self) -> None:
        _require_positive("Groups", size=self.size, pool=self.pool)

    @staticmethod
    def _most_volunteers(num_clients: int) -> int:
        return 3 * num_clients // 5

    @property
    def has_agent(self) -> bool:
        """Always true."""
        return True

    @property
    def num_draws(self) -> int:
        """One: the probability is for the whole pool."""
        return 1

    def num_wanted(self, num_participants: int) -> int:
        """Return how many groups make up K clients."""
        return num_participants // self.size

    def num_selections(
        self, num_draws: int, num_participants: int, num_volunteers: int, *, covered: int, sums: int
    ) -> int:
        """Return how many groups the volunteers form."""
        del num_draws
        sizes = group_sizes(num_participants, self.size)
        formed = min(covered // int(sizes[-1]), num_volunteers // self.size)
        return min(sums, max(len(sizes), formed))

    def num_covered(self, sizes: Sequence[int]) -> int:
        """Return the number of clients in all groups, which do not overlap."""
        return sum(sizes)

    def cut(self, drawn: Volunteers, max_selections: int) -> list[Clients]:
        """Cut groups from all eligible volunteers, filled up to K clients if there are fewer."""
        num_participants, volunteers = drawn.num_participants, drawn.decisions[:, 0]
        least = max(num_participants, int((volunteers & drawn.eligible).sum()))
        pool = fill_or_trim(volunteers, drawn.eligible, least, drawn.generator("pool"))
        rng = drawn.generator("groups")
        return cut_into_groups(pool, num_participants, self.size, max_selections, rng)

    def choose(
        self,
        sums: NDArray[np.int64],
        sizes: NDArray[np.int64],
        num_participants: int,
        local_skew: float,
        target: ArrayLike | None,
    ) -> list[int]:
        """Return the groups that together make up the best K clients."""
        wanted = group_sizes(num_participants, self.size)
        best = best_groups(sums, sizes, wanted, local_skew, target)
        return [int(index) for index in best]


def _require_positive(kind: str, **numbers: object) -> None:
    for name, number in numbers.items():
        if type(number) is not int or not 1 <= number < 2**31:
            raise SettingsError(f"{kind}({name}={number!r}) must be a whole number from 1 up.")
