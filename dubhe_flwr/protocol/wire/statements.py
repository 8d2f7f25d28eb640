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
from dubhe_flwr.protocol.wire.messages import PUBLIC_KEY_BYTES, JoinRequest


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


def appointment_statement(  # noqa: PLR0917 - who is a member of what
    epoch: bytes,
    announced: JoinRequest,
    roster: bytes,
    num_joined: int,
    member_keys: bytes,
    place: int,
    group_digest: bytes,
) -> bytes:
    """Return what a member of a committee signs: who joined, who opens sums, and its own place.

    Its key for delivery is the one at its place. Only the first member makes a group key.
    """
    return prefixed(
        b"appointment",
        PROTOCOL_TAG.encode(),
        epoch,
        parameters_digest(announced),
        roster,
        struct.pack(">qq", num_joined, place),
        member_keys,
        group_digest,
    )


def release_statement(  # noqa: PLR0917 - what is released of what
    epoch: bytes,
    announced: JoinRequest,
    exchange: int,
    covered: bytes,
    num_clients: int,
    total: bytes,
    sealed: bytes,
) -> bytes:
    """Return what a member signs when it opens a sum: over whom, of what, and its part of it.

    The nodes in the sum are told by the digest of their bits.
    """
    return prefixed(
        b"release",
        PROTOCOL_TAG.encode(),
        epoch,
        parameters_digest(announced),
        struct.pack(">qq", exchange, num_clients),
        covered,
        hashlib.sha256(total).digest(),
        hashlib.sha256(sealed).digest(),
    )


def check_roster(
    pinned: PinnedKeys, epoch: bytes, announced: JoinRequest, public_keys: bytes, signatures: bytes
) -> list[bytes]:
    """Return who signed each key of a roster: as many trusted nodes as there are keys.

    Raises `UntrustedError` if a key is not signed, or two by one node.
    """
    keys = list(split(public_keys, PUBLIC_KEY_BYTES))
    signed = list(split(signatures, SIGNATURE_BYTES))
    if len(keys) != len(signed):
        raise UntrustedError("There is not one signature for each key.")
    signers = []
    for position, (key, signature) in enumerate(zip(keys, signed, strict=True), start=1):
        try:
            signers.append(pinned.trusted.signer(join_statement(epoch, announced, key), signature))
        except UntrustedError as error:
            raise UntrustedError(
                f"Key {position} of {len(keys)} is not of a trusted node that joined this epoch "
                f"under these parameters: {error}"
            ) from None
    if len(set(signers)) < len(keys):
        raise UntrustedError("A node signed more than one of the keys.")
    return signers


def split(joined: bytes, size: int) -> Iterator[bytes]:
    """Yield byte strings of one size that were put end to end."""
    return (joined[start : start + size] for start in range(0, len(joined), size))
