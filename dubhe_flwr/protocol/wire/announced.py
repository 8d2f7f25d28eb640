"""The request that announces an epoch's parameters, and why a node may decline it."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from dubhe_flwr.protocol.wire.codec import Message, require

EPOCH_ID_BYTES: Final = 16
_MAX_RULE_BYTES: Final = 2**16


class VaultName(StrEnum):
    """The vaults' names on the wire."""

    PLAIN = "plain"
    PAILLIER = "paillier"
    COMMITTEE = "committee"


class JoinStatus(IntEnum):
    """Whether a node takes part in an epoch, and if not, why. It reveals no label."""

    JOINS = 0
    UNWILLING = 1
    NO_DATA = 2
    WRONG_NUMBER_OF_CLASSES = 3
    INVALID_LABEL_COUNTS = 4
    REFUSES_PARAMETERS = 5
    RULE_NOT_KNOWN = 6
    NOT_SIMULATED = 7
    NEEDS_TRUSTED_KEYS = 8

    @property
    def reason(self) -> str:
        """Why the node sits out, in words."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class JoinRequest(Message):
    """Announces the parameters of an epoch; every node checks them before it joins."""

    rule: str  # name of the rule
    rule_settings: str  # as JSON
    num_participants: int  # ``K``
    key_bits: int  # size of the Paillier modulus
    max_clients: int  # largest number of clients in a sum; fixes a slot's width
    min_cohort: int  # fewest clients that any decrypted sum covers
    weighted: bool = False  # whether nodes are weighted by their number of samples
    has_agent: bool = True  # whether agents choose, from sums of label distributions
    vault: str = VaultName.PAILLIER.value  # how sums are formed: a `VaultName`
    simulation_seed: int | None = None  # seed of simulated nodes' draws; None for real nodes
    continues: bytes | None = None  # identity of the last epoch, if the rule continues it
    has_trusted_keys: bool = False  # whether the server has the list of the nodes' public keys

    def __post_init__(self) -> None:
        too_long = max(len(self.rule), len(self.rule_settings)) > _MAX_RULE_BYTES
        require(not too_long, "The settings of the rule are too long.")
        require(self.num_participants >= self.min_cohort >= 1, "K must be at least min_cohort.")
        require(
            self.max_clients >= 1, "A registration period must have room for at least one client."
        )
        require(self.vault in set(VaultName), "The vault is not known.")
        require(self.simulated or not self.in_the_clear, "Real nodes must not send in the clear.")
        fits = not (self.has_committee and self.has_agent)
        require(fits, "A committee must not open sums for an agent.")
        fits = self.continues is None or len(self.continues) == EPOCH_ID_BYTES
        require(fits, "The identity of an epoch has 16 bytes.")

    @property
    def simulated(self) -> bool:
        """Whether all nodes are simulated."""
        return self.simulation_seed is not None

    @property
    def in_the_clear(self) -> bool:
        """Whether simulated nodes send their numbers unencrypted."""
        return self.vault == VaultName.PLAIN

    @property
    def has_committee(self) -> bool:
        """Whether a committee opens the sums."""
        return self.vault == VaultName.COMMITTEE

    def allows_tries(self, num_registered: int) -> bool:
        """Return whether an agent may read sums over K of the registered clients.

        An agent that knows the sum over all clients could otherwise subtract, and learn the sum
        over the few clients left out.
        """
        return self.num_participants <= num_registered - self.min_cohort

    def least_clients(self, num_joined: int) -> int:
        """Return the fewest clients of a sum: `min_cohort`, or if it is more, half of the nodes."""
        return max(self.min_cohort, -(-num_joined // 2))


def sums_per_agent(num_registered: int) -> int:
    """Return how many sums an agent decrypts in an epoch at most: fewer than N / 2."""
    return (num_registered - 1) // 2
