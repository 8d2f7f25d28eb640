"""The stage `determine`: agents choose the best try of each drawn round."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dubhe_flwr.protocol.coordinator.agent_tasks import (
    AgentTask,
    TriedRound,
    agent_task_of,
    has_choice,
)
from dubhe_flwr.protocol.coordinator.context import AwaitingInEpoch, Context
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.stages.participate import DrawsTaken, RoundReady
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.messages import DetermineReply, DetermineRequest, Stage


@dataclass(frozen=True)
class Determine(AwaitingInEpoch):
    """Agents were asked to choose a try for each of some rounds."""

    tasks: Mapping[int, Mapping[int, AgentTask]]  # by agent and round

    @classmethod
    def begin(cls, context: Context, drawn: DrawsTaken) -> tuple[Context, "Determine | RoundReady"]:
        """Ask an agent about each round in which there is a choice."""
        epoch, has_no_agent = drawn.epoch, False
        tasks: dict[int, dict[int, AgentTask]] = {}
        for server_round, drawn_round in sorted(drawn.rounds.items()):
            tried = agent_task_of(epoch, drawn_round, context.run.seed, server_round)
            if not isinstance(tried, AgentTask):
                has_no_agent |= has_choice(epoch, drawn_round)
                epoch = _with_round(epoch, server_round, tried)
                continue
            spent = epoch.num_sums.get(tried.agent, 0) + len(tried.tries)
            epoch = replace(epoch, num_sums={**epoch.num_sums, tried.agent: spent})
            tasks.setdefault(tried.agent, {})[server_round] = tried
        if has_no_agent:
            context = context.noted("No agent is left to choose a try; the first one is used.")
        if not tasks:
            return context, RoundReady(epoch)
        requests = {agent: _request(epoch, asked) for agent, asked in tasks.items()}
        num_rounds = sum(map(len, tasks.values()))
        context, batch = context.batch(epoch.identity, Stage.DETERMINE, requests, num_rounds)
        return context, cls(batch, epoch, tasks)

    def take(self, context: Context, replies: Replies) -> tuple[Context, RoundReady]:
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
        epoch = self.epoch
        for agent, asked in self.tasks.items():
            answers = accepted[agent].chosen if agent in accepted else (0,) * len(asked)
            for (server_round, task), chosen in zip(asked.items(), answers, strict=True):
                epoch = _with_round(epoch, server_round, task, chosen)
        return context, RoundReady(epoch)


def _with_round(epoch: Epoch, server_round: int, tried: TriedRound, chosen: int = 0) -> Epoch:
    return replace(epoch, rounds={**epoch.rounds, server_round: tried.ready(chosen)})


def _request(epoch: Epoch, asked: Mapping[int, AgentTask]) -> DetermineRequest:
    """Sum the encrypted ``p_l`` over each try in an agent's rounds."""
    tries = [indices for task in asked.values() for indices in task.tries]
    return DetermineRequest(
        sums=b"".join(epoch.sum_of_distributions(indices) for indices in tries),
        num_tries=tuple(len(task.tries) for task in asked.values()),
    )
