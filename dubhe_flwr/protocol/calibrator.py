"""A node as agent that calibrates: it solves for the probabilities of all categories."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import FIXED_POINT_SCALE, calibrated_probability
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.messages import CalibrateReply, CalibrateRequest, JoinRequest
from dubhe_flwr.protocol.parameters import MOMENTS, PROBABILITIES, epoch_parameters
from dubhe_flwr.protocol.reading import check_no_checker, only_digest, read_candidate_registry
from dubhe_flwr.protocol.registrant import check_calibrated
from dubhe_flwr.protocol.session_state import SessionState, charging

__all__ = ["calibrate", "fixed_point_probabilities"]


def calibrate(
    state: SessionState, request: CalibrateRequest
) -> tuple[CalibrateReply, SessionState]:
    """Solve for the probabilities of all categories, and encrypt them for the other nodes."""
    announced = state.parameters
    check_calibrated(announced)
    check_no_checker(state)
    if request.num_clients < announced.min_cohort:
        raise RefusedError(f"Moments of {request.num_clients} clients are too few.")
    digest = only_digest(
        state.moments_digest, "sum of moments", request.num_clients, request.moments
    )
    counts, state = read_candidate_registry(
        state, request.overall_registry, request.num_registered, request.candidate
    )
    state = replace(state, moments_digest=digest)
    with charging(state):
        sums = state.decrypt(MOMENTS, request.moments, request.num_clients)
        table = sums.reshape(len(counts), -1)
        members, rest = np.divmod(table[:, :-1].sum(axis=1), FIXED_POINT_SCALE)
        if rest.any() or members.sum() != request.num_clients or (members > counts).any():
            raise RefusedError("The moments do not cover the clients they are said to cover.")
    of_all_members = _for_all_members(table, members, counts, announced)
    probabilities = fixed_point_probabilities(counts, of_all_members, announced)
    reply = CalibrateReply(state.encrypt(PROBABILITIES, probabilities))
    return reply, state


def fixed_point_probabilities(
    counts: NDArray[np.int64], moment_sums: ArrayLike, announced: JoinRequest
) -> NDArray[np.int64]:
    """Return the calibrated probability of each category, in fixed point.

    Parameters
    ----------
    counts : ndarray of int64, shape (l,)
        ``R_A``.
    moment_sums : array_like, shape (l, C + 1)
        Sums of the moments of all registered clients, in fixed point.
    announced : JoinRequest
        The parameters of the epoch.
    """
    probability = calibrated_probability(
        counts,
        moment_sums,
        announced.num_participants,
        num_volunteers=announced.num_volunteers(int(counts.sum())),
        coverage=announced.coverage,
        floor=announced.floor,
    )
    return np.rint(probability * FIXED_POINT_SCALE).astype(np.int64)


def _for_all_members(
    table: NDArray[np.int64],
    members: NDArray[np.int64],
    counts: NDArray[np.int64],
    announced: JoinRequest,
) -> NDArray[np.float64]:
    """Scale the moments of those who answered up to all members of each category.

    Where too few answered for a sum to hide them, the category's nominal distribution stands in.
    """
    codebook = epoch_parameters(announced).codebook
    scaled = table.astype(np.float64)
    for slot in np.flatnonzero(members < counts):
        if members[slot] >= announced.min_cohort:
            scaled[slot] *= counts[slot] / members[slot]
        else:
            dominating = list(codebook.unrank(int(slot)))
            scaled[slot] = 0.0
            scaled[slot, [*dominating, -1]] = (
                FIXED_POINT_SCALE * float(counts[slot]) / len(dominating)
            )
    return scaled
