"""A node as agent: it makes the epoch's key, calibrates probabilities and determines rounds."""

import hashlib
import secrets
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    best_groups,
    best_scored_try,
    calibrated_probability,
    group_sizes,
)
from dubhe_flwr.errors import MalformedMessageError, RefusedError
from dubhe_flwr.he import (
    RecipientKey,
    SealingContext,
    SecretKey,
    generate_secret_key,
    seal,
    sealed_bytes,
)
from dubhe_flwr.protocol.messages import (
    PUBLIC_KEY_BYTES,
    CalibrateReply,
    CalibrateRequest,
    DetermineReply,
    DetermineRequest,
    JoinRequest,
    KeygenReply,
    KeygenRequest,
)
from dubhe_flwr.protocol.parameters import (
    DISTRIBUTION,
    MOMENTS,
    PROBABILITIES,
    epoch_parameters,
    sealing_context,
)
from dubhe_flwr.protocol.policy import NodePolicy
from dubhe_flwr.protocol.reading import check_no_checker, read_candidate_registry
from dubhe_flwr.protocol.registrant import check_calibrated
from dubhe_flwr.protocol.session_state import SessionState
from dubhe_flwr.protocol.statements import (
    bundle_statement,
    check_recipients,
    recipients_digest,
    sign,
)

__all__ = [
    "best_selections",
    "calibrate",
    "decrypted_sums",
    "determine",
    "fixed_point_probabilities",
    "make_key",
]


def make_key(
    policy: NodePolicy, state: SessionState, request: KeygenRequest
) -> tuple[KeygenReply, SessionState]:
    """Make a fresh key pair and seal its secret half to each of the others."""
    parameters = epoch_parameters(state.parameters)
    own_public_key = RecipientKey.from_bytes(state.recipient_key).public_bytes
    recipients = [
        request.public_keys[start : start + PUBLIC_KEY_BYTES]
        for start in range(0, len(request.public_keys), PUBLIC_KEY_BYTES)
    ]
    if own_public_key not in recipients or len(set(recipients)) < len(recipients):
        raise RefusedError("The recipients are not distinct, or lack the agent itself.")
    if not state.parameters.min_cohort <= len(recipients) <= state.parameters.max_clients:
        raise RefusedError(f"{len(recipients)} recipients are too few or too many.")
    if policy.pinned is not None:
        check_recipients(policy.pinned, state.epoch, state.parameters, request)
    secret_key = generate_secret_key(state.parameters.key_bits)
    context = sealing_context(state.epoch, own_public_key, secret_key.public_key, parameters.layout)
    sealed = b"".join(_seal_or_fill(secret_key, key, context) for key in recipients)
    modulus = secret_key.public_key.to_bytes()
    statement = bundle_statement(
        state.epoch,
        state.parameters,
        own_public_key,
        modulus,
        recipients_digest(request.public_keys),
    )
    return KeygenReply(modulus, sealed, sign(policy.pinned, statement)), state


def calibrate(
    state: SessionState, request: CalibrateRequest
) -> tuple[CalibrateReply, SessionState]:
    """Solve for the probabilities of all categories, and encrypt them for the other nodes."""
    announced = state.parameters
    check_calibrated(announced)
    check_no_checker(state)
    if request.num_clients < announced.min_cohort:
        raise RefusedError(f"Moments of {request.num_clients} clients are too few.")
    # Two sums over different clients would tell their difference.
    digest = hashlib.sha256(request.num_clients.to_bytes(8, "big") + request.moments).digest()
    if state.moments_digest not in {b"", digest}:
        raise RefusedError("There is one sum of moments in an epoch, and this is another.")
    counts, state = read_candidate_registry(
        state, request.overall_registry, request.num_registered, request.candidate
    )
    sums = state.decrypt(MOMENTS, request.moments, request.num_clients)
    table = sums.reshape(len(counts), -1)
    members, rest = np.divmod(table[:, :-1].sum(axis=1), FIXED_POINT_SCALE)
    if rest.any() or members.sum() != request.num_clients or (members > counts).any():
        raise RefusedError("The moments do not cover the clients they are said to cover.")
    of_all_members = _for_all_members(table, members, counts, announced)
    probabilities = fixed_point_probabilities(counts, of_all_members, announced)
    reply = CalibrateReply(state.encrypt(PROBABILITIES, probabilities))
    return reply, replace(state, moments_digest=digest)


