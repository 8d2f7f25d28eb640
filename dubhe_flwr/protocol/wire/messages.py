"""The bodies of the messages: a request and a reply for each stage.

Whatever the labels of a client in an epoch are, a message of a stage has the same number of bytes:
what is encrypted is big-endian and of a size that the terms of the epoch fix.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from unicodedata import category

from dubhe_flwr.core.distribution import MAX_SAMPLES
from dubhe_flwr.he.signing import SIGNATURE_BYTES
from dubhe_flwr.protocol.wire.announced import JoinRequest, JoinStatus, sums_per_agent
from dubhe_flwr.protocol.wire.codec import Message, require

__all__ = ["JoinRequest", "JoinStatus", "Message", "sums_per_agent"]  # handed on

MAX_DRAWS: Final = 2**20
"""Most draws in a message; no more memory is taken before a budget is checked."""
DAY_IS_SPENT: Final = "max_epochs_per_day or max_draws_per_day of this node's owner is reached."
"""The one sentence of a refusal that the server understands: the epoch itself is not refused."""
PUBLIC_KEY_BYTES: Final = 32
COMMITTEE: Final = 3
"""Members of a committee."""
_DIGEST_BYTES: Final = 32
_MAX_ALIAS_BYTES: Final = 256
_MAX_FINDING: Final = 64
_CONTROLS: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})


class Stage(StrEnum):
    """The stages, in the order of a run; the message type in Flower is ``evaluate.dubhe_STAGE``."""

    HELLO = "hello"
    JOIN = "join"
    KEYGEN = "keygen"
    APPOINT = "appoint"
    REGISTER = "register"
    OPEN = "open"
    SETTLE = "settle"
    PARTICIPATE = "participate"
    DETERMINE = "determine"


def _require_signature(signature: bytes | None) -> None:
    fits = signature is None or len(signature) == SIGNATURE_BYTES
    require(fits, f"A signature has {SIGNATURE_BYTES} bytes.")


def _require_signatures(signatures: bytes | None) -> None:
    fits = len(signatures or b"") % SIGNATURE_BYTES == 0
    require(fits, f"Signatures have {SIGNATURE_BYTES} bytes each.")


def _require_alias(alias: str) -> None:
    """Refuse an alias that is not a name, or changes how the line of a log looks that names it."""
    fits = 0 < len(alias.encode(errors="replace")) <= _MAX_ALIAS_BYTES
    require(
        fits and not any(category(char) in _CONTROLS for char in alias),
        "An alias has 1 to 256 bytes, and no line break, control or invisible character.",
    )


@dataclass(frozen=True, slots=True)
class HelloRequest(Message):
    """Asks for a node's alias: enough for a selection that needs no registration."""


@dataclass(frozen=True, slots=True)
class HelloReply(Message):
    """Who the node is in results, and whether it is willing to train at all."""

    alias: str
    willing: bool

    def __post_init__(self) -> None:
        _require_alias(self.alias)


