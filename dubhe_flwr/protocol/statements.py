"""What nodes sign with pinned keys: their keys for delivery, and the agent's bundle.

Each statement says for which protocol, epoch and announced parameters it is made. So none can be
replayed in another epoch, and nodes that were shown different parameters trust no common agent.
"""

import hashlib
import struct
from functools import lru_cache

from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.he import NO_SIGNATURE, SIGNATURE_BYTES, PinnedKeys, PublicKey
from dubhe_flwr.protocol.codec import encode
from dubhe_flwr.protocol.messages import (
    PUBLIC_KEY_BYTES,
    JoinRequest,
    KeygenRequest,
    RegisterRequest,
)
from dubhe_flwr.protocol.parameters import PROTOCOL_TAG, epoch_parameters

__all__ = [
    "bundle_statement",
    "check_bundle",
    "check_recipients",
    "join_statement",
    "parameters_digest",
    "recipients_digest",
    "sign",
]


@lru_cache(maxsize=16)
def parameters_digest(announced: JoinRequest) -> bytes:
    """Return the SHA-256 of all the parameters that a node was told of an epoch.

    Examples
    --------
    >>> announced = JoinRequest((1, 2, 10), (0.7, 0.1), 20, 2048, 1000, 3, 1000, 500, -1)
    >>> parameters_digest(announced) == parameters_digest(announced)
    True
    """
    parts: list[bytes] = []
    for name, value in sorted(encode(announced).items()):
        number_format = ">d" if isinstance(value, float) else ">q"
        written = value if isinstance(value, bytes) else struct.pack(number_format, value)
        parts += [name.encode(), written]
    return hashlib.sha256(_joined(*parts)).digest()


def recipients_digest(public_keys: bytes) -> bytes:
    """Return the SHA-256 of the keys that the agent was asked to seal to, put end to end."""
    return hashlib.sha256(public_keys).digest()


def join_statement(epoch: bytes, announced: JoinRequest, public_key: bytes) -> bytes:
    """Return what a node signs when it joins: that this key for delivery is its own."""
    return _joined(b"join", PROTOCOL_TAG.encode(), epoch, parameters_digest(announced), public_key)


def bundle_statement(
    epoch: bytes, announced: JoinRequest, agent: bytes, modulus: bytes, recipients: bytes
) -> bytes:
    """Return what an agent signs: that it made this modulus for these recipients.

    Parameters
    ----------
    epoch : bytes
        Identity of the epoch.
    announced : JoinRequest
        The parameters of the epoch, as the signer or the reader knows them.
    agent : bytes
        Public half of the agent's key for delivery.
    modulus : bytes
        ``n``.
    recipients : bytes
        `recipients_digest` of those that the secret key is sealed to.
    """
    return _joined(
        b"bundle",
        PROTOCOL_TAG.encode(),
        epoch,
        parameters_digest(announced),
        agent,
        PublicKey.from_bytes(modulus, announced.key_bits).digest(),
        epoch_parameters(announced).layout.digest(),
        recipients,
    )


def sign(pinned: PinnedKeys | None, statement: bytes) -> bytes:
    """Return a signature, or as many zeros where the node has no key."""
    return NO_SIGNATURE if pinned is None else pinned.sign(statement)


def check_recipients(
    pinned: PinnedKeys, epoch: bytes, announced: JoinRequest, request: KeygenRequest
) -> None:
    """Check, as agent, that each key to seal to was signed by another of the trusted nodes.

    Raises
    ------
    UntrustedError
        If a key is not signed, or two by one node.
    """
    keys = _split(request.public_keys, PUBLIC_KEY_BYTES)
    signatures = _split(request.signatures, SIGNATURE_BYTES)
    if len(keys) != len(signatures):
        raise UntrustedError("There is not one signature for each key to seal to.")
    signers = set()
    for position, (key, signature) in enumerate(zip(keys, signatures, strict=True), start=1):
        try:
            signers.add(pinned.trusted.signer(join_statement(epoch, announced, key), signature))
        except UntrustedError as error:
            raise UntrustedError(
                f"Key {position} of {len(keys)} to seal to is of no trusted node that joined "
                f"this epoch under these parameters: {error}"
            ) from None
    if len(signers) < len(keys):
        raise UntrustedError("A node signed more than one of the keys to seal to.")


def check_bundle(
    pinned: PinnedKeys, epoch: bytes, announced: JoinRequest, request: RegisterRequest
) -> None:
    """Check, as recipient, that a trusted agent made the modulus for these recipients.

    Raises
    ------
    UntrustedError
        If the agent's signature is missing, or of something else.
    """
    statement = bundle_statement(
        epoch,
        announced,
        request.agent_public_key,
        request.modulus,
        request.recipients_digest,
    )
    try:
        pinned.trusted.signer(statement, request.signature)
    except UntrustedError as error:
        raise UntrustedError(
            f"No trusted agent made this key for this epoch, parameters and recipients: {error}"
        ) from None


def _split(joined: bytes, size: int) -> list[bytes]:
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def _joined(*parts: bytes) -> bytes:
    """Put parts end to end, each preceded by its length, so that none can lend to another."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
