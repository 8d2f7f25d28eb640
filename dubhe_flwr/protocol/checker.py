"""A node as agent that checks registrations: it tells which blocks of them add up."""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import FIXED_POINT_SCALE
from dubhe_flwr.errors import DecryptionError, RefusedError
from dubhe_flwr.protocol.messages import CheckReply, CheckRequest
from dubhe_flwr.protocol.parameters import DISTRIBUTION, REGISTRY, epoch_parameters
from dubhe_flwr.protocol.session_state import SessionState

__all__ = ["check_blocks"]


def check_blocks(state: SessionState, request: CheckRequest) -> tuple[CheckReply, SessionState]:
    """Decrypt the sums of each block, and tell whether they are those of so many clients.

    In this epoch the node then decrypts nothing else but the sum of the registries that passed, so
    that no two of its sums differ by fewer clients than a block has.
    """
    announced = state.parameters
    layout = epoch_parameters(announced).layout
    num_blocks, num_clients = len(request.num_clients), sum(request.num_clients)
    if not announced.block_size:
        raise RefusedError("The registrations of this epoch are not checked by blocks.")
    if state.blocks_digest or state.registry_digest or state.num_sums:
        raise RefusedError("A node checks blocks once, and before it knows any other sum.")
    if min(request.num_clients) < announced.block_size:
        raise RefusedError(f"A block of {min(request.num_clients)} clients is too few.")
    if num_blocks > min(announced.max_sums, (num_clients - 1) // 2):
        raise RefusedError("The sums that this node decrypts in an epoch are used up.")
    sizes = layout.field_bytes(REGISTRY), layout.field_bytes(DISTRIBUTION)
    if (len(request.registries), len(request.distributions)) != (
        num_blocks * sizes[0],
        num_blocks * sizes[1],
    ):
        raise RefusedError("The sums are not as many as announced.")
    total = np.zeros(layout.field(REGISTRY).num_slots, dtype=np.int64)
    passed = np.zeros(num_blocks, dtype=bool)
    for block, number in enumerate(request.num_clients):
        registry = request.registries[block * sizes[0] : (block + 1) * sizes[0]]
        distribution = request.distributions[block * sizes[1] : (block + 1) * sizes[1]]
        counts = _registry_of(state, registry, distribution, number)
        if counts is not None:
            passed[block] = True
            total += counts
    reply = CheckReply(np.packbits(passed).tobytes())
    digest = hashlib.sha256(total.tobytes()).digest()
    return reply, replace(state, num_sums=num_blocks, blocks_digest=digest)


def _registry_of(
    state: SessionState, registry: bytes, distribution: bytes, num_clients: int
) -> NDArray[np.int64] | None:
    """Return the registry of a block, or None if it is not the sum of so many honest ones."""
    try:
        counts = state.decrypt(REGISTRY, registry, num_clients)
        shares = state.decrypt(DISTRIBUTION, distribution, num_clients)[:-1]
    except DecryptionError:  # negative or huge counters
        return None
    by_candidate = counts.reshape(state.parameters.num_candidates, -1).sum(axis=1)
    one_each = (by_candidate == num_clients).all()
    return counts if one_each and shares.sum() == num_clients * FIXED_POINT_SCALE else None
