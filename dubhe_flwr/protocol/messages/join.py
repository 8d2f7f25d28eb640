"""The first messages: who is there, and the parameters of an epoch that a node joins or not."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from unicodedata import category

from dubhe_flwr.core import expected_volunteers
from dubhe_flwr.he import NO_SIGNATURE
from dubhe_flwr.protocol.messages.require import require, require_signature

__all__ = [
    "MAX_CANDIDATES",
    "MAX_COVERAGE",
    "MAX_LOCAL_SKEW",
    "PUBLIC_KEY_BYTES",
    "HelloReply",
    "HelloRequest",
    "JoinReply",
    "JoinRequest",
    "JoinStatus",
]

MAX_CANDIDATES: Final = 64
MAX_COVERAGE: Final = 1e6
MAX_LOCAL_SKEW: Final = 1000.0
PUBLIC_KEY_BYTES: Final = 32
_MAX_ALIAS_BYTES: Final = 256
_CONTROLS: Final = frozenset({"Cc", "Zl", "Zp"})


class JoinStatus(IntEnum):
    """Whether a node takes part in an epoch, and if not, why. It tells no label."""

    JOINS = 0
    UNWILLING = 1
    NO_DATA = 2
    WRONG_NUMBER_OF_CLASSES = 3
    INVALID_LABEL_COUNTS = 4
    REFUSES_PARAMETERS = 5


@dataclass(frozen=True, slots=True)
class HelloRequest:
    """Asks for nothing but a node's alias; enough for selection that needs no registration."""


@dataclass(frozen=True, slots=True)
class HelloReply:
    """Who the node is in results, and whether it is willing to train at all."""

    alias: str
    willing: bool

    def __post_init__(self) -> None:
        _require_alias(self.alias)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The parameters of an epoch, which every node checks before it joins.

    Parameters
    ----------
    reference_set : tuple of int
        ``G``, ascending.
    thresholds : tuple of float
        ``sigma_i`` in the order of the reference set, without ``sigma_C``; where there are several
        candidates, those of one after those of another.
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
    block_size : int
        Fewest clients in a block whose registrations an agent checks; 0 if none does.
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
    block_size: int = 0

    def __post_init__(self) -> None:
        require(self._fits_candidates(), "Each candidate has one threshold for each i.")
        require(self.num_participants >= self.min_cohort >= 1, "K is at least min_cohort.")
        require(self.max_clients >= 1 and self.seed >= -1, "A parameter is below its least value.")
        require(self.volunteer_tries >= 1, "Fewer volunteers than K are asked for.")
        grouped = self.min_cohort <= self.group_size <= self.num_participants
        require(self.group_size == 0 or grouped, "A group has from min_cohort to K clients.")
        require(0.0 <= self.coverage <= MAX_COVERAGE, "The coverage is out of range.")
        require(0.0 <= self.floor <= 1.0, "The floor is no share.")
        require(0.0 <= self.local_skew <= MAX_LOCAL_SKEW, "The local skew is out of range.")
        blocks_hide = self.block_size == 0 or self.block_size > self.min_cohort
        require(blocks_hide, "A block has more clients than min_cohort.")
        require(self.max_draws >= 0 and self.max_sums >= 0, "A budget is negative.")

    def draws_charged(self, num_draws: int, num_registered: int) -> int:
        """Return what some draws cost of the budget of a node.

        One draw for H times as many volunteers tells as much of a probability as H draws.
        """
        return num_draws * -(-self.num_volunteers(num_registered) // self.num_participants)

    @property
    def num_candidates(self) -> int:
        """How many candidates there are for the thresholds; 1 where nothing is searched."""
        return len(self.thresholds) // max(1, len(self.reference_set) - 1) or 1

    def _fits_candidates(self) -> bool:
        num_thresholds = self.num_candidates * (len(self.reference_set) - 1)
        return len(self.thresholds) == num_thresholds and self.num_candidates <= MAX_CANDIDATES

    def num_volunteers(self, num_registered: int) -> int:
        """Return how many of the registered clients shall draw a yes in a draw, on average."""
        return expected_volunteers(self.num_participants, self.volunteer_tries, num_registered)


@dataclass(frozen=True, slots=True)
class JoinReply:
    """Whether the node joins, under which alias, and its key for sealed delivery.

    The signature is zeros from a node without pinned keys.
    """

    status: int
    alias: str
    public_key: bytes
    signature: bytes = NO_SIGNATURE

    def __post_init__(self) -> None:
        require(self.status in set(JoinStatus), f"{self.status} is no join status.")
        _require_alias(self.alias)
        require(len(self.public_key) == PUBLIC_KEY_BYTES, "A public key has 32 bytes.")
        require_signature(self.signature)


def _require_alias(alias: str) -> None:
    """Refuse what is no name, or would break the line of a log in which it is named."""
    fits = 0 < len(alias.encode(errors="replace")) <= _MAX_ALIAS_BYTES
    in_line = alias.isprintable() or not any(category(char) in _CONTROLS for char in alias)
    require(
        fits and in_line,
        "An alias has 1 to 256 bytes, and no line break or other control character.",
    )
