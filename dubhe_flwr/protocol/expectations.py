"""A node in the search for thresholds: it tells what it expects, and as agent names the best."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import best_candidate, participation_probability, search_contribution
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.agent import decrypted_sums
from dubhe_flwr.protocol.messages import ExpectReply, ExpectRequest, SearchReply, SearchRequest
from dubhe_flwr.protocol.parameters import EXPECTATIONS
from dubhe_flwr.protocol.policy import NodePolicy
from dubhe_flwr.protocol.reading import check_no_checker, only_digest, read_overall_registries
from dubhe_flwr.protocol.registrant import draw, spend_draws
from dubhe_flwr.protocol.session_state import SessionState, charging

__all__ = ["search", "tell_expectations"]


def tell_expectations(
    policy: NodePolicy, state: SessionState, request: ExpectRequest
) -> tuple[ExpectReply, SessionState]:
    """Tell what this node adds to the expected data of each candidate, or draw under each."""
    _check_searched(state)
    if state.expected:
        raise RefusedError("A node tells its expectations once in an epoch.")
    counts, state = read_overall_registries(state, request.overall_registry, request.num_registered)
    state = replace(state, expected=True)
    num_volunteers = state.parameters.num_volunteers(request.num_registered)
    if not request.num_tries:
        table = search_contribution(state.distribution, state.slots, counts, num_volunteers)
        return ExpectReply(state.encrypt(EXPECTATIONS, table.ravel()), b""), state
    state = spend_draws(state, len(counts) * request.num_tries)
    # Rounds begin at 1, so that the tries of the search are those of no round.
    draws = draw(policy, state, range(1), len(counts) * request.num_tries)
    probabilities = [
        participation_probability(overall, num_volunteers)[slot]
        for overall, slot in zip(counts, state.slots, strict=True)
    ]
    decisions = draws.ravel() < np.repeat(probabilities, request.num_tries)
    return ExpectReply(b"", np.packbits(decisions).tobytes()), state


def search(state: SessionState, request: SearchRequest) -> tuple[SearchReply, SessionState]:
    """Name the candidate under which the selected data is closest to uniform, on average."""
    check_no_checker(state)
    _check_searched(state)
    num_candidates = state.parameters.num_candidates
    if request.num_tries:
        # No more than a number is held before the budget is checked.
        sizes = np.broadcast_to(np.int64(request.num_clients), num_candidates * request.num_tries)
        sums, state = decrypted_sums(state, request.sums, sizes)
        shares = sums[:, :-1].reshape(num_candidates, request.num_tries, -1).sum(axis=1)
        table = np.column_stack([shares, shares.sum(axis=1)])
    else:
        table, state = _expectations(state, request)
    return SearchReply(best_candidate(table)), state


def _expectations(
    state: SessionState, request: SearchRequest
) -> tuple[NDArray[np.int64], SessionState]:
    """Decrypt the sum of what many clients expect; there is one in an epoch."""
    announced = state.parameters
    if request.num_clients < announced.min_cohort:
        raise RefusedError(f"Expectations of {request.num_clients} clients are too few.")
    digest = only_digest(
        state.expectations_digest, "sum of expectations", request.num_clients, request.sums
    )
    state = replace(state, expectations_digest=digest)
    with charging(state):
        sums = state.decrypt(EXPECTATIONS, request.sums, request.num_clients)
        table = sums.reshape(announced.num_candidates, -1)
        # Rounding shifts each share and each probability by at most half a unit.
        off = np.abs(table[:, :-1].sum(axis=1) - table[:, -1])
        if (table[:, -1] <= 0).any() or (off > table.shape[1] * request.num_clients).any():
            raise RefusedError("The expectations do not add up.")
    return table, state


def _check_searched(state: SessionState) -> None:
    if state.parameters.num_candidates == 1 or state.candidate != -1:
        raise RefusedError("The thresholds of this epoch are settled.")
