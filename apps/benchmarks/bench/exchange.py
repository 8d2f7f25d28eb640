"""Rounds of the protocol, with the cost of each exchange on either side."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import process_time

from bench.recycled import RecycledNodes
from dubhe_flwr.protocol import Batch, Coordinator

__all__ = ["RoundCost", "StageCost", "measured_rounds"]


@dataclass(frozen=True)
class StageCost:
    """What one exchange cost.

    Parameters
    ----------
    stage : str
        The stage.
    messages : int
        Requests; there are as many replies.
    bytes_down, bytes_up : int
        Size of requests and replies.
    server_seconds : float
        CPU time in which the server reads the replies and makes the next requests.
    client_seconds : float
        CPU time of all clients together.
    """

    stage: str
    messages: int
    bytes_down: int
    bytes_up: int
    server_seconds: float
    client_seconds: float


@dataclass(frozen=True)
class RoundCost:
    """What the selection of one round cost.

    Parameters
    ----------
    begin_seconds : float
        CPU time of the server before the first request, or to the plan where there is none.
    stages : sequence of StageCost
        The exchanges.
    """

    begin_seconds: float
    stages: Sequence[StageCost]

    @property
    def server_seconds(self) -> float:
        """CPU time of the server."""
        return self.begin_seconds + sum(stage.server_seconds for stage in self.stages)

    @property
    def client_seconds(self) -> float:
        """CPU time of all clients together."""
        return sum(stage.client_seconds for stage in self.stages)


def measured_rounds(
    coordinator: Coordinator,
    nodes: RecycledNodes,
    num_rounds: int,
    present: Collection[int] | None = None,
) -> list[RoundCost]:
    """Select for some rounds, the first of which registers.

    Parameters
    ----------
    coordinator : Coordinator
        The server.
    nodes : RecycledNodes
        The clients.
    num_rounds : int
        How many.
    present : collection of int, optional
        The nodes as the server is told of them; a frozen set spares it to make one.

    Examples
    --------
    >>> from dubhe_flwr.protocol import Settings
    >>> settings = Settings(num_participants=4, reference_set=(1, 4), thresholds={1: 0.6},
    ...                     determination="tries", tries=2, key_bits=512, max_clients=40, seed=1)
    >>> nodes = RecycledNodes(40, 5, num_classes=4, key_bits=512, seed=0)
    >>> first, second = measured_rounds(Coordinator(settings), nodes, 2)
    >>> [stage.stage for stage in second.stages]
    ['participate', 'determine']
    >>> second.stages[0].messages
    40
    """
    state = coordinator.initial_state()
    here = list(nodes.ids) if present is None else present
    rounds = []
    for server_round in range(1, num_rounds + 1):
        began = process_time()
        state, outcome = coordinator.begin_round(state, server_round, here)
        begin_seconds = process_time() - began
        seconds: list[tuple[float, float]] = []
        while isinstance(outcome, Batch):
            before = sum(nodes.seconds.values())
            replies = nodes.answer(outcome)
            of_clients = sum(nodes.seconds.values()) - before
            began = process_time()
            state, outcome = coordinator.step(state, replies)
            seconds.append((process_time() - began, of_clients))
        stages = [
            StageCost(
                report.stage, report.sent, report.bytes_down, report.bytes_up, of_server, of_clients
            )
            for report, (of_server, of_clients) in zip(outcome.stages, seconds, strict=True)
        ]
        rounds.append(RoundCost(begin_seconds, stages))
    return rounds