def determine(
    state: SessionState, request: DetermineRequest
) -> tuple[DetermineReply, SessionState]:
    """Decrypt the sums of each round, and name its best try or its best groups."""
    announced = state.parameters
    check_no_checker(state)
    sizes = np.array(request.num_clients, dtype=np.int64)
    sums, state = decrypted_sums(state, request.sums, sizes)
    ends = np.cumsum(request.num_sums)[:-1]
    chosen = [
        index
        for of_round, clients in zip(np.split(sums, ends), np.split(sizes, ends), strict=True)
        for index in best_selections(of_round, clients, announced)
    ]
    return DetermineReply(tuple(chosen)), state


def decrypted_sums(
    state: SessionState, vectors: bytes, num_clients: NDArray[np.int64]
) -> tuple[NDArray[np.int64], SessionState]:
    """Decrypt sums of ``p_l`` and ``||p_l||^2``, at the expense of the agent's budget.

    Parameters
    ----------
    state : SessionState
        Of the agent.
    vectors : bytes
        The sums, end to end.
    num_clients : ndarray of int64, shape (M,)
        Clients that each is said to cover.

    Returns
    -------
    sums : ndarray of int64, shape (M, C + 1)
    state : SessionState
        With less of the budget.

    Raises
    ------
    RefusedError
        If the budget is spent, or a sum covers too few clients or others than it is said to.
    """
    announced = state.parameters
    num_sums = state.num_sums + len(num_clients)
    if num_sums > min(announced.max_sums, (state.num_registered - 1) // 2):
        raise RefusedError("The sums that this node decrypts in an epoch are used up.")
    if num_clients.min() < announced.min_cohort:
        raise RefusedError(f"A sum over {num_clients.min()} clients is too few.")
    size = epoch_parameters(announced).layout.field_bytes(DISTRIBUTION)
    if len(vectors) != size * len(num_clients):
        raise RefusedError("The sums are not as many as announced.")
    sums = np.array(
        [
            state.decrypt(DISTRIBUTION, vectors[index * size : (index + 1) * size], number)
            for index, number in enumerate(num_clients.tolist())
        ]
    )
    if (sums[:, :-1].sum(axis=1) != num_clients * FIXED_POINT_SCALE).any():
        raise RefusedError("A sum does not cover the clients it is said to cover.")
    return sums, replace(state, num_sums=num_sums)


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


def best_selections(
    sums: NDArray[np.int64], num_clients: NDArray[np.int64], announced: JoinRequest
) -> list[int]:
    """Return the best try of a round, or its best groups.

    Parameters
    ----------
    sums : ndarray of int64, shape (M, C + 1)
        Fixed-point sums of ``p_l`` and ``||p_l||^2`` over the clients of each try or group.
    num_clients : ndarray of int64, shape (M,)
        Clients of each.
    announced : JoinRequest
        The parameters of the epoch.

    Raises
    ------
    RefusedError
        If tries cover different numbers of clients.
    """
    if not announced.group_size:
        if len(set(num_clients.tolist())) > 1:
            raise RefusedError("The tries of a round cover different numbers of clients.")
        return [best_scored_try(sums, announced.local_skew)]
    wanted = group_sizes(announced.num_participants, announced.group_size)
    return [int(g) for g in best_groups(sums, num_clients, wanted, announced.local_skew)]


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


def _seal_or_fill(secret_key: SecretKey, recipient: bytes, context: SealingContext) -> bytes:
    """Seal the key; who sent an unusable public key gets what never opens, and drops out alone."""
    try:
        return seal(secret_key, recipient, context)
    except MalformedMessageError:
        return secrets.token_bytes(sealed_bytes(secret_key.public_key.bits))
