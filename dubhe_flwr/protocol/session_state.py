"""What a node keeps between two requests of the protocol, on its own host."""

from dataclasses import dataclass
from typing import Final

from dubhe_flwr.protocol.envelope import EPOCH_ID_BYTES
from dubhe_flwr.protocol.messages import JoinRequest

__all__ = ["REMEMBERED_EPOCHS", "SessionState"]

REMEMBERED_EPOCHS: Final = 64
"""Past epochs that a node remembers, so that an old request to join is refused."""


@dataclass(frozen=True, slots=True, repr=False)
class SessionState:
    """The node's place in the current epoch, with its keys. It never leaves the node.

    Parameters
    ----------
    epoch : bytes
        Identity of the epoch.
    sequence : int
        Number of the last request that was answered.
    past_epochs : bytes
        Identities of the epochs that the node was asked to join, this one included, end to end.
    parameters : JoinRequest
        The parameters of the epoch.
    recipient_key : bytes
        Private half of the key for sealed delivery.
    distribution : tuple of int
        ``p_l`` in fixed-point integers; empty if the node did not join.
    slot : int
        Slot of the node's category ``u``; -1 if the node did not join.
    modulus, secret_key : bytes
        The epoch's Paillier key; empty before registration.
    registry_digest : bytes
        SHA-256 of the overall registry that was read; empty before.
    num_registered : int
        Number of clients in the overall registry.
    probability : float
        ``P``, the node's participation probability.
    num_draws, num_sums : int
        What has been spent of the budgets of the epoch.
    """

    epoch: bytes
    sequence: int
    past_epochs: bytes
    parameters: JoinRequest
    recipient_key: bytes
    distribution: tuple[int, ...] = ()
    slot: int = -1
    modulus: bytes = b""
    secret_key: bytes = b""
    registry_digest: bytes = b""
    num_registered: int = 0
    probability: float = 0.0
    num_draws: int = 0
    num_sums: int = 0

    def __repr__(self) -> str:
        return f"SessionState(epoch={self.epoch.hex()[:8]}, sequence={self.sequence}, <hidden>)"

    def remembers(self, epoch: bytes) -> bool:
        """Tell whether the node was asked to join that epoch before."""
        past = self.past_epochs
        return any(
            past[start : start + EPOCH_ID_BYTES] == epoch
            for start in range(0, len(past), EPOCH_ID_BYTES)
        )
