"""Batches of requests, reports of what came back, and plans of who trains."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from typing import Final

from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.errors import DailyLimitError, ProtocolError, SettingsError
from dubhe_flwr.protocol.wire.codec import Fields, Message
from dubhe_flwr.protocol.wire.envelope import Envelope

ERROR_REPLY: Final = "error reply"
"""The reason reported for a `NodeFailure`."""


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """Takes the place of a node's reply if the node answered with an error."""

    reason: str
    at_daily_limit: bool = False  # whether the node refuses only for today

    @classmethod
    def of(cls, error: ProtocolError) -> "NodeFailure":
        """Return the failure that takes the place of the reply to a refused request."""
        return cls(str(error), isinstance(error, DailyLimitError))


Replies = Mapping[int, Mapping[str, object] | NodeFailure]
"""Replies to a batch by node id, as received; nodes that did not answer are missing."""


@dataclass(frozen=True)
class Batch:
    """The requests of one stage, to be sent together."""

    header: Envelope  # shared by all requests
    requests: Mapping[int, Message]  # bodies by node id

    @cached_property
    def fields(self) -> Mapping[int, Fields]:
        """The encoded requests by node id; nodes with the same body share one object."""
        bodies = {id(body): body for body in self.requests.values()}
        sealed = {key: self.header.seal(body) for key, body in bodies.items()}
        return {node_id: sealed[id(body)] for node_id, body in self.requests.items()}


@dataclass(frozen=True, slots=True)
class StageReport:
    """Statistics of one exchange: the requests of a batch, and their replies.

    Parameters
    ----------
    stage : str
        The stage.
    sent, accepted : int
        Number of requests, and number of replies that were used.
    lost : mapping of str to sequence of int
        Ids of the nodes whose replies were not used, by reason.
    bytes_down, bytes_up : int
        Size of the requests, and of the replies that could be read and were not refused at once.
        Replies that are dropped later, such as invalid ciphertexts, are included.
    aliases : mapping of int to str
        The names of the nodes in `lost`, where they are known.
    error : str
        The beginning of the error with which most nodes answered, if any did.
    """

    stage: str
    sent: int
    accepted: int
    lost: Mapping[str, Sequence[int]]
    bytes_down: int
    bytes_up: int
    aliases: Mapping[int, str] = field(default_factory=dict)
    error: str = ""

    @property
    def dropped(self) -> dict[str, int]:
        """Number of replies that were not used, by reason."""
        return {reason: len(nodes) for reason, nodes in self.lost.items()}

    @property
    def num_errors(self) -> int:
        """Number of nodes that answered with an error."""
        return self.dropped.get(ERROR_REPLY, 0)

    def without(self, nodes: Collection[int], reason: str) -> "StageReport":
        """Return the report with accepted replies of some nodes counted as lost."""
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
        Node ids, ordered by alias.
    aliases : tuple of str
        The participants' names, which stay the same from run to run.
    epoch : bytes, optional
        Identity of the registration period; None for a selection without registration.
    num_registered : int
        Number of registered clients, or of known clients if there is no registration.
    num_tries : int
        Number of tentative selections, of which one was taken.
    chosen : int, optional
        Index of the one that trains; None if there was no tentative selection.
    rule : str, optional
        Description of the participation rule, including what it found.
    finding : tuple of float
        What the rule found: the thresholds, for the paper's rule.
    privacy : PrivacyBound, optional
        Bound on what the noisy sums of the registration reveal about one client. It does not count
        sums of registrations that failed. None if sums are exact, or no labels enter them.
    notes : tuple of str
        What did not go as planned, in sentences.
    stages : tuple of StageReport
        The exchanges of this round.
    fallback : bool (default: False)
        Whether the round could not go on and its participants were chosen at random.

    Raises
    ------
    SettingsError
        If a participant is not a whole number.
    """

    server_round: int
    participants: tuple[int, ...]
    aliases: tuple[str, ...]
    epoch: bytes | None = None
    num_registered: int = 0
    num_tries: int = 1
    chosen: int | None = None
    rule: str | None = None
    finding: tuple[float, ...] = ()
    privacy: PrivacyBound | None = None
    notes: tuple[str, ...] = ()
    stages: tuple[StageReport, ...] = ()
    fallback: bool = False

    def __post_init__(self) -> None:
        # A selector may draw with NumPy, and Flower sends no message to one of NumPy's integers.
        try:
            node_ids = tuple(map(index, self.participants))
        except TypeError:
            raise SettingsError(
                f"participants={self.participants!r:.60} must be node ids, which are whole numbers."
            ) from None
        object.__setattr__(self, "participants", node_ids)

    @property
    def bytes_down(self) -> int:
        """Size of the round's requests in bytes, without training."""
        return sum(stage.bytes_down for stage in self.stages)

    @property
    def bytes_up(self) -> int:
        """Size of the round's replies in bytes, as in `StageReport`, without training."""
        return sum(stage.bytes_up for stage in self.stages)