@dataclass(frozen=True, slots=True)
class JoinReply(Message):
    """Whether the node joins, under which alias, and its key for sealed delivery."""

    status: int  # a `JoinStatus`
    alias: str  # the node's name in results
    num_classes: int | None  # ``C``, the length of its label counts; there if it joins
    public_key: bytes  # for sealed delivery
    num_examples: int | None = None  # its samples, where nodes count by them
    signature: bytes | None = None  # of the key, by a node with pinned keys
    label_counts: tuple[int, ...] | None = None  # of a simulated node, where nothing is encrypted
    rank: int | None = None  # place of its key in its file of trusted keys, if it has one

    def __post_init__(self) -> None:
        require(self.status in set(JoinStatus), f"{self.status} is not a join status.")
        _require_alias(self.alias)
        joins = self.status == JoinStatus.JOINS
        fits = self.num_classes is not None and self.num_classes >= 2
        require(fits if joins else self.num_classes is None, "Nodes that join tell their classes.")
        require(len(self.public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")
        fits = self.num_examples is None or 1 <= self.num_examples < MAX_SAMPLES
        require(fits, "There are from 1 to 2^42 samples.")
        _require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class KeygenRequest(Message):
    """Asks the agent for a new key pair, its secret half sealed to each of the public keys.

    The signatures are those with which the nodes joined, in the order of their keys.
    """

    public_keys: bytes
    signatures: bytes | None = None

    def __post_init__(self) -> None:
        require(len(self.public_keys) % PUBLIC_KEY_BYTES == 0, "Public keys have 32 bytes each.")
        _require_signatures(self.signatures)


@dataclass(frozen=True, slots=True)
class KeygenReply(Message):
    """The Paillier modulus, and a sealed secret key for each recipient in the order asked.

    An agent with pinned keys signs a statement for each recipient, in that order.
    """

    modulus: bytes
    sealed_keys: bytes
    signatures: bytes | None = None

    def __post_init__(self) -> None:
        _require_signatures(self.signatures)


@dataclass(frozen=True, slots=True)
class DeliveredKey:
    """The epoch's modulus, and its secret half, sealed for one node by an agent with that key.

    An agent with pinned keys signs for this node.
    """

    modulus: bytes
    agent_public_key: bytes
    sealed_key: bytes
    signature: bytes | None = None

    def __post_init__(self) -> None:
        require(len(self.agent_public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")
        _require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class AppointRequest(Message):
    """Asks a node to be a member of the committee, and shows it who joined.

    The signatures are those with which the nodes joined, in the order of their keys.
    """

    public_keys: bytes
    members: tuple[int, ...]  # their places among the keys
    signatures: bytes | None = None

    def __post_init__(self) -> None:
        require(len(self.public_keys) % PUBLIC_KEY_BYTES == 0, "Public keys have 32 bytes each.")
        _require_signatures(self.signatures)


@dataclass(frozen=True, slots=True)
class AppointReply(Message):
    """A member's consent; from the first one also the group key, sealed to each node.

    A member with pinned keys signs the roster, the committee and the digest of the group key.
    """

    group_digest: bytes  # empty but for the first member
    sealed_keys: bytes
    signature: bytes | None = None

    def __post_init__(self) -> None:
        require(len(self.group_digest) in {0, _DIGEST_BYTES}, "A digest has 32 bytes.")
        _require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class Committee:
    """Tells a node who opens the sums of its epoch, with the group key sealed for it."""

    member_keys: bytes  # public halves of the members' keys for delivery
    roster: bytes  # digest of the keys of all who joined
    group_digest: bytes
    sealed_key: bytes
    signatures: bytes | None = None  # of the members, in their order

    def __post_init__(self) -> None:
        fits = len(self.member_keys) == COMMITTEE * PUBLIC_KEY_BYTES
        require(fits, "A committee has three members.")
        digests = {len(self.roster), len(self.group_digest)}
        require(digests == {_DIGEST_BYTES}, "A digest has 32 bytes.")
        _require_signatures(self.signatures)


@dataclass(frozen=True, slots=True)
class RegisterRequest(Message):
    """Asks a node to register: under a key or for a committee, or in the clear.

    Where nodes count by their samples, it tells the mean number of the nodes that joined.
    """

    num_joined: int
    key: DeliveredKey | None = None
    committee: Committee | None = None
    mean_examples: float | None = None

    def __post_init__(self) -> None:
        require(self.num_joined >= 1, "Nobody joined.")
        require(self.mean_examples is None or self.mean_examples >= 1.0, "There is no sample.")


@dataclass(frozen=True, slots=True)
class RegisterReply(Message):
    """What the rule adds up over all nodes, and for an agent the node's label distribution.

    Both are encrypted.
    """

    registration: bytes
    distribution: bytes | None = None


@dataclass(frozen=True, slots=True)
class OpenRequest(Message):
    """Asks a member of the committee to open a sum over some nodes."""

    exchange: int
    covered: bytes  # a bit for each node that joined
    total: bytes  # of what these nodes sent

    def __post_init__(self) -> None:
        require(self.exchange >= 0, "Exchanges are numbered from 0.")


@dataclass(frozen=True, slots=True)
class OpenReply(Message):
    """The member's pads of these nodes with its noise, sealed to all nodes, and its signature."""

    sealed: bytes
    signature: bytes | None = None

    def __post_init__(self) -> None:
        _require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class SettleRequest(Message):
    """The encrypted sum of what so many nodes told last, for them to go on with the rule.

    The sums of an epoch are numbered from 0, that of the registrations.
    """

    sums: bytes
    num_clients: int
    exchange: int

    def __post_init__(self) -> None:
        _require_sum(self)


def _require_sum(request: SettleRequest) -> None:
    require(request.num_clients >= 1 and request.exchange >= 0, "A sum covers a client.")


@dataclass(frozen=True, slots=True)
class SettleReply(Message):
    """What the node adds to the next sum, encrypted; nothing once the rule is settled.

    A settled rule may have a finding for the operator, the same one at every node.
    """

    contribution: bytes | None = None
    finding: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require(len(self.finding) <= _MAX_FINDING, "A finding has at most 64 numbers.")


@dataclass(frozen=True, slots=True)
class ParticipateRequest(SettleRequest):
    """The last sum of the rule, which a node reads once, and the rounds for which to draw.

    In each of them a node draws `num_tries` times.
    """

    first_round: int
    num_rounds: int
    num_tries: int

    def __post_init__(self) -> None:
        positive = min(self.first_round, self.num_rounds, self.num_tries) >= 1
        require(positive, "Numbers of rounds and tries are at least 1.")
        require(self.num_rounds * self.num_tries <= MAX_DRAWS, "More draws than any node makes.")
        _require_sum(self)


@dataclass(frozen=True, slots=True)
class ParticipateReply(Message):
    """A node's own draws and the rounds it will not train in, as the bits of `draws`."""

    decisions: bytes
    unwilling: bytes


@dataclass(frozen=True, slots=True)
class DetermineRequest(Message):
    """For some rounds, encrypted sums of ``p_l`` and ``||p_l||^2``: one for each try or group.

    They are end to end; there are `num_sums` of each round, and each covers `num_clients`.
    """

    sums: bytes
    num_sums: tuple[int, ...]
    num_clients: tuple[int, ...]

    def __post_init__(self) -> None:
        require(len(self.num_sums) > 0 and min(self.num_sums) >= 1, "A round has a sum.")
        require(sum(self.num_sums) == len(self.num_clients), "Each sum covers some clients.")
        require(min(self.num_clients) >= 1, "A sum covers a client.")


@dataclass(frozen=True, slots=True)
class DetermineReply(Message):
    """The index of the best try of each round, or the indices of its best groups; nothing else."""

    chosen: tuple[int, ...]


_BODIES: Final[dict[Stage, tuple[type[Message], type[Message]]]] = {
    Stage.HELLO: (HelloRequest, HelloReply),
    Stage.JOIN: (JoinRequest, JoinReply),
    Stage.KEYGEN: (KeygenRequest, KeygenReply),
    Stage.APPOINT: (AppointRequest, AppointReply),
    Stage.REGISTER: (RegisterRequest, RegisterReply),
    Stage.OPEN: (OpenRequest, OpenReply),
    Stage.SETTLE: (SettleRequest, SettleReply),
    Stage.PARTICIPATE: (ParticipateRequest, ParticipateReply),
    Stage.DETERMINE: (DetermineRequest, DetermineReply),
}
REQUESTS: Final[dict[str, type[Message]]] = {s: request for s, (request, _) in _BODIES.items()}
REPLIES: Final[dict[str, type[Message]]] = {s: reply for s, (_, reply) in _BODIES.items()}
