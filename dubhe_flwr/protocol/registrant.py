"""A node as registrant and volunteer: it joins, registers, tells its moments and draws."""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    dominating_category,
    fixed_point_distribution,
    moments,
    participation_probability,
    private_draws,
    registry,
    seeded_draws,
    with_square,
)
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he import PublicKey, RecipientKey, open_sealed
from dubhe_flwr.protocol.envelope import EPOCH_ID_BYTES, Envelope
from dubhe_flwr.protocol.messages import (
    JoinReply,
    JoinRequest,
    MomentsReply,
    MomentsRequest,
    ParticipateReply,
    ParticipateRequest,
    RegisterReply,
    RegisterRequest,
)
from dubhe_flwr.protocol.parameters import (
    DISTRIBUTION,
    MOMENTS,
    PROBABILITIES,
    REGISTRY,
    epoch_parameters,
    sealing_context,
)
from dubhe_flwr.protocol.policy import NodePolicy, is_willing, read_label_counts
from dubhe_flwr.protocol.session_state import REMEMBERED_EPOCHS, SessionState

__all__ = [
    "check_calibrated",
    "join",
    "participate",
    "read_overall_registry",
    "register",
    "tell_moments",
]


def join(
    policy: NodePolicy, past_epochs: bytes, header: Envelope, request: JoinRequest
) -> tuple[JoinReply, SessionState]:
    """Begin an epoch: read the label counts anew, find the category, make a key for delivery."""
    status, counts = read_label_counts(policy, request)
    recipient_key = RecipientKey.generate()
    state = SessionState(
        epoch=header.epoch,
        sequence=header.sequence,
        past_epochs=(past_epochs + header.epoch)[-REMEMBERED_EPOCHS * EPOCH_ID_BYTES :],
        parameters=request,
        recipient_key=recipient_key.to_bytes(),
    )
    if counts is not None:
        parameters = epoch_parameters(request)
        category = dominating_category(counts, parameters.codebook, parameters.thresholds)
        state = replace(
            state,
            distribution=tuple(fixed_point_distribution(counts).tolist()),
            slot=parameters.codebook.rank(category),
        )
    return JoinReply(int(status), policy.alias, recipient_key.public_bytes), state


def register(state: SessionState, request: RegisterRequest) -> tuple[RegisterReply, SessionState]:
    """Open the sealed key, and encrypt the registry and the label distribution with it."""
    # A second agent may be asked, but only before anything is known under the first one's key.
    if state.registry_digest or (state.secret_key and request.modulus == state.modulus):
        raise RefusedError("This node has registered in that epoch before.")
    parameters = epoch_parameters(state.parameters)
    layout, codebook = parameters.layout, parameters.codebook
    public_key = PublicKey.from_bytes(request.modulus, state.parameters.key_bits)
    secret_key = open_sealed(
        request.sealed_key,
        RecipientKey.from_bytes(state.recipient_key),
        sealing_context(state.epoch, request.agent_public_key, public_key, layout),
        public_key,
    )
    own_registry = registry(codebook.unrank(state.slot), codebook)
    reply = RegisterReply(
        registry=secret_key.encrypt(layout.pack(REGISTRY, own_registry)),
        distribution=secret_key.encrypt(layout.pack(DISTRIBUTION, with_square(state.distribution))),
    )
    return reply, replace(state, modulus=request.modulus, secret_key=secret_key.to_bytes())


def tell_moments(state: SessionState, request: MomentsRequest) -> tuple[MomentsReply, SessionState]:
    """Encrypt what this node adds to the sums of its category."""
    check_calibrated(state.parameters)
    counts, state = read_overall_registry(state, request.overall_registry, request.num_registered)
    codebook = epoch_parameters(state.parameters).codebook
    table = moments(state.distribution, state.slot, counts, codebook, state.parameters.min_cohort)
    return MomentsReply(state.encrypt(MOMENTS, table.ravel())), state


def participate(
    policy: NodePolicy, state: SessionState, request: ParticipateRequest
) -> tuple[ParticipateReply, SessionState]:
    """Draw whether to take part, for each round and try."""
    announced = state.parameters
    num_draws = state.num_draws + request.num_rounds * request.num_tries
    if num_draws > announced.max_draws:
        raise RefusedError("The draws of this epoch are used up.")
    state = _read_probability(state, request)
    rounds = range(request.first_round, request.first_round + request.num_rounds)
    if policy.seeded_draws and announced.seed != -1:
        draws = seeded_draws(
            announced.seed,
            policy.alias,
            request.first_round,
            request.num_rounds,
            request.num_tries,
        )
    else:
        draws = private_draws(request.num_rounds * request.num_tries)
    reply = ParticipateReply(
        decisions=np.packbits(draws < state.probability).tobytes(),
        unwilling=np.packbits([not is_willing(policy, r) for r in rounds]).tobytes(),
    )
    return reply, replace(state, num_draws=num_draws)


def check_calibrated(announced: JoinRequest) -> None:
    """Refuse what belongs to calibration in an epoch for which the node agreed to none."""
    if not announced.calibrated:
        raise RefusedError("The probabilities of this epoch are not calibrated.")


def read_overall_registry(
    state: SessionState, vector: bytes, num_registered: int
) -> tuple[NDArray[np.int64], SessionState]:
    """Decrypt and check ``R_A``; there is one in an epoch, since two would tell a difference."""
    digest = hashlib.sha256(num_registered.to_bytes(8, "big") + vector).digest()
    if state.registry_digest not in {b"", digest}:
        raise RefusedError("There is one overall registry in an epoch, and this is another.")
    if num_registered < state.parameters.min_cohort:
        raise RefusedError(f"A registry of {num_registered} clients is too few.")
    counts = state.decrypt(REGISTRY, vector, num_registered)
    if counts.sum() != num_registered or counts[state.slot] < 1:
        raise RefusedError("The overall registry is not the sum it is said to be.")
    return counts, replace(state, registry_digest=digest, num_registered=num_registered)


def _read_probability(state: SessionState, request: ParticipateRequest) -> SessionState:
    """Compute the probability of this epoch, once: by eq. 6, or as the agent calibrated it."""
    digest = hashlib.sha256(
        request.num_registered.to_bytes(8, "big")
        + len(request.probabilities).to_bytes(8, "big")
        + request.probabilities
        + request.overall_registry
    ).digest()
    if digest == state.probability_digest:
        return state
    if state.probability_digest:
        raise RefusedError("A node has one probability in an epoch, and this is another.")
    counts, state = read_overall_registry(state, request.overall_registry, request.num_registered)
    if request.probabilities:
        check_calibrated(state.parameters)
        calibrated = state.decrypt(PROBABILITIES, request.probabilities, 1)
        probability = int(calibrated[state.slot]) / FIXED_POINT_SCALE
    else:
        by_category = participation_probability(
            counts, state.parameters.num_volunteers(state.num_registered)
        )
        probability = float(by_category[state.slot])
    return replace(state, probability_digest=digest, probability=probability)
