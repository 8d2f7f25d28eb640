"""A node as registrant and volunteer: it joins, registers, tells its moments and draws."""

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
from dubhe_flwr.protocol.policy import NodePolicy, has_moved, is_willing, read_label_counts
from dubhe_flwr.protocol.reading import only_digest, read_candidate_registry
from dubhe_flwr.protocol.session_state import REMEMBERED_EPOCHS, SessionState
from dubhe_flwr.protocol.statements import check_bundle, join_statement, sign

__all__ = [
    "check_calibrated",
    "draw",
    "join",
    "participate",
    "register",
    "spend_draws",
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
        categories = [
            dominating_category(counts, parameters.codebook, thresholds)
            for thresholds in parameters.candidates
        ]
        state = replace(
            state,
            distribution=tuple(fixed_point_distribution(counts).tolist()),
            slots=tuple(parameters.codebook.rank(category) for category in categories),
        )
    public_key = recipient_key.public_bytes
    signature = sign(policy.pinned, join_statement(header.epoch, request, public_key))
    return JoinReply(int(status), policy.alias, public_key, signature), state


def register(
    policy: NodePolicy, state: SessionState, request: RegisterRequest
) -> tuple[RegisterReply, SessionState]:
    """Open the sealed key, and encrypt the registry and the label distribution with it."""
    # A second agent may be asked, but only before anything is known under the first one's key.
    known = state.registry_digest or state.blocks_digest
    if known or (state.secret_key and request.modulus == state.modulus):
        raise RefusedError("This node has registered in that epoch before.")
    if policy.pinned is not None:
        check_bundle(policy.pinned, state.epoch, state.parameters, request)
    parameters = epoch_parameters(state.parameters)
    layout, codebook = parameters.layout, parameters.codebook
    public_key = PublicKey.from_bytes(request.modulus, state.parameters.key_bits)
    secret_key = open_sealed(
        request.sealed_key,
        RecipientKey.from_bytes(state.recipient_key),
        sealing_context(state.epoch, request.agent_public_key, public_key, layout),
        public_key,
    )
    registries = [registry(codebook.unrank(slot), codebook) for slot in state.slots]
    reply = RegisterReply(
        registry=secret_key.encrypt(layout.pack(REGISTRY, np.concatenate(registries))),
        distribution=secret_key.encrypt(layout.pack(DISTRIBUTION, with_square(state.distribution))),
    )
    return reply, replace(state, modulus=request.modulus, secret_key=secret_key.to_bytes())


def tell_moments(state: SessionState, request: MomentsRequest) -> tuple[MomentsReply, SessionState]:
    """Encrypt what this node adds to the sums of its category."""
    check_calibrated(state.parameters)
    counts, state = read_candidate_registry(
        state, request.overall_registry, request.num_registered, request.candidate
    )
    codebook = epoch_parameters(state.parameters).codebook
    table = moments(state.distribution, state.slot, counts, codebook, state.parameters.min_cohort)
    return MomentsReply(state.encrypt(MOMENTS, table.ravel())), state


def participate(
    policy: NodePolicy, state: SessionState, request: ParticipateRequest
) -> tuple[ParticipateReply, SessionState]:
    """Draw whether to take part, for each round and try."""
    state = _read_probability(state, request)
    state = spend_draws(state, request.num_rounds * request.num_tries)
    rounds = range(request.first_round, request.first_round + request.num_rounds)
    draws = draw(policy, state, rounds, request.num_tries)
    says = [*(not is_willing(policy, r) for r in rounds), has_moved(policy, state.distribution)]
    reply = ParticipateReply(
        decisions=np.packbits(draws < state.probability).tobytes(),
        unwilling=np.packbits(says).tobytes(),
    )
    return reply, state


def check_calibrated(announced: JoinRequest) -> None:
    """Refuse what belongs to calibration in an epoch for which the node agreed to none."""
    if not announced.calibrated:
        raise RefusedError("The probabilities of this epoch are not calibrated.")


def spend_draws(state: SessionState, num_draws: int) -> SessionState:
    """Charge some draws to the budget of the epoch; refuse if it is spent."""
    num_draws = state.num_draws + state.parameters.draws_charged(num_draws, state.num_registered)
    if num_draws > state.parameters.max_draws:
        raise RefusedError("The draws of this epoch are used up.")
    return replace(state, num_draws=num_draws)


def draw(
    policy: NodePolicy, state: SessionState, rounds: range, num_tries: int
) -> NDArray[np.float64]:
    """Return uniform numbers, in the order of rounds and tries."""
    seed = state.parameters.seed
    if policy.seeded_draws and seed != -1:
        return seeded_draws(seed, policy.alias, rounds.start, len(rounds), num_tries)
    return private_draws(len(rounds) * num_tries)


def _read_probability(state: SessionState, request: ParticipateRequest) -> SessionState:
    """Compute the probability of this epoch, once: by eq. 6, or as the agent calibrated it."""
    digest = only_digest(
        state.probability_digest,
        "probability",
        request.num_registered,
        request.candidate,
        len(request.probabilities),
        request.probabilities,
        request.overall_registry,
    )
    if digest == state.probability_digest:
        return state
    counts, state = read_candidate_registry(
        state, request.overall_registry, request.num_registered, request.candidate
    )
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
