"""Selection with simulated nodes in memory: the protocol as it is, without Flower."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TypeVar

from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.protocol import (
    Batch,
    ClientSession,
    Fields,
    NodeFailure,
    NodePolicy,
    Plan,
    Selector,
)

__all__ = ["rounds_in_memory"]

StateT = TypeVar("StateT")


def rounds_in_memory(
    selector: Selector[StateT],
    policies: Sequence[NodePolicy],
    on_answer: Callable[[str, int, int], None] = lambda _stage, _answered, _asked: None,
) -> Iterator[Plan]:
    """Yield the plan of each round, from round 1 on and without end.

    Parameters
    ----------
    selector : Selector
        The server side.
    policies : sequence of NodePolicy, length N
        The nodes, all of them always there; their ids are 0, 1, ..., N-1.
    on_answer : callable (str, int, int) -> None, optional
        Is told the stage, how many nodes have answered and how many are asked, before each answer.

    Yields
    ------
    Plan
        Who trains, and what was exchanged to find out.

    Raises
    ------
    DubheError
        If the selector cannot go on.

    Examples
    --------
    >>> from dubhe_flwr.protocol import Coordinator, Settings
    >>> settings = Settings(num_participants=3, reference_set=(1, 2), thresholds={1: 0.7},
    ...                     key_bits=512, seed=7)
    >>> nodes = [
    ...     NodePolicy(label_counts=counts, alias=str(k), seeded_draws=True, min_key_bits=512)
    ...     for k, counts in enumerate([lambda: [9, 1]] * 5 + [lambda: [1, 9]] * 2)
    ... ]
    >>> len(next(rounds_in_memory(Coordinator(settings), nodes)).participants)
    3
    """
    sessions = [ClientSession(policy) for policy in policies]
    state = selector.initial_state()
    for server_round in count(1):
        state, outcome = selector.begin_round(state, server_round, range(len(sessions)))
        while isinstance(outcome, Batch):
            replies: dict[int, Fields | NodeFailure] = {}
            for node, request in outcome.fields():
                on_answer(outcome.header.stage, len(replies), len(outcome.requests))
                replies[node] = _answer(sessions[node], request)
            state, outcome = selector.step(state, replies)
        yield outcome


def _answer(session: ClientSession, request: Mapping[str, object]) -> Fields | NodeFailure:
    try:
        return session.handle(request)
    except ProtocolError as error:
        return NodeFailure(str(error))
