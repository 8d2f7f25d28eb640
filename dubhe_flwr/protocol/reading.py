"""How a node reads what the server relays: the overall registry, once and under one candidate."""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.parameters import REGISTRY
from dubhe_flwr.protocol.session_state import SessionState

__all__ = [
    "check_no_checker",
    "only_digest",
    "read_candidate_registry",
    "read_overall_registries",
]


def check_no_checker(state: SessionState) -> None:
    """Refuse sums beside those of blocks: a group may be a whole block but for one client."""
    if state.blocks_digest:
        raise RefusedError("A node that checked the blocks of an epoch is its agent no more.")


def only_digest(known: bytes, what: str, *parts: int | bytes) -> bytes:
    """Return the SHA-256 of what there is once in an epoch, and refuse another one.

    Two sums over different clients would tell their difference.

    Parameters
    ----------
    known : bytes
        The digest of the one that was read before; empty if none was.
    what : str
        What there is one of, for the sentence.
    *parts : int or bytes
        What it consists of. Of those that have no fixed size only the last may come without its
        size before it.

    Raises
    ------
    RefusedError
        If another one was read before.

    Examples
    --------
    >>> first = only_digest(b"", "sum of moments", 3, b"abc")
    >>> only_digest(first, "sum of moments", 3, b"abc") == first
    True
    >>> only_digest(first, "sum of moments", 4, b"abc")
    Traceback (most recent call last):
    dubhe_flwr.errors.RefusedError: There is one sum of moments in an epoch, and this is another.
    """
    written = [p if isinstance(p, bytes) else p.to_bytes(8, "big", signed=True) for p in parts]
    digest = hashlib.sha256(b"".join(written)).digest()
    if known not in {b"", digest}:
        raise RefusedError(f"There is one {what} in an epoch, and this is another.")
    return digest


def read_overall_registries(
    state: SessionState, vector: bytes, num_registered: int
) -> tuple[NDArray[np.int64], SessionState]:
    """Decrypt and check ``R_A`` under each candidate; there is one sum in an epoch.

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
    digest = only_digest(state.registry_digest, "overall registry", num_registered, vector)
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
