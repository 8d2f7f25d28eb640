"""The bodies of the messages: one request and one reply for each stage.

All byte strings are big-endian and of a length that the parameters of the epoch fix, whatever a
client's labels are.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from dubhe_flwr.errors import MalformedMessageError

__all__ = [
    "MAX_DRAWS",
    "PUBLIC_KEY_BYTES",
    "REPLIES",
    "REQUESTS",
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
    "Stage",
]

MAX_DRAWS: Final = 2**20
PUBLIC_KEY_BYTES: Final = 32
_MAX_ALIAS_BYTES: Final = 256


class Stage(StrEnum):
    """The stages, in the order of a run; the message type in Flower is ``evaluate.dubhe_STAGE``."""

    HELLO = "hello"
    JOIN = "join"
    KEYGEN = "keygen"
    REGISTER = "register"
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
    if not condition:
        raise MalformedMessageError(sentence)


@dataclass(frozen=True, slots=True)
class HelloRequest:
    """Asks for nothing but a node's alias; enough for selection that needs no registration."""


@dataclass(frozen=True, slots=True)
class HelloReply:
    """Who the node is in results, and whether it is willing to train at all."""

    alias: str
    willing: bool

    def __post_init__(self) -> None:
        _require(_is_alias(self.alias), "An alias has 1 to 256 bytes.")


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The parameters of an epoch, which every node checks before it joins.

    Parameters
    ----------
    reference_set : tuple of int
        ``G``, ascending.
    thresholds : tuple of float
        ``sigma_i`` in the order of the reference set, without ``sigma_C``.
    num_participants : int
        ``K``.
    key_bits : int
        Size of the Paillier modulus.
    max_clients : int
        Largest number of clients whose counters fit a slot.
    min_cohort : int
        Fewest clients that any sum covers.
    max_draws : int
        Most draws that a node makes in this epoch; they reveal its probability bit by bit.
    max_sums : int
        Most sums that one agent decrypts in this epoch.
    seed : int
        Seed for the draws of simulated clients; -1 asks for private draws.
    """

    reference_set: tuple[int, ...]
    thresholds: tuple[float, ...]
    num_participants: int
    key_bits: int
    max_clients: int
    min_cohort: int
    max_draws: int
    max_sums: int
    seed: int

    def __post_init__(self) -> None:
        _require(len(self.reference_set) == len(self.thresholds) + 1, "One threshold for each i.")
        _require(self.num_participants >= self.min_cohort >= 1, "K is at least min_cohort.")
        _require(self.max_clients >= 1 and self.seed >= -1, "A parameter is below its least value.")
        _require(self.max_draws >= 0 and self.max_sums >= 0, "A budget is negative.")


@dataclass(frozen=True, slots=True)
class JoinReply:
    """Whether the node joins, under which alias, and its key for sealed delivery."""

    status: int
    alias: str
    public_key: bytes

    def __post_init__(self) -> None:
        _require(self.status in set(JoinStatus), f"{self.status} is no join status.")
        _require(_is_alias(self.alias), "An alias has 1 to 256 bytes.")
        _require(len(self.public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")


@dataclass(frozen=True, slots=True)
class KeygenRequest:
    """Asks the agent for a fresh key pair, its secret half sealed to each of the public keys."""

    public_keys: bytes

    def __post_init__(self) -> None:
        _require(len(self.public_keys) % PUBLIC_KEY_BYTES == 0, "Public keys have 32 bytes each.")


@dataclass(frozen=True, slots=True)
class KeygenReply:
    """The Paillier modulus, and a sealed secret key for each recipient in the order asked."""

    modulus: bytes
    sealed_keys: bytes


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """The epoch's modulus, who made it, and this node's own sealed key."""

    modulus: bytes
    agent_public_key: bytes
    sealed_key: bytes

    def __post_init__(self) -> None:
        _require(len(self.agent_public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")


@dataclass(frozen=True, slots=True)
class RegisterReply:
    """The encrypted one-hot registry and the encrypted label distribution of a node."""

    registry: bytes
    distribution: bytes


@dataclass(frozen=True, slots=True)
class ParticipateRequest:
    """The encrypted overall registry, and the rounds and tries for which to draw."""

    overall_registry: bytes
    num_registered: int
    first_round: int
    num_rounds: int
    num_tries: int

    def __post_init__(self) -> None:
        positive = min(self.num_registered, self.first_round, self.num_rounds, self.num_tries) >= 1
        _require(positive, "Numbers of clients, rounds and tries are at least 1.")
        _require(self.num_rounds * self.num_tries <= MAX_DRAWS, "More draws than any node makes.")


@dataclass(frozen=True, slots=True)
class ParticipateReply:
    """A node's own draws, one bit for each round and try, and the rounds it will not train in."""

    decisions: bytes
    unwilling: bytes


@dataclass(frozen=True, slots=True)
class DetermineRequest:
    """For some rounds, the encrypted sums of ``p_l`` of each try, round by round."""

    sums: bytes
    num_rounds: int
    num_tries: int
    num_clients: int

    def __post_init__(self) -> None:
        positive = min(self.num_rounds, self.num_tries, self.num_clients) >= 1
        _require(positive, "Numbers of rounds, tries and clients are at least 1.")


@dataclass(frozen=True, slots=True)
class DetermineReply:
    """The index of the best try of each round, and nothing else."""

    best: tuple[int, ...]


Message = (
    HelloRequest
    | HelloReply
    | JoinRequest
    | JoinReply
    | KeygenRequest
    | KeygenReply
    | RegisterRequest
    | RegisterReply
    | ParticipateRequest
    | ParticipateReply
    | DetermineRequest
    | DetermineReply
)

REQUESTS: Final[dict[str, type[Message]]] = {
    Stage.HELLO: HelloRequest,
    Stage.JOIN: JoinRequest,
    Stage.KEYGEN: KeygenRequest,
    Stage.REGISTER: RegisterRequest,
    Stage.PARTICIPATE: ParticipateRequest,
    Stage.DETERMINE: DetermineRequest,
}
REPLIES: Final[dict[str, type[Message]]] = {
    Stage.HELLO: HelloReply,
    Stage.JOIN: JoinReply,
    Stage.KEYGEN: KeygenReply,
    Stage.REGISTER: RegisterReply,
    Stage.PARTICIPATE: ParticipateReply,
    Stage.DETERMINE: DetermineReply,
}


def _is_alias(alias: str) -> bool:
    return 0 < len(alias.encode(errors="replace")) <= _MAX_ALIAS_BYTES
