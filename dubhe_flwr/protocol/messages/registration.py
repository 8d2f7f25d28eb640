"""The messages by which nodes register: an agent makes the key, all encrypt under it."""

from dataclasses import dataclass

from dubhe_flwr.he import NO_SIGNATURE, SIGNATURE_BYTES
from dubhe_flwr.protocol.messages.join import PUBLIC_KEY_BYTES
from dubhe_flwr.protocol.messages.require import require, require_signature

__all__ = [
    "KeygenReply",
    "KeygenRequest",
    "RegisterReply",
    "RegisterRequest",
]


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
