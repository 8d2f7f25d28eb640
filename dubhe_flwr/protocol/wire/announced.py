"""What is announced of an epoch, and whether a node takes part in it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from dubhe_flwr.core.determination import expected_volunteers
from dubhe_flwr.protocol.determination import Determination, Groups, Tries
from dubhe_flwr.protocol.wire.codec import Message, require

VAULTS: Final = ("plain", "paillier", "committee")
"""How the vaults are called on the wire."""

_MAX_RULE_BYTES: Final = 2**16


class JoinStatus(IntEnum):
    """Whether a node takes part in an epoch, and if not, why. It tells no label."""

    JOINS = 0
    UNWILLING = 1
    NO_DATA = 2
    WRONG_NUMBER_OF_CLASSES = 3
    INVALID_LABEL_COUNTS = 4
    REFUSES_PARAMETERS = 5
    RULE_NOT_KNOWN = 6
    NOT_SIMULATED = 7

    @property
    def reason(self) -> str:
        """Why a node is left out, in words."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class JoinRequest(Message):
    """What is announced of an epoch; every node checks it before it joins."""

    rule: str  # its name
    rule_settings: str  # as JSON
    num_participants: int  # ``K``
    key_bits: int  # size of the Paillier modulus
    max_clients: int  # most clients whose counters fit a slot
    min_cohort: int  # fewest clients that any decrypted sum covers
    max_draws: int  # most draws of a node in this epoch; they reveal its probability bit by bit
    pool: int = 1  # how many times K clients volunteer for a draw, on average
    group_size: int | None = None  # fewest clients in a group; None where an agent chooses a try
    weighted: bool = False  # whether nodes count by their number of samples
    has_agent: bool = True  # whether an agent chooses, from sums of label distributions
    vault: str = "paillier"  # how sums are formed: one of `VAULTS`
    simulation_seed: int | None = None  # of the draws of simulated nodes; None for real nodes

    def __post_init__(self) -> None:
        too_long = max(len(self.rule), len(self.rule_settings)) > _MAX_RULE_BYTES
        require(not too_long, "The settings of the rule are too long.")
        require(self.num_participants >= self.min_cohort >= 1, "K is at least min_cohort.")
        require(self.max_clients >= 1, "An epoch has room for a client.")
        if self.group_size is not None:
            fits = self.min_cohort <= self.group_size <= self.num_participants
            require(fits, "A group has from min_cohort to K clients.")
        require(1 <= self.pool < 2**31, "Fewer than K clients would volunteer.")
        require(self.vault in VAULTS, "The vault is not known.")
        require(self.simulated or not self.in_the_clear, "A real node sends nothing in the clear.")
        fits = self.vault != "committee" or not self.has_agent
        require(fits, "A committee opens sums for all nodes, and none for an agent.")
        require(self.max_draws >= 0, "A budget is negative.")

    @property
    def simulated(self) -> bool:
        """Whether all nodes are simulated."""
        return self.simulation_seed is not None

    @property
    def in_the_clear(self) -> bool:
        """Whether simulated nodes send their numbers as they are."""
        return self.vault == "plain"

    @property
    def determination(self) -> Determination:
        """What an agent chooses from; the number of tries is told when nodes draw."""
        if self.group_size is None:
            return Tries(pool=self.pool)
        return Groups(self.group_size, self.pool)

    @property
    def num_wanted(self) -> int:
        """How many selections train together: the groups of a round, or one try."""
        return self.determination.num_wanted(self.num_participants)

    @property
    def selection_sizes(self) -> tuple[int, int]:
        """The smallest and the largest number of clients in a try or group, 1 apart at most."""
        smallest, num_larger = divmod(self.num_participants, self.num_wanted)
        return smallest, smallest + (num_larger > 0)

    def most_covered(self, num_registered: int) -> int:
        """Return how many of the registered clients a try, or the groups of a round, may cover.

        What an agent knows of all clients together would give away the few others.
        """
        return num_registered - self.min_cohort

    def draws_charged(self, num_draws: int, num_registered: int) -> int:
        """Return what some draws cost of the budget of a node.

        One draw for H times as many volunteers tells as much of a probability as H draws.
        """
        return num_draws * -(-self.num_volunteers(num_registered) // self.num_participants)

    def num_volunteers(self, num_registered: int) -> int:
        """Return how many of the registered clients shall draw a yes in a draw, on average."""
        return expected_volunteers(self.num_participants, self.pool, num_registered)


def sums_per_agent(num_registered: int) -> int:
    """Return how many sums an agent decrypts in an epoch: fewer than half as many as clients."""
    return (num_registered - 1) // 2
