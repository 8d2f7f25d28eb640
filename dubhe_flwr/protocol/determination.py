"""Determination on the server: agents name the best try or groups of each drawn round."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import DetermineReply, Stage
from dubhe_flwr.protocol.plan import Batch, Replies
from dubhe_flwr.protocol.rounds import (
    DrawnRound,
    choose_agents,
    determine_requests,
    has_choice,
    is_selection,
)
from dubhe_flwr.protocol.selector import accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState, noted, reported, send

__all__ = ["Determination"]

Step = tuple[CoordinatorState, Batch | None]


class Determination:
    """Has an agent choose for each drawn round; a round that no agent answers for goes by chance.

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin(self, state: CoordinatorState, epoch: Epoch, drawn: Mapping[int, DrawnRound]) -> Step:
        """Ask an agent about each of the rounds; nobody where there is nothing to determine."""
        drawn = choose_agents(epoch, drawn, state.seed, state.failed_agents)
        state = replace(state, rounds={**state.rounds, **drawn}, attempt=state.attempt + 1)
        if any(r.agent is None and has_choice(epoch, r) for r in drawn.values()):
            state = noted(state, "No agent is left to determine; the choice is random.")
        requests, asked_about = determine_requests(epoch, drawn)
        if not requests:
            return state, None
        num_sums = dict(epoch.num_sums)
        for agent, request in requests.items():
            num_sums[agent] = num_sums.get(agent, 0) + sum(request.num_sums)
        epoch = replace(epoch, num_sums=num_sums)
        state = replace(state, epoch=epoch, asked_about=asked_about)
        return send(state, epoch.identity, Stage.DETERMINE, requests)

    def step(self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies) -> Step:
        """Take the agents' answers; ask others about the rounds for which none came."""

        def refuse(node_id: int, reply: DetermineReply) -> str | None:
            drawn = [state.rounds[r] for r in state.asked_about[node_id]]
            fits = len(reply.chosen) == sum(len(d.fallback) for d in drawn) and all(
                is_selection(d, chosen)
                for d, chosen in zip(drawn, _by_round(reply.chosen, drawn), strict=True)
            )
            return None if fits else "no such try or groups"

        accepted, report = accept_replies(batch, replies, refuse)
        state = reported(state, report)
        rounds = dict(state.rounds)
        undetermined: dict[int, DrawnRound] = {}
        failed = set(state.failed_agents)
        for agent, asked in state.asked_about.items():
            if agent in accepted:
                drawn = [rounds[r] for r in asked]
                chosen = _by_round(accepted[agent].chosen, drawn)
                rounds |= {
                    r: replace(d, chosen=c) for r, d, c in zip(asked, drawn, chosen, strict=True)
                }
            else:
                failed.add(epoch.registered.index(agent))
                undetermined |= {r: rounds[r] for r in asked}
        state = replace(state, rounds=rounds, failed_agents=frozenset(failed))
        if undetermined and state.attempt < self.settings.agent_attempts:
            state = noted(state, "An agent did not determine.")
            return self.begin(state, epoch, undetermined)
        if undetermined:
            random = {r: replace(d, chosen=d.fallback) for r, d in undetermined.items()}
            state = replace(state, rounds={**rounds, **random})
            state = noted(state, "No agent determined; the choice is random.")
        return state, None


def _by_round(chosen: Sequence[int], drawn: Sequence[DrawnRound]) -> list[tuple[int, ...]]:
    """Split an agent's answer into those for its rounds."""
    ends = list(accumulate((len(d.fallback) for d in drawn), initial=0))
    return [tuple(chosen[begin:end]) for begin, end in pairwise(ends)]
