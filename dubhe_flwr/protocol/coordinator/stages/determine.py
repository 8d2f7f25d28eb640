"""The stage `determine`: agents choose the best try of each drawn round."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dubhe_flwr.core.determination import far_apart, fill_or_trim
from dubhe_flwr.core.randomness import generator, shuffled
from dubhe_flwr.protocol.coordinator.context import AwaitingInEpoch, Context
from dubhe_flwr.protocol.coordinator.epoch import DeterminedRound, DrawnRound, Epoch
from dubhe_flwr.protocol.coordinator.stages.participate import DrawsTaken
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.announced import sums_per_agent
from dubhe_flwr.protocol.wire.messages import DetermineReply, DetermineRequest, Stage
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION


@dataclass(frozen=True)
class Determine(AwaitingInEpoch):
    """Agents were asked to choose a try for each of some rounds."""

    tasks: Mapping[int, Mapping[int, DeterminedRound]]  # by agent and round

    @classmethod
    def begin(cls, context: Context, drawn: DrawsTaken) -> tuple[Context, "Determine | Epoch"]:
        """Ask an agent about each round in which there is a choice."""
        epoch, seed, has_no_agent = drawn.epoch, context.run.seed, False
        tasks: dict[int, dict[int, DeterminedRound]] = {}
        for server_round, drawn_round in sorted(drawn.rounds.items()):
            agent = None
            if _has_choice(epoch, drawn_round):
                agent = agent_of(epoch, drawn_round, seed, server_round)
                has_no_agent |= agent is None
            ready = with_tries(epoch, drawn_round, agent, seed, server_round)
            if agent is None:
                epoch = replace(epoch, rounds={**epoch.rounds, server_round: ready})
                continue
            node_id = epoch.registered[agent]
            spent = epoch.num_sums.get(node_id, 0) + len(ready.tries)
            epoch = replace(epoch, num_sums={**epoch.num_sums, node_id: spent})
            tasks.setdefault(node_id, {})[server_round] = ready
        if has_no_agent:
            context = context.noted("No agent is left to choose a try; the first one is used.")
        if not tasks:
            return context, epoch
        requests = {agent: _request(epoch, asked) for agent, asked in tasks.items()}
        num_rounds = sum(map(len, tasks.values()))
        context, batch = context.batch(epoch.identity, Stage.DETERMINE, requests, num_rounds)
        return context, cls(batch, epoch, tasks)

    def take(self, context: Context, replies: Replies) -> tuple[Context, Epoch]:
        """Take the agents' answers; a round without an answer uses its first try."""

        def refuse(node_id: int, reply: DetermineReply) -> str | None:
            asked = self.tasks[node_id].values()
            fits = len(reply.chosen) == len(asked) and all(
                0 <= chosen < len(task.tries)
                for task, chosen in zip(asked, reply.chosen, strict=True)
            )
            return None if fits else "no such try"

        accepted, report = accept_replies(self.batch, replies, refuse)
        context = context.reported(report)
        if len(accepted) < len(self.tasks):
            context = context.noted("An agent did not choose a try; the first one is used.")
        rounds = {**self.epoch.rounds}
        for agent, asked in self.tasks.items():
            answers = accepted[agent].chosen if agent in accepted else (0,) * len(asked)
            for (server_round, task), chosen in zip(asked.items(), answers, strict=True):
                rounds[server_round] = replace(task, chosen=chosen)
        return context, replace(self.epoch, rounds=rounds)


def _has_choice(epoch: Epoch, drawn: DrawnRound) -> bool:
    """Return whether an agent has a choice: more than K clients are available besides itself."""
    announced, num_others = epoch.announced, int(drawn.available.sum()) - 1
    return (
        announced.allows_tries(epoch.num_registered)
        and drawn.decisions.shape[1] > 1
        and num_others > announced.num_participants
    )


def agent_of(epoch: Epoch, drawn: DrawnRound, seed: int, server_round: int) -> int | None:
    """Return the index of the node that chooses in a round; None if no node can.

    Nodes take turns as agent in a random order, one per round. A node that is unavailable or has no
    sums left to decrypt is skipped. A node that was already an agent in the epoch comes last,
    because the sums that it has seen may differ from this round's by only a few clients.
    """
    registered, num_tries = epoch.registered, drawn.decisions.shape[1]
    most = sums_per_agent(epoch.num_registered)
    order = shuffled(range(len(registered)), seed, "agents", epoch.first_round)
    turn = (server_round - epoch.first_round) % len(registered)
    in_turn = [*order[turn:], *order[:turn]]
    agents = (
        index
        for index in sorted(in_turn, key=lambda index: registered[index] in epoch.num_sums)
        if drawn.available[index] and epoch.num_sums.get(registered[index], 0) + num_tries <= most
    )
    return next(agents, None)


def with_tries(
    epoch: Epoch, drawn: DrawnRound, agent: int | None, seed: int, server_round: int
) -> DeterminedRound:
    """Return the round with the K clients of each try, of which the first is chosen.

    The agent's own data is in no try. An earlier try replaces one that is too close to it.
    """
    announced, eligible = epoch.announced, drawn.available.copy()
    if agent is not None:
        eligible[agent] = False
    tries = [
        fill_or_trim(
            volunteers,
            eligible,
            announced.num_participants,
            generator(seed, "fill-or-trim", server_round, index),
        )
        for index, volunteers in enumerate(drawn.decisions.T)
    ]
    return DeterminedRound(
        tries=tuple(tuple(each.tolist()) for each in far_apart(tries, announced.min_cohort)),
        available=tuple(np.flatnonzero(drawn.available).tolist()),
        unwilling=drawn.unwilling,
    )


def _request(epoch: Epoch, asked: Mapping[int, DeterminedRound]) -> DetermineRequest:
    """Add up the hidden ``p_l`` and ``||p_l||^2`` over each try in an agent's rounds."""
    add_up = partial(epoch.terms.vault.add_up, epoch.registration.public, [DISTRIBUTION])
    vectors = list(epoch.registration.distributions.values())
    tries = [indices for task in asked.values() for indices in task.tries]
    return DetermineRequest(
        sums=b"".join(add_up([vectors[index] for index in indices]) for indices in tries),
        num_tries=tuple(len(task.tries) for task in asked.values()),
    )
