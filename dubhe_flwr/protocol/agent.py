"""A node as agent: it makes the epoch's key and determines rounds."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    best_groups,
    best_scored_try,
    group_sizes,
)
from dubhe_flwr.errors import DecryptionError, DubheError, MalformedMessageError, RefusedError
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
    DetermineReply,
    DetermineRequest,
    JoinRequest,
    KeygenReply,
    KeygenRequest,
)
from dubhe_flwr.protocol.parameters import (
    DISTRIBUTION,
    epoch_parameters,
    sealing_context,
)
from dubhe_flwr.protocol.policy import NodePolicy
from dubhe_flwr.protocol.reading import check_no_checker
from dubhe_flwr.protocol.session_state import SessionState, charging
from dubhe_flwr.protocol.statements import (
    bundle_statement,
    check_recipients,
    recipients_digest,
    sign,
)

__all__ = [
    "best_selections",
    "decrypted_sums",
    "determine",
    "make_key",
]

_Sum = NDArray[np.int64] | DubheError
"""What became of a sum: its slots, or why it is none."""


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


def determine(
    state: SessionState, request: DetermineRequest
) -> tuple[DetermineReply, SessionState]:
    """Decrypt the sums of each round, and name its best try or its best groups.

    A client that registered a wrong ``p_l`` spoils the sums that it is in. They are passed over;
    the request is refused only if a round has no others.
    """
    announced = state.parameters
    check_no_checker(state)
    sizes = np.array(request.num_clients, dtype=np.int64)
    found, state = _read_sums(state, request.sums, sizes)
    ends = list(accumulate(request.num_sums, initial=0))
    with charging(state):
        chosen = [
            index
            for begin, end in pairwise(ends)
            for index in _best_of_round(found[begin:end], sizes[begin:end], announced)
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
    DecryptionError
        If a sum is none.
    """
    found, state = _read_sums(state, vectors, num_clients)
    with charging(state):
        for each in found:
            if isinstance(each, DubheError):
                raise each
    return np.array(found), state


def _read_sums(
    state: SessionState, vectors: bytes, num_clients: NDArray[np.int64]
) -> tuple[list[_Sum], SessionState]:
    """Decrypt sums, each of which is charged to the budget, whatever comes out."""
    announced = state.parameters
    num_sums = state.num_sums + len(num_clients)
    if num_sums > min(announced.max_sums, (state.num_registered - 1) // 2):
        raise RefusedError("The sums that this node decrypts in an epoch are used up.")
    if num_clients.min() < announced.min_cohort:
        raise RefusedError(f"A sum over {num_clients.min()} clients is too few.")
    size = epoch_parameters(announced).layout.field_bytes(DISTRIBUTION)
    if len(vectors) != size * len(num_clients):
        raise RefusedError("The sums are not as many as announced.")
    found = [
        _read_sum(state, vectors[index * size : (index + 1) * size], number)
        for index, number in enumerate(num_clients.tolist())
    ]
    return found, replace(state, num_sums=num_sums)


def _read_sum(state: SessionState, vector: bytes, num_clients: int) -> _Sum:
    try:
        found = state.decrypt(DISTRIBUTION, vector, num_clients)
    except DecryptionError as error:
        return error
    if found[:-1].sum() != num_clients * FIXED_POINT_SCALE:
        return RefusedError("A sum does not cover the clients it is said to cover.")
    return found


def _best_of_round(
    found: Sequence[_Sum], num_clients: NDArray[np.int64], announced: JoinRequest
) -> list[int]:
    """Return the best try or groups among those that add up."""
    if not announced.group_size and len(set(num_clients.tolist())) > 1:
        raise RefusedError("The tries of a round cover different numbers of clients.")
    usable = {i: each for i, each in enumerate(found) if not isinstance(each, DubheError)}
    if not usable:
        raise next(each for each in found if isinstance(each, DubheError))
    indices = list(usable)
    best = best_selections(np.array(list(usable.values())), num_clients[indices], announced)
    return [indices[index] for index in best]


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
    """
    if not announced.group_size:
        return [best_scored_try(sums, announced.local_skew)]
    if announced.num_participants // announced.group_size > len(sums):
        raise RefusedError("There are fewer groups than are wanted.")
    wanted = group_sizes(announced.num_participants, announced.group_size)
    return [int(g) for g in best_groups(sums, num_clients, wanted, announced.local_skew)]


def _seal_or_fill(secret_key: SecretKey, recipient: bytes, context: SealingContext) -> bytes:
    """Seal the key; who sent an unusable public key gets what never opens, and drops out alone."""
    try:
        return seal(secret_key, recipient, context)
    except MalformedMessageError:
        return secrets.token_bytes(sealed_bytes(secret_key.public_key.bits))
