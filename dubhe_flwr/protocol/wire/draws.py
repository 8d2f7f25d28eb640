"""Packs a node's draws into bits, and unpacks them at the server.

A reply has a bit for each try of each round (the node's draw), and a bit for each round (set if
the node will not train in it).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.protocol.wire.messages import ParticipateReply, ParticipateRequest


def write_draws(
    decisions: NDArray[np.bool_], unwilling: NDArray[np.bool_] | Sequence[bool]
) -> ParticipateReply:
    """Return the reply of one node, whose decisions have the shape (T, H).

    >>> write_draws(np.array([[False, True], [False, False]]), [False, True])
    ParticipateReply(decisions=b'@', unwilling=b'@')
    """
    drawn, said = np.packbits(decisions).tobytes(), np.packbits(unwilling).tobytes()
    return ParticipateReply(decisions=drawn, unwilling=said)


def sizes_of(request: ParticipateRequest) -> tuple[int, int]:
    """Return the required sizes of a reply's `decisions` and `unwilling`, in bytes."""
    num_rounds = request.num_rounds
    return _num_bytes(num_rounds * request.num_tries), _num_bytes(num_rounds)


def read_draws(
    replies: Sequence[ParticipateReply], request: ParticipateRequest
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the decisions of M nodes, shape (M, T, H), and when they are unwilling, shape (M, T).

    Each reply has the sizes that `sizes_of` requires.
    """
    shape = len(replies), request.num_rounds, request.num_tries
    decisions = _bits([reply.decisions for reply in replies], shape[1] * shape[2])
    unwilling = _bits([reply.unwilling for reply in replies], shape[1])
    return decisions.reshape(shape), unwilling


def _num_bytes(num_bits: int) -> int:
    return -(-num_bits // 8)


def _bits(packed: Sequence[bytes], count: int) -> NDArray[np.bool_]:
    """Unpack byte strings of equal length, each into a row of bits."""
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), _num_bytes(count))
    return np.unpackbits(rows, axis=1, count=count).astype(bool)
