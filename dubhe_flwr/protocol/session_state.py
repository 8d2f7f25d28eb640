"""What a node keeps between two requests of the protocol, on its own host."""

from dataclasses import dataclass
from typing import Final, Self

from dubhe_flwr.protocol.messages import EPOCH_ID_BYTES, Envelope, JoinRequest

__all__ = ["SessionState"]

_REMEMBERED_EPOCHS: Final = 64


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
    parameters : JoinRequest
        The parameters of the epoch.
    """

    epoch: bytes
    sequence: int
    past_epochs: bytes
    recipient_key: bytes
    distribution: tuple[int, ...]
    slot: int
    modulus: bytes
    secret_key: bytes
    registry_digest: bytes
    num_registered: int
    probability: float
    num_draws: int
    num_sums: int
    parameters: JoinRequest

    def __repr__(self) -> str:
        return f"SessionState(epoch={self.epoch.hex()[:8]}, sequence={self.sequence}, <hidden>)"

    @classmethod
    def joined(
        cls,
        header: Envelope,
        past_epochs: bytes,
        parameters: JoinRequest,
        recipient_key: bytes,
        distribution: tuple[int, ...],
        slot: int,
    ) -> Self:
        """Return the state of a node that was asked to join an epoch."""
        return cls(
            epoch=header.epoch,
            sequence=header.sequence,
            past_epochs=(past_epochs + header.epoch)[-_REMEMBERED_EPOCHS * EPOCH_ID_BYTES :],
            recipient_key=recipient_key,
            distribution=distribution,
            slot=slot,
            modulus=b"",
            secret_key=b"",
            registry_digest=b"",
            num_registered=0,
            probability=0.0,
            num_draws=0,
            num_sums=0,
            parameters=parameters,
        )

    @staticmethod
    def split_epochs(past_epochs: bytes) -> set[bytes]:
        """Return the single identities in `past_epochs`."""
        return {
            past_epochs[start : start + EPOCH_ID_BYTES]
            for start in range(0, len(past_epochs), EPOCH_ID_BYTES)
        }
