"""The search for thresholds on the server: all nodes register under every candidate at once.

One more exchange with all nodes, and one with an agent, find the best candidate; the server
learns its index and nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import generator, tries_of_round
from dubhe_flwr.he import homomorphic_sum
from dubhe_flwr.protocol.epoch import Epoch, invalid_vectors
from dubhe_flwr.protocol.messages import (
    ExpectReply,
    ExpectRequest,
    SearchReply,
    SearchRequest,
    Stage,
)
from dubhe_flwr.protocol.parameters import EXPECTATIONS
from dubhe_flwr.protocol.plan import Batch, Replies
from dubhe_flwr.protocol.renewal import draws_charged, num_tries_of_search
from dubhe_flwr.protocol.selector import accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState, noted, reported, send

__all__ = ["Search", "fewest_answers", "search_agents", "search_tries"]

Step = tuple[CoordinatorState, Batch | Epoch]


def search_agents(seed: int, first_round: int, num_clients: int) -> list[int]:
    """Return who is asked to search, as indices of clients, in the order in which to ask them."""
    order = generator(seed, "search", first_round).permutation(num_clients)
    return [int(index) for index in order]


def fewest_answers(settings: Settings, num_tries: int) -> int:
    """Return with how many answers a search goes on; the agent's own is in no sum it decrypts."""
    return 1 + max(settings.min_cohort, settings.num_participants if num_tries else 0)


def search_tries(
    decisions: NDArray[np.bool_],
    available: NDArray[np.bool_],
    agent: int,
    num_participants: int,
    seed: int,
) -> list[NDArray[np.int64]]:
    """Return the clients of each try of each candidate, without the agent.

    Parameters
    ----------
    decisions : ndarray of bool, shape (N, n * H)
        The nodes' draws, those of a candidate next to each other.
    available : ndarray of bool, shape (N,)
        Which nodes answered.
    agent : int
        Index of the agent.
    num_participants : int
        ``K``.
    seed : int
        The server's seed.
    """
    others = available.copy()
    others[agent] = False
    return tries_of_round(decisions, others, num_participants, seed, 0)


