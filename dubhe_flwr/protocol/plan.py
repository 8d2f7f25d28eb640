"""Batches of requests, reports of what came back, and plans of who trains."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.protocol.wire.codec import Fields, wire_size
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import Message

ERROR_REPLY: Final = "error reply"
"""The reason for which a `NodeFailure` is dropped."""


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """Stands for the reply of a node that answered with an error."""

    reason: str


Replies = Mapping[int, Mapping[str, object] | NodeFailure]
"""Answers to a batch by node id, as received; nodes that did not answer are missing."""


@dataclass(frozen=True)
class Batch:
    """The requests of one stage, to be sent all at once."""

    header: Envelope  # the same for all requests
    requests: Mapping[int, Message]  # the body for each node id

    @cached_property
    def fields(self) -> Mapping[int, Fields]:
        """The flat fields for each node id; nodes that share a body share them."""
        bodies = {id(body): body for body in self.requests.values()}
        sealed = {key: self.header.seal(body) for key, body in bodies.items()}
        return {node_id: sealed[id(body)] for node_id, body in self.requests.items()}

    @property
    def num_bytes(self) -> int:
        """Bytes of all requests."""
        alike = Counter(map(id, self.requests.values()))
        distinct = {id(body): self.fields[node_id] for node_id, body in self.requests.items()}
        return sum(number * wire_size(distinct[key]) for key, number in alike.items())


@dataclass(frozen=True, slots=True)
class StageReport:
    """What came back to one batch.

    Parameters
    ----------
    stage : str
        The stage.
    sent, accepted : int
        Number of requests, and of replies that were used.
    lost : mapping of str to sequence of int
        The ids of the nodes whose replies were not used, by the reason.
    bytes_down, bytes_up : int
        Size of the requests and of the accepted replies.
    """

    stage: str
    sent: int
    accepted: int
    lost: Mapping[str, Sequence[int]]
    bytes_down: int
    bytes_up: int

    @property
    def dropped(self) -> dict[str, int]:
        """Number of replies that were not used, by the reason."""
        return {reason: len(nodes) for reason, nodes in self.lost.items()}

    @property
    def num_errors(self) -> int:
        """Nodes that answered with an error."""
        return self.dropped.get(ERROR_REPLY, 0)

    def without(self, nodes: Collection[int], reason: str) -> "StageReport":
        """Return the report after accepted replies of some nodes turned out to be unfit."""
        if not nodes:
            return self
        lost = {**self.lost, reason: (*self.lost.get(reason, ()), *sorted(nodes))}
        return replace(self, accepted=self.accepted - len(nodes), lost=lost)


@dataclass(frozen=True, slots=True)
class Plan:
    """Who trains in a round.

    Parameters
    ----------
    server_round : int
        The round.
    participants : tuple of int
        Node ids, in the order of their aliases.
    aliases : tuple of str
        The names of the participants that stay the same from run to run.
    epoch : bytes, optional
        Identity of the epoch; None for a selection without registration.
    num_registered : int
        Clients that are registered, or known where there is no registration.
    num_selections : int
        Tentative selections, or groups, among which the agent chose.
    chosen : tuple of int
        Indices of the best one, or of the best groups.
    rule : str, optional
        The participation rule that holds, with what was found of it.
    finding : tuple of float
        What the rule found; the thresholds of the paper's rule.
    privacy : PrivacyBound, optional
        What the noisy sums of the epoch tell of one client at worst; None where sums are exact.
    notes : tuple of str
        What did not go as planned, in sentences.
    stages : tuple of StageReport
        The exchanges of this round.
    fallback : bool (default: False)
        Whether the protocol gave this round up and its participants were chosen at random.
    """

    server_round: int
    participants: tuple[int, ...]
    aliases: tuple[str, ...]
    epoch: bytes | None = None
    num_registered: int = 0
    num_selections: int = 1
    chosen: tuple[int, ...] = (0,)
    rule: str | None = None
    finding: tuple[float, ...] = ()
    privacy: PrivacyBound | None = None
    notes: tuple[str, ...] = ()
    stages: tuple[StageReport, ...] = ()
    fallback: bool = False

    @property
    def bytes_down(self) -> int:
        """Bytes of all requests of the round, training apart."""
        return sum(stage.bytes_down for stage in self.stages)

    @property
    def bytes_up(self) -> int:
        """Bytes of all accepted replies of the round, training apart."""
        return sum(stage.bytes_up for stage in self.stages)
