"""The bodies of the messages: a request and a reply for each stage.

The size of a message never depends on a client's labels: the terms of the epoch fix the size of
everything that is hidden.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from unicodedata import category

from dubhe_flwr.core.distribution import MAX_SAMPLES
from dubhe_flwr.he.signing import SIGNATURE_BYTES
from dubhe_flwr.protocol.wire.announced import JoinRequest, JoinStatus
from dubhe_flwr.protocol.wire.codec import Message, require
from dubhe_flwr.protocol.wire.roster import (
    DIGEST_BYTES,
    PUBLIC_KEY_BYTES,
    Roster,
    require_signatures,
)

MAX_DRAWS: Final = 2**16
"""Largest number of draws in a message; it bounds memory before a node checks its daily limit."""
COMMITTEE_SIZE: Final = 3
"""Number of members of a committee."""
_MAX_ALIAS_BYTES: Final = 256
_MAX_FINDING: Final = 64
_CONTROLS: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})


class Stage(StrEnum):
    """The stages, in the order of a run. Flower's message type is ``evaluate.dubhe_STAGE``."""

    HELLO = "hello"
    JOIN = "join"
    APPOINT = "appoint"
    REGISTER = "register"
    OPEN = "open"
    SETTLE = "settle"
    PARTICIPATE = "participate"
    DETERMINE = "determine"


def _require_alias(alias: str) -> None:
    """Refuse an alias that is empty, too long, or could garble a log line."""
    fits = 0 < len(alias.encode(errors="replace")) <= _MAX_ALIAS_BYTES
    require(
        fits and not any(category(char) in _CONTROLS for char in alias),
        "An alias must have 1 to 256 bytes, and no line break, control or invisible character.",
    )


@dataclass(frozen=True, slots=True)
class HelloRequest(Message):
    """Asks for a node's alias, for selection methods without registration."""


@dataclass(frozen=True, slots=True)
class HelloReply(Message):
    """The node's name in results, and whether it is willing to train at all."""

    alias: str
    willing: bool

    def __post_init__(self) -> None:
        _require_alias(self.alias)


@dataclass(frozen=True, slots=True)
class JoinReply(Message):
    """Whether the node joins, under which alias, and its key for sealed delivery."""

    status: int  # a `JoinStatus`
    alias: str  # the node's name in results
    num_classes: int | None  # ``C``, the length of its label counts; None if it does not join
    public_key: bytes  # for sealed delivery
    num_examples: int | None = None  # its number of samples, if nodes are weighted
    signature: bytes | None = None  # a node with pinned keys signs its `join_statement`
    label_counts: tuple[int, ...] | None = None  # only in a simulation in the clear

    def __post_init__(self) -> None:
        require(self.status in set(JoinStatus), f"{self.status} is not a join status.")
        _require_alias(self.alias)
        joins = self.status == JoinStatus.JOINS
        fits = self.num_classes is not None and self.num_classes >= 2
        require(
            fits if joins else self.num_classes is None,
            "A node must report its number of classes if and only if it joins.",
        )
        require(len(self.public_key) == PUBLIC_KEY_BYTES, "A public key must have 32 bytes.")
        fits = self.num_examples is None or 1 <= self.num_examples < MAX_SAMPLES
        require(fits, "There must be from 1 to 2^42 samples.")
        fits = self.signature is None or len(self.signature) == SIGNATURE_BYTES
        require(fits, f"A signature must have {SIGNATURE_BYTES} bytes.")


@dataclass(frozen=True, slots=True)
class AppointRequest(Message):
    """Asks a node to be an opener, the agent or a member of the committee; shows who joined."""

    roster: Roster
    openers: tuple[int, ...]  # positions of the openers' keys


@dataclass(frozen=True, slots=True)
class AppointReply(Message):
    """An opener's consent; the first one also sends the key that it made, sealed to each node."""

    public: bytes = b""  # the modulus, or the digest of the group key
    sealed_keys: bytes = b""
    signatures: bytes | None = None  # with pinned keys, a signature for each node
    state: bytes | None = None  # how the last epoch ended, sealed by the first opener

    def __post_init__(self) -> None:
        require_signatures(self.signatures)


@dataclass(frozen=True, slots=True)
class RegisterRequest(Message):
    """Asks a node to register: tells it who opens sums, with the key that is sealed for it."""

    num_joined: int
    opener_keys: bytes = b""  # public halves of their keys for delivery; empty in the clear
    roster: bytes = b""  # its digest
    public: bytes = b""  # from the first opener, as in `AppointReply`
    sealed_key: bytes = b""
    signatures: bytes | None = None  # each opener's, in their order
    mean_examples: float | None = None  # mean number of samples, if nodes are weighted
    state: bytes | None = None  # how the last epoch ended, sealed

    def __post_init__(self) -> None:
        require(self.num_joined >= 1, "At least one node must have joined.")
        require(len(self.opener_keys) % PUBLIC_KEY_BYTES == 0, "A public key must have 32 bytes.")
        require(len(self.roster) in {0, DIGEST_BYTES}, "A digest must have 32 bytes.")
        require_signatures(self.signatures)
        fits = self.mean_examples is None or self.mean_examples >= 1.0
        require(fits, "The mean number of samples must be at least 1.")


