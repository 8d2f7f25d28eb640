"""The bodies of the messages: a request and a reply for each stage.

Whatever a client's labels are, a message of a stage has the same number of bytes: what is
encrypted is big-endian and of a size that the terms of the epoch fix.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final
from unicodedata import category

from dubhe_flwr.core import MAX_SAMPLES, expected_volunteers
from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.he import SIGNATURE_BYTES

__all__ = [
    "MAX_DRAWS",
    "PUBLIC_KEY_BYTES",
    "REPLIES",
    "REQUESTS",
    "DeliveredKey",
    "DetermineReply",
    "DetermineRequest",
    "HelloReply",
    "HelloRequest",
    "JoinReply",
    "JoinRequest",
    "JoinStatus",
    "KeygenReply",
    "KeygenRequest",
    "Message",
    "ParticipateReply",
    "ParticipateRequest",
    "RegisterReply",
    "RegisterRequest",
    "SettleReply",
    "SettleRequest",
    "Stage",
]

MAX_DRAWS: Final = 2**20
"""Most draws in a message; no more memory is taken before a budget is checked."""
PUBLIC_KEY_BYTES: Final = 32
_MAX_ALIAS_BYTES: Final = 256
_MAX_RULE_BYTES: Final = 2**16
_MAX_FINDING: Final = 64
_CONTROLS: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})


class Stage(StrEnum):
    """The stages, in the order of a run; the message type in Flower is ``evaluate.dubhe_STAGE``."""

    HELLO = "hello"
    JOIN = "join"
    KEYGEN = "keygen"
    REGISTER = "register"
    SETTLE = "settle"
    PARTICIPATE = "participate"
    DETERMINE = "determine"


class JoinStatus(IntEnum):
    """Whether a node takes part in an epoch, and if not, why. It tells no label."""

    JOINS = 0
    UNWILLING = 1
    NO_DATA = 2
    WRONG_NUMBER_OF_CLASSES = 3
    INVALID_LABEL_COUNTS = 4
    REFUSES_PARAMETERS = 5


def _require(condition: bool, sentence: str) -> None:
    """Refuse a message whose content makes no sense."""
    if not condition:
        raise MalformedMessageError(sentence)


def _require_signature(signature: bytes | None) -> None:
    fits = signature is None or len(signature) == SIGNATURE_BYTES
    _require(fits, f"A signature has {SIGNATURE_BYTES} bytes.")


def _require_signatures(signatures: bytes | None) -> None:
    fits = len(signatures or b"") % SIGNATURE_BYTES == 0
    _require(fits, f"Signatures have {SIGNATURE_BYTES} bytes each.")


def _require_alias(alias: str) -> None:
    """Refuse an alias that is not a name, or changes how the line of a log looks that names it."""
    fits = 0 < len(alias.encode(errors="replace")) <= _MAX_ALIAS_BYTES
    in_line = not any(category(char) in _CONTROLS for char in alias)
    _require(
        fits and in_line,
        "An alias has 1 to 256 bytes, and no line break, control or invisible character.",
    )


@dataclass(frozen=True, slots=True)
class HelloRequest:
    """Asks for a node's alias: enough for a selection that needs no registration."""


