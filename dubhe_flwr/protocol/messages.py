"""The bodies of the messages: one request and one reply for each stage.

All byte strings are big-endian and of a length that the parameters of the epoch fix, whatever a
client's labels are.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dubhe_flwr.he import NO_SIGNATURE, SIGNATURE_BYTES
from dubhe_flwr.protocol.check import CheckReply, CheckRequest
from dubhe_flwr.protocol.join import (
    PUBLIC_KEY_BYTES,
    HelloReply,
    HelloRequest,
    JoinReply,
    JoinRequest,
    JoinStatus,
    require,
    require_signature,
)

__all__ = [
    "MAX_DRAWS",
    "PUBLIC_KEY_BYTES",
    "REPLIES",
    "REQUESTS",
    "CalibrateReply",
    "CalibrateRequest",
    "CheckReply",
    "CheckRequest",
    "DetermineReply",
    "DetermineRequest",
    "ExpectReply",
    "ExpectRequest",
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
    "SearchReply",
    "SearchRequest",
    "Stage",
]

MAX_DRAWS: Final = 2**20


class Stage(StrEnum):
    """The stages, in the order of a run; the message type in Flower is ``evaluate.dubhe_STAGE``."""

    HELLO = "hello"
    JOIN = "join"
    KEYGEN = "keygen"
    REGISTER = "register"
    CHECK = "check"
    EXPECT = "expect"
    SEARCH = "search"
    MOMENTS = "moments"
    CALIBRATE = "calibrate"
    PARTICIPATE = "participate"
    DETERMINE = "determine"


@dataclass(frozen=True, slots=True)
class KeygenRequest:
    """Asks the agent for a fresh key pair, its secret half sealed to each of the public keys.

    The signatures are those with which the nodes joined, in the order of their keys.
    """

    public_keys: bytes
    signatures: bytes = b""

    def __post_init__(self) -> None:
        require(len(self.public_keys) % PUBLIC_KEY_BYTES == 0, "Public keys have 32 bytes each.")
        fits = len(self.signatures) % SIGNATURE_BYTES == 0
        require(fits, f"Signatures have {SIGNATURE_BYTES} bytes each.")


@dataclass(frozen=True, slots=True)
class KeygenReply:
    """The Paillier modulus, and a sealed secret key for each recipient in the order asked.

    The signature is zeros from an agent without pinned keys.
    """

    modulus: bytes
    sealed_keys: bytes
    signature: bytes = NO_SIGNATURE

    def __post_init__(self) -> None:
        require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """The epoch's modulus, who made it for whom, and this node's own sealed key.

    Parameters
    ----------
    modulus : bytes
        ``n``.
    agent_public_key : bytes
        The agent's own key for sealed delivery.
    sealed_key : bytes
        What the agent sealed for this node.
    recipients_digest : bytes
        SHA-256 of the keys of all recipients, put end to end.
    signature : bytes
        The agent's, or zeros if it has no pinned keys.
    """

    modulus: bytes
    agent_public_key: bytes
    sealed_key: bytes
    recipients_digest: bytes = bytes(32)
    signature: bytes = NO_SIGNATURE

    def __post_init__(self) -> None:
        require(len(self.agent_public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")
        require(len(self.recipients_digest) == 32, "A digest has 32 bytes.")
        require_signature(self.signature)


@dataclass(frozen=True, slots=True)
class RegisterReply:
    """The encrypted one-hot registry and the encrypted label distribution of a node."""

    registry: bytes
    distribution: bytes


@dataclass(frozen=True, slots=True)
class ExpectRequest:
    """The encrypted overall registries of all candidates, to find the best thresholds.

    Without tries a node tells what it adds to the expected data of each candidate; else it draws.
    """

    overall_registry: bytes
    num_registered: int
    num_tries: int = 0

    def __post_init__(self) -> None:
        require(self.num_registered >= 1, "A registry covers at least one client.")
        require(0 <= self.num_tries <= MAX_DRAWS, "More draws than any node makes.")


@dataclass(frozen=True, slots=True)
class ExpectReply:
    """The encrypted ``P_k p_l`` and ``P_k`` of each candidate, or a bit for each of its tries."""

    expectations: bytes
    decisions: bytes


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The encrypted sum of what many clients told, or a sum of ``p_l`` for each try.

    Parameters
    ----------
    sums : bytes
        One sum over all candidates, or those of all tries of all candidates, end to end.
    num_tries : int
        Tries of each candidate; 0 for expectations.
    num_clients : int
        Clients that each sum covers.
    """

    sums: bytes
    num_tries: int
    num_clients: int

    def __post_init__(self) -> None:
        require(self.num_clients >= 1, "A sum covers a client.")
        require(0 <= self.num_tries <= MAX_DRAWS, "More sums than any agent decrypts.")


@dataclass(frozen=True, slots=True)
class SearchReply:
    """The index of the best candidate; nothing else."""

    candidate: int


@dataclass(frozen=True, slots=True)
class MomentsRequest:
    """The encrypted overall registry, for the node to find out who shares its category."""

    overall_registry: bytes
    num_registered: int
    candidate: int = 0

    def __post_init__(self) -> None:
        require(self.num_registered >= 1, "A registry covers at least one client.")


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
    candidate: int = 0

    def __post_init__(self) -> None:
        fits = self.num_registered >= self.num_clients >= 1
        require(fits, "The moments cover from one client to all registered ones.")


@dataclass(frozen=True, slots=True)
class CalibrateReply:
    """The encrypted probability of each category."""

    probabilities: bytes


@dataclass(frozen=True, slots=True)
class ParticipateRequest:
    """The encrypted overall registry, and the rounds and tries for which to draw.

    The encrypted probabilities are empty where nodes compute their own by eq. 6; the candidate is
    the best one of a search for thresholds, and 0 without a search.
    """

    overall_registry: bytes
    num_registered: int
    first_round: int
    num_rounds: int
    num_tries: int
    probabilities: bytes = b""
    candidate: int = 0

    def __post_init__(self) -> None:
        positive = min(self.num_registered, self.first_round, self.num_rounds, self.num_tries) >= 1
        require(positive, "Numbers of clients, rounds and tries are at least 1.")
        require(self.num_rounds * self.num_tries <= MAX_DRAWS, "More draws than any node makes.")


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
        require(len(self.num_sums) > 0 and min(self.num_sums) >= 1, "A round has a sum.")
        require(sum(self.num_sums) == len(self.num_clients), "Each sum covers some clients.")
        require(min(self.num_clients) >= 1, "A sum covers a client.")


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
    | CheckRequest
    | CheckReply
    | ExpectRequest
    | ExpectReply
    | SearchRequest
    | SearchReply
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
    Stage.CHECK: CheckRequest,
    Stage.EXPECT: ExpectRequest,
    Stage.SEARCH: SearchRequest,
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
    Stage.CHECK: CheckReply,
    Stage.EXPECT: ExpectReply,
    Stage.SEARCH: SearchReply,
    Stage.MOMENTS: MomentsReply,
    Stage.CALIBRATE: CalibrateReply,
    Stage.PARTICIPATE: ParticipateReply,
    Stage.DETERMINE: DetermineReply,
}