@dataclass(frozen=True, slots=True)
class RegisterReply(Message):
    """The node's registration and, if there is an agent, its label distribution, both hidden."""

    registration: bytes
    distribution: bytes | None = None


@dataclass(frozen=True, slots=True)
class OpenRequest(Message):
    """Asks a member of the committee to open a sum over some nodes."""

    number: int
    covered: bytes  # a bit for each node that joined
    total: bytes  # sum of these nodes' vectors
    previous: bytes = b""  # the last sum that was opened, as sent to nodes

    def __post_init__(self) -> None:
        require(self.number >= 0, "A sum must not have a negative number.")


@dataclass(frozen=True, slots=True)
class OpenReply(Message):
    """The member's part of a sum."""

    sealed: bytes  # its pads for these nodes minus its noise, sealed to the group
    proofs: bytes  # one for each node that joined, which only this node can check


@dataclass(frozen=True, slots=True)
class RuleSum(Message):
    """The hidden sum of the nodes' last contributions."""

    sums: bytes
    num_clients: int
    number: int  # counts the sums of an epoch from 0, the sum of the registrations

    def __post_init__(self) -> None:
        require(self.num_clients >= 1, "A sum must cover a client.")
        require(self.number >= 0, "A sum must not have a negative number.")


@dataclass(frozen=True, slots=True)
class ParticipateRequest(Message):
    """Asks nodes for `num_tries` draws for each of some rounds."""

    first_round: int
    num_rounds: int
    num_tries: int

    def __post_init__(self) -> None:
        positive = min(self.first_round, self.num_rounds, self.num_tries) >= 1
        require(positive, "There must be at least one round and one try.")
        require(self.num_draws <= MAX_DRAWS, "There must be at most 2^16 draws.")

    @property
    def num_draws(self) -> int:
        """Number of draws that each node makes."""
        return self.num_rounds * self.num_tries


@dataclass(frozen=True, slots=True)
class SettleRequest(Message):
    """Sends nodes the last sum; they contribute to another or, once the rule is settled, draw."""

    rule_sum: RuleSum
    draws: ParticipateRequest
    proofs: bytes | None = None  # from the committee; only this node can check them


@dataclass(frozen=True, slots=True)
class ParticipateReply(Message):
    """A node's draws and the rounds it will not train in, as bits; `draws` packs them."""

    decisions: bytes
    unwilling: bytes


@dataclass(frozen=True, slots=True)
class SettleReply(Message):
    """The node's hidden contribution to the next sum or, once the rule is settled, its draws."""

    contribution: bytes | None = None
    finding: tuple[float, ...] = ()  # what the rule found; the same at every node
    draws: ParticipateReply | None = None  # None also if its owner allows no more draws today

    def __post_init__(self) -> None:
        require(len(self.finding) <= _MAX_FINDING, "A finding must have at most 64 numbers.")
        is_early = self.contribution is not None and self.draws is not None
        require(not is_early, "A node must not draw before the rule is settled.")


@dataclass(frozen=True, slots=True)
class DetermineRequest(Message):
    """Asks an agent for the best try of some rounds."""

    sums: bytes  # hidden sums of ``p_l`` and ``||p_l||^2`` over the K clients of each try
    num_tries: tuple[int, ...]  # one number per round

    def __post_init__(self) -> None:
        fits = len(self.num_tries) > 0 and min(self.num_tries) >= 1
        require(fits, "Each round must have a try.")


@dataclass(frozen=True, slots=True)
class DetermineReply(Message):
    """The index of each round's best try, and nothing else."""

    chosen: tuple[int, ...]


_BODIES: Final[dict[Stage, tuple[type[Message], type[Message]]]] = {
    Stage.HELLO: (HelloRequest, HelloReply),
    Stage.JOIN: (JoinRequest, JoinReply),
    Stage.APPOINT: (AppointRequest, AppointReply),
    Stage.REGISTER: (RegisterRequest, RegisterReply),
    Stage.OPEN: (OpenRequest, OpenReply),
    Stage.SETTLE: (SettleRequest, SettleReply),
    Stage.PARTICIPATE: (ParticipateRequest, ParticipateReply),
    Stage.DETERMINE: (DetermineRequest, DetermineReply),
}
REQUESTS: Final[dict[str, type[Message]]] = {s: request for s, (request, _) in _BODIES.items()}
REPLIES: Final[dict[str, type[Message]]] = {s: reply for s, (_, reply) in _BODIES.items()}