@dataclass(frozen=True, slots=True)
class HelloReply:
    """Who the node is in results, and whether it is willing to train at all."""

    alias: str
    willing: bool

    def __post_init__(self) -> None:
        _require_alias(self.alias)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What is announced of an epoch; every node checks it before it joins.

    Parameters
    ----------
    rule : str
        Name of the participation rule.
    rule_settings : str
        Its settings, as JSON.
    num_participants : int
        ``K``.
    key_bits : int
        Size of the Paillier modulus.
    max_clients : int
        Largest number of clients whose counters fit a slot.
    min_cohort : int
        Fewest clients that any decrypted sum covers.
    max_draws : int
        Most draws that a node makes in this epoch; they reveal its probability bit by bit.
    max_sums : int
        Most sums that one agent decrypts in this epoch.
    volunteer_tries : int (default: 1)
        How many times K clients shall draw a yes, on average; above 1 only for groups.
    group_size : int, optional (default: tries are determined)
        Fewest clients in a group, if groups are determined.
    draw_seed : int, optional (default: private draws)
        Seed for the draws of simulated clients.
    weighted : bool (default: False)
        Whether nodes count by their number of samples.
    encrypted : bool (default: True)
        False where all nodes are simulated and send their numbers in the clear.
    """

    rule: str
    rule_settings: str
    num_participants: int
    key_bits: int
    max_clients: int
    min_cohort: int
    max_draws: int
    max_sums: int
    volunteer_tries: int = 1
    group_size: int | None = None
    draw_seed: int | None = None
    weighted: bool = False
    encrypted: bool = True

    def __post_init__(self) -> None:
        too_long = max(len(self.rule), len(self.rule_settings)) > _MAX_RULE_BYTES
        _require(not too_long, "The settings of the rule are too long.")
        _require(self.num_participants >= self.min_cohort >= 1, "K is at least min_cohort.")
        _require(self.max_clients >= 1, "An epoch has room for a client.")
        _require(self.volunteer_tries >= 1, "Fewer volunteers than K are asked for.")
        fits = (
            self.group_size is None or self.min_cohort <= self.group_size <= self.num_participants
        )
        _require(fits, "A group has from min_cohort to K clients.")
        _require(self.draw_seed is None or self.draw_seed >= 0, "A seed is negative.")
        _require(self.max_draws >= 0 and self.max_sums >= 0, "A budget is negative.")

    @property
    def num_wanted(self) -> int:
        """How many selections train together: the groups of a round, or one try."""
        return 1 if self.group_size is None else self.num_participants // self.group_size

    def draws_charged(self, num_draws: int, num_registered: int) -> int:
        """Return what some draws cost of the budget of a node.

        One draw for H times as many volunteers tells as much of a probability as H draws.
        """
        return num_draws * -(-self.num_volunteers(num_registered) // self.num_participants)

    def num_volunteers(self, num_registered: int) -> int:
        """Return how many of the registered clients shall draw a yes in a draw, on average."""
        return expected_volunteers(self.num_participants, self.volunteer_tries, num_registered)


@dataclass(frozen=True, slots=True)
class JoinReply:
    """Whether the node joins, under which alias, and its key for sealed delivery.

    Parameters
    ----------
    status : int
        One of `JoinStatus`.
    alias : str
        The node's name in results.
    num_classes : int
        ``C``, the length of the node's label counts; 0 from a node that does not join.
    public_key : bytes
        For sealed delivery.
    num_examples : int, optional
        Samples that the node has, where nodes count by them; None where all count the same.
    signature : bytes, optional
        Of the key, by a node with pinned keys.
    """

    status: int
    alias: str
    num_classes: int
    public_key: bytes
    num_examples: int | None = None
    signature: bytes | None = None

    def __post_init__(self) -> None:
        _require(self.status in set(JoinStatus), f"{self.status} is not a join status.")
        _require_alias(self.alias)
        _require(self.num_classes >= (self.status == JoinStatus.JOINS), "There is no class.")
        _require(len(self.public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")
        fits = self.num_examples is None or 1 <= self.num_examples < MAX_SAMPLES
        _require(fits, "There are from 1 to 2^42 samples.")
        _require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class KeygenRequest:
    """Asks the agent for a new key pair, its secret half sealed to each of the public keys.

    The signatures are those with which the nodes joined, in the order of their keys.
    """

    public_keys: bytes
    signatures: bytes | None = None

    def __post_init__(self) -> None:
        _require(len(self.public_keys) % PUBLIC_KEY_BYTES == 0, "Public keys have 32 bytes each.")
        _require_signatures(self.signatures)


@dataclass(frozen=True, slots=True)
class KeygenReply:
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
    """The epoch's modulus, who made it, and its secret half, sealed for one node.

    Parameters
    ----------
    modulus : bytes
        ``n``.
    agent_public_key : bytes
        The agent's own key for sealed delivery.
    sealed_key : bytes
        What the agent sealed for this node.
    signature : bytes, optional
        For this node, by an agent with pinned keys.
    """

    modulus: bytes
    agent_public_key: bytes
    sealed_key: bytes
    signature: bytes | None = None

    def __post_init__(self) -> None:
        _require(len(self.agent_public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")
        _require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """Asks a node to register.

    Parameters
    ----------
    key : DeliveredKey, optional
        None in a simulation that does not encrypt.
    mean_examples : float, optional
        Mean number of samples of the nodes that joined, where nodes count by them.
    """

    key: DeliveredKey | None = None
    mean_examples: float | None = None

    def __post_init__(self) -> None:
        _require(self.mean_examples is None or self.mean_examples >= 1.0, "There is no sample.")


@dataclass(frozen=True, slots=True)
class RegisterReply:
    """What the rule adds up over all nodes, and the node's label distribution, both encrypted."""

    registration: bytes
    distribution: bytes


