"""What nodes sign with pinned keys: their own key for delivery, and as agent the epoch's key.

Each statement says for which protocol, epoch and announced parameters it is made. So none can be
replayed in another epoch, and nodes that were shown different parameters trust no common agent.
"""

import hashlib
import struct
from collections.abc import Iterator
from functools import lru_cache

from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.he.layout import Layout
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import prefixed
from dubhe_flwr.he.signing import SIGNATURE_BYTES, PinnedKeys
from dubhe_flwr.protocol.wire.codec import encode
from dubhe_flwr.protocol.wire.envelope import PROTOCOL_TAG
from dubhe_flwr.protocol.wire.messages import PUBLIC_KEY_BYTES, JoinRequest, KeygenRequest


@lru_cache(maxsize=16)
def parameters_digest(announced: JoinRequest) -> bytes:
    """Return the SHA-256 of everything that a node was told of an epoch.

    >>> some, others = (JoinRequest("paper", "{}", k, 2048, 1000, 3, 1000) for k in (20, 21))
    >>> parameters_digest(some) == parameters_digest(others)
    False
    """
    parts: list[bytes] = []
    for name, value in sorted(encode(announced).items()):
        if isinstance(value, str):
            # Half of a surrogate pair has no UTF-8 form, and yet a server may announce it.
            written = value.encode(errors="surrogatepass")
        else:
            written = struct.pack(">q", value)
        parts += [name.encode(), written]
    return hashlib.sha256(prefixed(*parts)).digest()


def join_statement(epoch: bytes, announced: JoinRequest, public_key: bytes) -> bytes:
    """Return what a node signs when it joins: that this key for delivery is its own."""
    return prefixed(b"join", PROTOCOL_TAG.encode(), epoch, parameters_digest(announced), public_key)


def key_statement(  # noqa: PLR0917 - what the key is for, and whose it is
    epoch: bytes,
    announced: JoinRequest,
    layout: Layout,
    agent: bytes,
    public_key: PublicKey,
    recipient: bytes,
) -> bytes:
    """Return what an agent signs for one recipient: that it made this key, for this recipient.

    Agent and recipient are told by the public halves of their keys for delivery. The recipient's
    is new in each epoch, so that a statement is worth nothing in another one.
    """
    return prefixed(
        b"key",
        PROTOCOL_TAG.encode(),
        epoch,
        parameters_digest(announced),
        agent,
        public_key.digest(),
        layout.digest(),
        recipient,
    )


def check_recipients(
    pinned: PinnedKeys, epoch: bytes, announced: JoinRequest, request: KeygenRequest
) -> None:
    """Check, as agent, that each key to seal to was signed by another of the trusted nodes.

    It is an `UntrustedError` if a key is not signed, or two by one node.
    """
    keys = list(split(request.public_keys, PUBLIC_KEY_BYTES))
    signatures = list(split(request.signatures or b"", SIGNATURE_BYTES))
    if len(keys) != len(signatures):
        raise UntrustedError("There is not one signature for each key to seal to.")
    signers = set()
    for position, (key, signature) in enumerate(zip(keys, signatures, strict=True), start=1):
        try:
            signers.add(pinned.trusted.signer(join_statement(epoch, announced, key), signature))
        except UntrustedError as error:
            raise UntrustedError(
                f"Key {position} of {len(keys)} to seal to is not of a trusted node that joined "
                f"this epoch under these parameters: {error}"
            ) from None
    if len(signers) < len(keys):
        raise UntrustedError("A node signed more than one of the keys to seal to.")


def split(joined: bytes, size: int) -> Iterator[bytes]:
    """Yield byte strings of one size that were put end to end."""
    return (joined[start : start + size] for start in range(0, len(joined), size))
