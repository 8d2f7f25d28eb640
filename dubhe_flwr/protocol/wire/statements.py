"""The statements that nodes with pinned keys sign.

Each statement names the protocol, the epoch and the announced parameters. So it cannot be replayed
in another epoch, and nodes that were shown different parameters do not accept each other's
signatures.
"""

import hashlib
import struct
from contextlib import suppress
from functools import lru_cache

from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.he.sealing import prefixed
from dubhe_flwr.he.signing import SIGNATURE_BYTES, PinnedKeys
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.codec import encode
from dubhe_flwr.protocol.wire.envelope import PROTOCOL_TAG
from dubhe_flwr.protocol.wire.roster import DIGEST_BYTES, Roster, split


@lru_cache(maxsize=16)
def parameters_digest(announced: JoinRequest) -> bytes:
    """Return the SHA-256 of all parameters of an epoch that a node was told.

    >>> some, others = (JoinRequest("paper", "{}", k, 2048, 1000, 3) for k in (20, 21))
    >>> parameters_digest(some) == parameters_digest(others)
    False
    """
    parts: list[bytes] = []
    for name, value in sorted(encode(announced).items()):
        if isinstance(value, str):
            # Half of a surrogate pair has no UTF-8 form, but a server may announce it.
            written = value.encode(errors="surrogatepass")
        elif isinstance(value, bytes):
            written = value
        else:
            written = struct.pack(">q", value)
        parts += [name.encode(), written]
    return hashlib.sha256(prefixed(*parts)).digest()


def statement_of(kind: bytes, epoch: bytes, announced: JoinRequest, *parts: bytes) -> bytes:
    """Return a statement of a kind, bound to the protocol, the epoch and its parameters."""
    digest = parameters_digest(announced)
    return prefixed(kind, PROTOCOL_TAG.encode(), epoch, digest, *parts)


def join_statement(
    epoch: bytes,
    announced: JoinRequest,
    public_key: bytes,
    num_examples: int | None,
    alias_digest: bytes,
) -> bytes:
    """Return what a node signs when it joins: its delivery key, number of samples and alias."""
    number = struct.pack(">q", num_examples or 0)
    return statement_of(b"join", epoch, announced, public_key, number, alias_digest)


def check_roster(
    pinned: PinnedKeys, epoch: bytes, announced: JoinRequest, roster: Roster
) -> tuple[int, ...]:
    """Check that each node signed with a different trusted key, and return the keys' positions.

    The positions count from 0, in the list of trusted keys. Raises `UntrustedError`.
    """
    keys, signed = roster.keys, list(split(roster.signatures or b"", SIGNATURE_BYTES))
    digests = list(split(roster.alias_digests or b"", DIGEST_BYTES))
    if not len(keys) == len(signed) == len(digests):
        raise UntrustedError("Each key needs exactly one signature and the digest of an alias.")
    numbers = roster.num_examples or [None] * len(keys)
    ranks: dict[int, None] = {}  # ordered, and each position once
    rows = zip(keys, numbers, digests, signed, strict=True)
    for position, (key, number, digest, signature) in enumerate(rows, start=1):
        statement = join_statement(epoch, announced, key, number, digest)
        with suppress(UntrustedError):
            ranks[pinned.trusted.rank(statement, signature)] = None
        if len(ranks) < position:
            raise UntrustedError(
                f"Key {position} of {len(keys)} does not belong to a trusted node that joined this "
                "registration period under these parameters, or that node signed another key, too."
            )
    return tuple(ranks)
