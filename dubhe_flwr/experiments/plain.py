"""Dubhe in the clear: the same clients as under encryption, fast enough for sweeps.

Nothing is encrypted and nothing is sent, but all that decides who trains is the code of the
protocol: registry, probabilities, draws, agents, tries or groups, and the agent's choice.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    fixed_point_distribution,
    moments,
    overall_registry,
    participation_probability,
    seeded_draws,
    with_square,
)
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings
from dubhe_flwr.protocol.agent import best_selections, fixed_point_probabilities
from dubhe_flwr.protocol.epoch import Roster
from dubhe_flwr.protocol.parameters import epoch_parameters
from dubhe_flwr.protocol.renewal import num_rounds_of, num_tries_of
from dubhe_flwr.protocol.rounds import DrawnRound, choose_agents

__all__ = ["plain_rounds"]

_ROUNDS_AT_ONCE: Final = 50


def plain_rounds(settings: Settings, label_counts: ArrayLike) -> Iterator[NDArray[np.int64]]:
    """Yield who trains in each round, from round 1 on and without end.

    The sets are those of a `Coordinator` with the same settings and simulated nodes of the aliases
    0, 1, ..., N-1, if all of them are always there and willing and their label counts stay.

    Parameters
    ----------
    settings : Settings
        What the operator decides. There has to be a seed, and `rounds_per_draw` changes nothing.
    label_counts : array_like of int, shape (N, C)
        Samples of each class at each client, at least one of them.

    Yields
    ------
    ndarray of int64, shape (K,)
        Indices of clients, ascending.

    Raises
    ------
    SettingsError
        If there is no seed, or there are fewer than K clients.

    Examples
    --------
    >>> settings = Settings(num_participants=4, reference_set=(1, 2), thresholds={1: 0.7}, seed=7)
    >>> rounds = plain_rounds(settings, [[9, 1]] * 20 + [[1, 9]] * 5)
    >>> [np.bincount(next(rounds) // 20).tolist() for _ in range(3)]
    [[2, 2], [2, 2], [2, 2]]
    """
    clients = _Clients(settings, np.asarray(label_counts, dtype=np.int64))
    roster = Roster(
        first_round=1,
        parameters=epoch_parameters(settings.announced()),
        aliases=dict(enumerate(clients.aliases)),
    )
    num_tries = num_tries_of(settings, roster)
    interval = num_rounds_of(settings, roster)
    while True:
        rounds = range(roster.first_round, roster.first_round + interval)
        for server_round, undetermined in clients.draw(rounds, num_tries):
            # No agent's turn comes more often in an epoch than its sums allow.
            determined = choose_agents(roster, {server_round: undetermined}, clients.seed)
            drawn = determined[server_round]
            chosen = clients.best_selections(drawn) if drawn.chosen is None else drawn.chosen
            yield np.sort(np.concatenate([drawn.selections[index] for index in chosen]))
        roster = replace(roster, first_round=roster.first_round + interval)


class _Clients:
    """All clients in the clear: their data in fixed point, and their probabilities.

    Their label counts stay, so that every epoch has the same registry and probabilities.
    """

    def __init__(self, settings: Settings, label_counts: NDArray[np.int64]) -> None:
        if settings.seed is None:
            raise SettingsError("seed=None lets every node draw for itself; give a seed.")
        if settings.num_participants > len(label_counts):
            raise SettingsError(
                f"num_participants={settings.num_participants} is above the {len(label_counts)} "
                "clients; select fewer or simulate more."
            )
        self.seed = settings.seed
        self.aliases = [str(row) for row in range(len(label_counts))]
        self._announced = settings.announced()
        self._distributions = np.array(
            [with_square(fixed_point_distribution(counts)) for counts in label_counts]
        )
        self._probability = self._probabilities(settings, label_counts)

    def draw(self, rounds: range, num_tries: int) -> Iterator[tuple[int, DrawnRound]]:
        """Let every client draw for these rounds, some at a time."""
        available = np.ones(len(self.aliases), dtype=bool)
        for begin in range(0, len(rounds), _ROUNDS_AT_ONCE):
            some = rounds[begin : begin + _ROUNDS_AT_ONCE]
            decisions = np.array(
                [
                    seeded_draws(self.seed, alias, some.start, len(some), num_tries) < probability
                    for alias, probability in zip(self.aliases, self._probability, strict=True)
                ]
            )
            for offset, server_round in enumerate(some):
                yield server_round, DrawnRound(decisions[:, offset], available)

    def best_selections(self, drawn: DrawnRound) -> list[int]:
        """Choose as the agent of a round does."""
        sums = [self._distributions[indices].sum(axis=0) for indices in drawn.selections]
        sizes = [len(indices) for indices in drawn.selections]
        return best_selections(np.array(sums), np.array(sizes), self._announced)

    def _probabilities(
        self, settings: Settings, label_counts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        codebook = settings.codebook
        thresholds = epoch_parameters(self._announced).thresholds
        overall, slots = overall_registry(label_counts, codebook, thresholds)
        if settings.participation == "paper":
            volunteers = self._announced.num_volunteers(len(label_counts))
            return participation_probability(overall, volunteers)[slots]
        table = np.zeros((codebook.length, codebook.num_classes + 1), dtype=np.int64)
        for distribution, slot in zip(self._distributions, slots.tolist(), strict=True):
            table += moments(distribution[:-1], slot, overall, codebook, settings.min_cohort)
        calibrated = fixed_point_probabilities(overall, table, self._announced)
        return calibrated[slots] / FIXED_POINT_SCALE
