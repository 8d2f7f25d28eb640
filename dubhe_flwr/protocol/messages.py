"""The bodies of the messages: one request and one reply for each stage.

All byte strings are big-endian and of a length that the parameters of the epoch fix, whatever a
client's labels are.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from dubhe_flwr.core import expected_volunteers
from dubhe_flwr.errors import MalformedMessageError

__all__ = [
    "MAX_DRAWS",
    "PUBLIC_KEY_BYTES",
    "REPLIES",
    "REQUESTS",
    "CalibrateReply",
    "CalibrateRequest",
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
    "MomentsReply",
    "MomentsRequest",
    "ParticipateReply",
    "ParticipateRequest",
    "RegisterReply",
    "RegisterRequest",
    "Stage",
]

MAX_DRAWS: Final = 2**20
MAX_COVERAGE: Final = 1e6
MAX_LOCAL_SKEW: Final = 1000.0
PUBLIC_KEY_BYTES: Final = 32
_MAX_ALIAS_BYTES: Final = 256


class Stage(StrEnum):
    """The stages, in the order of a run; the message type in Flower is ``evaluate.dubhe_STAGE``."""

    HELLO = "hello"
    JOIN = "join"
    KEYGEN = "keygen"
    REGISTER = "register"
    MOMENTS = "moments"
    CALIBRATE = "calibrate"
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
    volunteer_tries : int
        How many times K clients shall draw a yes, on average; above 1 only for groups.
    group_size : int
        Fewest clients in a group, if groups are determined; 0 if tries are.
    calibrated : bool
        Whether probabilities are calibrated to the clients' data instead of those of eq. 6.
    coverage, floor, local_skew : float
        How the agent weighs spread, least probability and local skew.
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
    volunteer_tries: int = 1
    group_size: int = 0
    calibrated: bool = False
    coverage: float = 0.0
    floor: float = 0.0
    local_skew: float = 0.0

    def __post_init__(self) -> None:
        _require(len(self.reference_set) == len(self.thresholds) + 1, "One threshold for each i.")
        _require(self.num_participants >= self.min_cohort >= 1, "K is at least min_cohort.")
        _require(self.max_clients >= 1 and self.seed >= -1, "A parameter is below its least value.")
        _require(self.volunteer_tries >= 1, "Fewer volunteers than K are asked for.")
        grouped = self.min_cohort <= self.group_size <= self.num_participants
        _require(self.group_size == 0 or grouped, "A group has from min_cohort to K clients.")
        _require(0.0 <= self.coverage <= MAX_COVERAGE, "The coverage is out of range.")
        _require(0.0 <= self.floor <= 1.0, "The floor is no share.")
        _require(0.0 <= self.local_skew <= MAX_LOCAL_SKEW, "The local skew is out of range.")
        _require(self.max_draws >= 0 and self.max_sums >= 0, "A budget is negative.")

    def num_volunteers(self, num_registered: int) -> int:
        """Return how many of the registered clients shall draw a yes in a draw, on average."""
        return expected_volunteers(self.num_participants, self.volunteer_tries, num_registered)


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
class MomentsRequest:
    """The encrypted overall registry, for the node to find out who shares its category."""

    overall_registry: bytes
    num_registered: int

    def __post_init__(self) -> None:
        _require(self.num_registered >= 1, "A registry covers at least one client.")


@dataclass(frozen=True, slots=True)
class MomentsReply:
    """The encrypted moments of a node's data, in the slots of its category."""

    moments: bytes


@dataclass(frozen=True, slots=True)
class CalibrateRequest:
    """The encrypted overall registry, and the encrypted sum of the moments of many clients."""

    overall_registry: bytes
    num_registered: int
    moments: bytes
    num_clients: int

    def __post_init__(self) -> None:
        fits = self.num_registered >= self.num_clients >= 1
        _require(fits, "The moments cover from one client to all registered ones.")


@dataclass(frozen=True, slots=True)
class CalibrateReply:
    """The encrypted probability of each category."""

    probabilities: bytes


@dataclass(frozen=True, slots=True)
class ParticipateRequest:
    """The encrypted overall registry, and the rounds and tries for which to draw.

    The encrypted probabilities are empty where nodes compute their own by eq. 6.
    """

    overall_registry: bytes
    num_registered: int
    first_round: int
    num_rounds: int
    num_tries: int
    probabilities: bytes = b""

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
    | MomentsRequest
    | MomentsReply
    | CalibrateRequest
    | CalibrateReply
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
    Stage.MOMENTS: MomentsRequest,
    Stage.CALIBRATE: CalibrateRequest,
    Stage.PARTICIPATE: ParticipateRequest,
    Stage.DETERMINE: DetermineRequest,
}
REPLIES: Final[dict[str, type[Message]]] = {
    Stage.HELLO: HelloReply,
    Stage.JOIN: JoinReply,
    Stage.KEYGEN: KeygenReply,
    Stage.REGISTER: RegisterReply,
    Stage.MOMENTS: MomentsReply,
    Stage.CALIBRATE: CalibrateReply,
    Stage.PARTICIPATE: ParticipateReply,
    Stage.DETERMINE: DetermineReply,
}


def _is_alias(alias: str) -> bool:
    return 0 < len(alias.encode(errors="replace")) <= _MAX_ALIAS_BYTES
