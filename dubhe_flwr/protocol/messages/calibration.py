"""The messages by which probabilities are calibrated."""

from dataclasses import dataclass

from dubhe_flwr.protocol.messages.require import require

__all__ = [
    "CalibrateReply",
    "CalibrateRequest",
    "MomentsReply",
    "MomentsRequest",
]


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
