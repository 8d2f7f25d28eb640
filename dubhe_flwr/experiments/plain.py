"""Dubhe in the clear: the same clients as under encryption, fast enough for sweeps.

Nothing is encrypted and nothing is sent, but all that decides who trains is the code of the
protocol: registry, probabilities, draws, agents, tries or groups, and the agent's choice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import (
    best_candidate,
    fixed_point_distribution,
    overall_registry,
    participation_probability,
    search_contribution,
    seeded_draws,
    with_square,
)
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings
from dubhe_flwr.protocol.agent import best_selections
from dubhe_flwr.protocol.epoch import Roster
from dubhe_flwr.protocol.parameters import epoch_parameters
from dubhe_flwr.protocol.renewal import num_rounds_of, num_tries_of
from dubhe_flwr.protocol.rounds import DrawnRound, choose_agents
from dubhe_flwr.protocol.search import fewest_answers, search_agents

__all__ = ["plain_rounds"]

_ROUNDS_AT_ONCE: Final = 50


def plain_rounds(settings: Settings, label_counts: ArrayLike) -> Iterator[NDArray[np.int64]]:
    """Yield who trains in each round, from round 1 on and without end.

    The sets are those of a `Coordinator` with the same settings and simulated nodes of the aliases
    0, 1, ..., N-1, if all of them are always there and willing and their label counts stay.

    Label counts have the shape (N, C); what is yielded are K ascending indices of clients.

    Raises
    ------
    SettingsError
        If there is no seed, or there are fewer than K clients.

    Examples
    --------
    >>> settings = Settings(num_participants=4, reference_set=(1, 2), thresholds={1: 0.7},
    ...                     participation="paper", determination="tries", seed=7)
    >>> rounds = plain_rounds(settings, [[9, 1]] * 20 + [[1, 9]] * 5)
    >>> [np.bincount(next(rounds) // 20).tolist() for _ in range(3)]
    [[2, 2], [2, 2], [2, 2]]
    """
    clients = _Clients(settings, np.asarray(label_counts, dtype=np.int64))
    roster = Roster(
        first_round=1,
        parameters=epoch_parameters(settings.announced(len(clients.aliases))),
        aliases=dict(enumerate(clients.aliases)),
    )
    while True:
        thresholds = clients.search(roster)
        probability = clients.probabilities(thresholds)
        interval = num_rounds_of(settings, roster)
        rounds = range(roster.first_round, roster.first_round + interval)
        for server_round, undetermined in clients.draw(
            rounds, num_tries_of(settings, roster), probability
        ):
            determined = choose_agents(roster, {server_round: undetermined}, clients.seed)
            drawn = determined[server_round]
            if drawn.agent is not None:
                spent = roster.num_sums.get(drawn.agent, 0) + len(drawn.selections)
                roster = replace(roster, num_sums={**roster.num_sums, drawn.agent: spent})
            chosen = clients.best_selections(drawn) if drawn.chosen is None else drawn.chosen
            yield np.sort(np.concatenate([drawn.selections[index] for index in chosen]))
        found = epoch_parameters(settings.announced(len(clients.aliases), thresholds))
        first_round = roster.first_round + interval
        roster = replace(roster, first_round=first_round, parameters=found, num_sums={})


class _Clients:
    """All clients in the clear: their data in fixed point, which stays what it is."""

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
        self._settings = settings
        self._label_counts = label_counts
        self._announced = settings.announced(len(label_counts))
        self._distributions = np.array(
            [with_square(fixed_point_distribution(counts)) for counts in label_counts]
        )

    def search(self, roster: Roster) -> Mapping[int, float]:
        """Find the best thresholds as the agent of a search does, where there is a choice."""
        candidates = roster.parameters.candidates
        if len(candidates) == 1:
            return candidates[0]
        num_clients = len(self.aliases)
        if num_clients < fewest_answers(self._settings, 0):
            return candidates[self._settings.fallback_candidate]
        agent = search_agents(self.seed, roster.first_round, num_clients)[0]
        registered = [self._registered(sigma) for sigma in candidates]
        overall = np.array([counts for counts, _ in registered])
        slots = np.array([of_clients for _, of_clients in registered])
        table = np.zeros((len(candidates), self._distributions.shape[1]), dtype=np.int64)
        volunteers = self._announced.num_volunteers(num_clients)
        for row in set(range(num_clients)) - {agent}:
            own = self._distributions[row, :-1]
            table += search_contribution(own, slots[:, row], overall, volunteers)
        return candidates[best_candidate(table)]

    def probabilities(self, thresholds: Mapping[int, float]) -> NDArray[np.float64]:
        """Return everyone's probability under the thresholds that hold."""
        overall, slots = self._registered(thresholds)
        volunteers = self._announced.num_volunteers(len(self.aliases))
        return participation_probability(overall, volunteers)[slots]

    def draw(
        self, rounds: range, num_tries: int, probability: NDArray[np.float64]
    ) -> Iterator[tuple[int, DrawnRound]]:
        """Let every client draw for these rounds, some at a time."""
        available = np.ones(len(self.aliases), dtype=bool)
        for begin in range(0, len(rounds), _ROUNDS_AT_ONCE):
            some = rounds[begin : begin + _ROUNDS_AT_ONCE]
            draws = np.array(
                [
                    seeded_draws(self.seed, alias, some.start, len(some), num_tries)
                    for alias in self.aliases
                ]
            )
            decisions = draws < probability[:, None, None]
            for offset, server_round in enumerate(some):
                yield server_round, DrawnRound(decisions[:, offset], available)

    def best_selections(self, drawn: DrawnRound) -> list[int]:
        """Choose as the agent of a round does."""
        sums = [self._distributions[indices].sum(axis=0) for indices in drawn.selections]
        sizes = [len(indices) for indices in drawn.selections]
        return best_selections(np.array(sums), np.array(sizes), self._announced)

    def _registered(
        self, thresholds: Mapping[int, float]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return overall_registry(self._label_counts, self._settings.codebook, thresholds)