class Search:
    """Settles the thresholds of an epoch: the stages expect and search.

    If it fails, those hold that the settings fall back to, until the next epoch.

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin(self, state: CoordinatorState, epoch: Epoch) -> tuple[CoordinatorState, Batch]:
        """Ask all registered nodes what they expect, right after they registered."""
        num_tries = num_tries_of_search(self.settings, epoch)
        num_draws = draws_charged(epoch, num_tries * len(epoch.parameters.candidates))
        state = replace(state, epoch=replace(epoch, num_draws=num_draws))
        request = ExpectRequest(epoch.overall_registry, len(epoch.registered), num_tries)
        requests = dict.fromkeys(epoch.registered, request)
        return send(state, epoch.identity, Stage.EXPECT, requests)

    def step(self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies) -> Step:
        """Go on with the replies to the last batch, until the thresholds are settled."""
        follow: dict[str, Callable[[CoordinatorState, Epoch, Batch, Replies], Step]] = {
            Stage.EXPECT: self._on_expect,
            Stage.SEARCH: self._on_search,
        }
        return follow[batch.header.stage](state, epoch, batch, replies)

    def _on_expect(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:
        request = next(iter(batch.requests.values()))
        assert isinstance(request, ExpectRequest)  # noqa: S101 - as sent above
        num_bits = request.num_tries * len(epoch.parameters.candidates)
        field_bytes = 0 if num_bits else epoch.parameters.layout.field_bytes(EXPECTATIONS)

        def refuse(_node_id: int, reply: ExpectReply) -> str | None:
            sizes = len(reply.expectations), len(reply.decisions)
            return None if sizes == (field_bytes, -(-num_bits // 8)) else "wrong size of answer"

        accepted, report = accept_replies(batch, replies, refuse)
        if not num_bits:
            vectors = {node_id: reply.expectations for node_id, reply in accepted.items()}
            num_ciphertexts = epoch.parameters.layout.num_ciphertexts(EXPECTATIONS)
            invalid = invalid_vectors(epoch.public_key, vectors, num_ciphertexts)
            if invalid:
                report = report.without(len(invalid), "invalid ciphertext")
            accepted = {node: reply for node, reply in accepted.items() if node not in invalid}
        state = replace(reported(state, report), attempt=0)
        if len(accepted) < fewest_answers(self.settings, request.num_tries):
            return self._give_up(state, epoch, "Too few answers came to search for thresholds.")
        state = replace(state, expectations=accepted)
        return self._ask_agent(state, epoch, request.num_tries)

    def _ask_agent(self, state: CoordinatorState, epoch: Epoch, num_tries: int) -> Step:
        order = search_agents(state.seed, epoch.first_round, len(epoch.registered))
        answers = state.expectations
        # Who did not answer has not read the registry, and without it decrypts no tries.
        may = answers.keys() - epoch.checkers
        agents = [index for index in order if epoch.registered[index] in may]
        if state.attempt >= min(self.settings.agent_attempts, len(agents)):
            return self._give_up(state, epoch, "No agent searched for thresholds.")
        agent = agents[state.attempt]
        state = replace(state, attempt=state.attempt + 1)
        request = (
            self._tries_request(state, epoch, agent, answers, num_tries)
            if num_tries
            else self._expectations_request(epoch, agent, answers)
        )
        node_id = epoch.registered[agent]
        num_sums = {**epoch.num_sums}
        if num_tries:
            spent = num_tries * len(epoch.parameters.candidates)
            num_sums[node_id] = num_sums.get(node_id, 0) + spent
        state = replace(state, epoch=replace(epoch, num_sums=num_sums))
        return send(state, epoch.identity, Stage.SEARCH, {node_id: request})

    @staticmethod
    def _expectations_request(
        epoch: Epoch, agent: int, answers: Mapping[int, ExpectReply]
    ) -> SearchRequest:
        others = [
            reply.expectations
            for node_id, reply in answers.items()
            if node_id != epoch.registered[agent]
        ]
        num_ciphertexts = epoch.parameters.layout.num_ciphertexts(EXPECTATIONS)
        total = homomorphic_sum(epoch.public_key, others, num_ciphertexts)
        return SearchRequest(total, 0, len(others))

    def _tries_request(
        self,
        state: CoordinatorState,
        epoch: Epoch,
        agent: int,
        answers: Mapping[int, ExpectReply],
        num_tries: int,
    ) -> SearchRequest:
        num_bits = num_tries * len(epoch.parameters.candidates)
        decisions = np.zeros((len(epoch.registered), num_bits), dtype=bool)
        available = np.array([node_id in answers for node_id in epoch.registered])
        for index, node_id in enumerate(epoch.registered):
            if node_id in answers:
                bits = np.frombuffer(answers[node_id].decisions, dtype=np.uint8)
                decisions[index] = np.unpackbits(bits, count=num_bits)
        num_participants = self.settings.num_participants
        tries = search_tries(decisions, available, agent, num_participants, state.seed)
        sums = b"".join(epoch.sum_of_distributions(indices) for indices in tries)
        return SearchRequest(sums, num_tries, num_participants)

    def _on_search(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:
        num_candidates = len(epoch.parameters.candidates)

        def refuse(_node_id: int, reply: SearchReply) -> str | None:
            return None if 0 <= reply.candidate < num_candidates else "no such candidate"

        accepted, report = accept_replies(batch, replies, refuse)
        state = reported(state, report)
        if not accepted:
            ((_, request),) = batch.requests.items()
            assert isinstance(request, SearchRequest)  # noqa: S101 - as sent above
            state = noted(state, "An agent did not search for thresholds.")
            return self._ask_agent(state, epoch, request.num_tries)
        (reply,) = accepted.values()
        state = replace(
            state,
            thresholds=epoch.parameters.candidates[reply.candidate],
            searched=frozenset(epoch.registered) | epoch.declined,
        )
        return self._settle(state, epoch, reply.candidate)

    def _give_up(self, state: CoordinatorState, epoch: Epoch, why: str) -> Step:
        """Go on with thresholds that were not searched for; the next epoch searches again."""
        state = noted(state, f"{why} Thresholds from the settings hold instead.")
        return self._settle(state, epoch, self.settings.fallback_candidate)

    @staticmethod
    def _settle(state: CoordinatorState, epoch: Epoch, candidate: int) -> Step:
        epoch = replace(epoch, candidate=candidate)
        return replace(state, epoch=epoch, batch=None, expectations={}), epoch