@dataclass(frozen=True, slots=True)
class SettleRequest:
    """The encrypted sum of what the nodes told last, for them to go on with the rule.

    Parameters
    ----------
    sums : bytes
        Of the registrations, or of the replies to the exchange before.
    num_clients : int
        Clients that it covers.
    exchange : int
        Number of the sum in the epoch, from 0.
    """

    sums: bytes
    num_clients: int
    exchange: int

    def __post_init__(self) -> None:
        _require(self.num_clients >= 1 and self.exchange >= 0, "A sum covers a client.")


@dataclass(frozen=True, slots=True)
class SettleReply:
    """What the node adds to the next sum; nothing once the rule is settled.

    Parameters
    ----------
    contribution : bytes, optional
        Encrypted; None says that the rule is settled.
    finding : tuple of float (default: empty)
        What a settled rule tells the operator; every node finds the same.
    """

    contribution: bytes | None = None
    finding: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _require(len(self.finding) <= _MAX_FINDING, "A finding has at most 64 numbers.")


@dataclass(frozen=True, slots=True)
class ParticipateRequest:
    """The rounds and tries for which to draw, and the last sum of the rule.

    Parameters
    ----------
    sums, num_clients, exchange
        As in `SettleRequest`; a node that has read that sum does not read it again.
    first_round, num_rounds : int
        The rounds for which to draw.
    num_tries : int
        Draws for each of them.
    """

    sums: bytes
    num_clients: int
    exchange: int
    first_round: int
    num_rounds: int
    num_tries: int

    def __post_init__(self) -> None:
        positive = min(self.num_clients, self.first_round, self.num_rounds, self.num_tries) >= 1
        sensible = positive and self.exchange >= 0
        _require(sensible, "Numbers of clients, rounds and tries are at least 1.")
        _require(self.num_rounds * self.num_tries <= MAX_DRAWS, "More draws than any node makes.")


@dataclass(frozen=True, slots=True)
class ParticipateReply:
    """A node's own draws, one bit for each round and try, and the rounds it will not train in.

    The bit after those of the rounds says that its labels have moved since it registered.
    """

    decisions: bytes
    unwilling: bytes


@dataclass(frozen=True, slots=True)
class DetermineRequest:
    """For some rounds, encrypted sums of ``p_l`` and ``||p_l||^2``: one for each try or group.

    Parameters
    ----------
    sums : bytes
        The sums of all rounds, end to end.
    num_sums : tuple of int
        Number of sums of each round.
    num_clients : tuple of int
        Number of clients that each sum covers.
    """

    sums: bytes
    num_sums: tuple[int, ...]
    num_clients: tuple[int, ...]

    def __post_init__(self) -> None:
        _require(len(self.num_sums) > 0 and min(self.num_sums) >= 1, "A round has a sum.")
        _require(sum(self.num_sums) == len(self.num_clients), "Each sum covers some clients.")
        _require(min(self.num_clients) >= 1, "A sum covers a client.")


@dataclass(frozen=True, slots=True)
class DetermineReply:
    """The index of the best try of each round, or the indices of its best groups; nothing else."""

    chosen: tuple[int, ...]


Message = (
    HelloRequest
    | HelloReply
    | JoinRequest
    | JoinReply
    | KeygenRequest
    | KeygenReply
    | RegisterRequest
    | RegisterReply
    | SettleRequest
    | SettleReply
    | ParticipateRequest
    | ParticipateReply
    | DetermineRequest
    | DetermineReply
)

_BODIES: Final[dict[Stage, tuple[type[Message], type[Message]]]] = {
    Stage.HELLO: (HelloRequest, HelloReply),
    Stage.JOIN: (JoinRequest, JoinReply),
    Stage.KEYGEN: (KeygenRequest, KeygenReply),
    Stage.REGISTER: (RegisterRequest, RegisterReply),
    Stage.SETTLE: (SettleRequest, SettleReply),
    Stage.PARTICIPATE: (ParticipateRequest, ParticipateReply),
    Stage.DETERMINE: (DetermineRequest, DetermineReply),
}
REQUESTS: Final[dict[str, type[Message]]] = {s: request for s, (request, _) in _BODIES.items()}
REPLIES: Final[dict[str, type[Message]]] = {s: reply for s, (_, reply) in _BODIES.items()}
