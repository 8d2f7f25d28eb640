"""How a node reads what the server relays: the overall registry, once and under one candidate."""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.parameters import REGISTRY
from dubhe_flwr.protocol.session_state import SessionState

__all__ = ["check_no_checker", "read_candidate_registry", "read_overall_registries"]


def check_no_checker(state: SessionState) -> None:
    """Refuse sums beside those of blocks: a group may be a whole block but for one client."""
    if state.blocks_digest:
        raise RefusedError("A node that checked the blocks of an epoch is its agent no more.")


def read_overall_registries(
    state: SessionState, vector: bytes, num_registered: int
) -> tuple[NDArray[np.int64], SessionState]:
    """Decrypt and check ``R_A`` under each candidate; there is one sum in an epoch.

    Two would tell a difference.

    Parameters
    ----------
    state : SessionState
        Of a node that has registered.
    vector : bytes
        The encrypted sum of all registries.
    num_registered : int
        Number of clients that it is said to cover.

    Returns
    -------
    counts : ndarray of int64, shape (n, l)
        A row for each candidate.
    state : SessionState
        Which remembers what was read.

    Raises
    ------
    RefusedError
        If it covers too few clients, is another than before, or not the sum it is said to be.
    """
    digest = hashlib.sha256(num_registered.to_bytes(8, "big") + vector).digest()
    if state.registry_digest not in {b"", digest}:
        raise RefusedError("There is one overall registry in an epoch, and this is another.")
    if num_registered < state.parameters.min_cohort:
        raise RefusedError(f"A registry of {num_registered} clients is too few.")
    counts = state.decrypt(REGISTRY, vector, num_registered).reshape(len(state.slots), -1)
    own = counts[np.arange(len(counts)), state.slots]
    if (counts.sum(axis=1) != num_registered).any() or (own < 1).any():
        raise RefusedError("The overall registry is not the sum it is said to be.")
    if state.blocks_digest not in {b"", hashlib.sha256(counts.tobytes()).digest()}:
        raise RefusedError("The overall registry is not the sum of the blocks that passed.")
    return counts, replace(state, registry_digest=digest, num_registered=num_registered)


def read_candidate_registry(
    state: SessionState, vector: bytes, num_registered: int, candidate: int
) -> tuple[NDArray[np.int64], SessionState]:
    """Read ``R_A`` under the candidate that was chosen; there is one in an epoch.

    Returns
    -------
    counts : ndarray of int64, shape (l,)
        ``R_A``.
    state : SessionState
        Which remembers what was read.

    Raises
    ------
    RefusedError
        If there is no such candidate, another one was named before, or the sum is refused.
    """
    if not 0 <= candidate < len(state.slots):
        raise RefusedError(f"There is no candidate {candidate} for the thresholds.")
    if state.candidate not in {-1, candidate}:
        raise RefusedError("One candidate holds in an epoch, and this is another.")
    counts, state = read_overall_registries(state, vector, num_registered)
    return counts[candidate], replace(state, candidate=candidate)
