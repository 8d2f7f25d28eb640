"""Tests of how a node reads the overall registry: one sum, and one candidate, in an epoch."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import (
    Federation,
    decrypted,
    encrypted,
    epoch_of,
    session_state,
)
from protocol.node import COUNTS, NUM_CLIENTS, federation, next_request, refuses

from dubhe_flwr.core import overall_registry
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import CoordinatorState, SessionState, Stage
from dubhe_flwr.protocol.reading import read_candidate_registry, read_overall_registries

NUM_CANDIDATES = 9


@pytest.fixture(scope="module")
def registered() -> tuple[SessionState, bytes, Any]:
    """Return a node that has registered, the encrypted sum of all registries, and the sum."""
    nodes = federation(thresholds="search")
    nodes.until(Stage.EXPECT)
    epoch = epoch_of(nodes)
    expected = [
        overall_registry(COUNTS, epoch.parameters.codebook, candidate)[0]
        for candidate in epoch.parameters.candidates
    ]
    return session_state(nodes, nodes.ids[4]), epoch.overall_registry, np.array(expected)


def test_a_row_for_each_candidate(registered: tuple[SessionState, bytes, Any]) -> None:
    """Each is the registry of all clients under its thresholds, and the sum is remembered."""
    state, vector, expected = registered
    counts, read = read_overall_registries(state, vector, NUM_CLIENTS)
    np.testing.assert_array_equal(counts, expected)
    assert read.num_registered == NUM_CLIENTS
    assert len(read.registry_digest) == 32
    assert read.candidate == state.candidate == -1
    assert state.registry_digest == b""
    again, _ = read_overall_registries(read, vector, NUM_CLIENTS)
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("candidate", range(NUM_CANDIDATES))
def test_the_row_of_a_candidate(
    registered: tuple[SessionState, bytes, Any], candidate: int
) -> None:
    """The node's own slot is then that under this candidate."""
    state, vector, expected = registered
    counts, read = read_candidate_registry(state, vector, NUM_CLIENTS, candidate)
    np.testing.assert_array_equal(counts, expected[candidate])
    assert (read.candidate, read.slot) == (candidate, state.slots[candidate])


@pytest.mark.parametrize("candidate", [-1, NUM_CANDIDATES, 2**62, -(2**62)])
def test_there_are_no_other_candidates(
    registered: tuple[SessionState, bytes, Any], candidate: int
) -> None:
    """Nodes know those that were announced."""
    state, vector, _ = registered
    with pytest.raises(RefusedError, match="There is no candidate"):
        read_candidate_registry(state, vector, NUM_CLIENTS, candidate)


def test_one_candidate_holds(registered: tuple[SessionState, bytes, Any]) -> None:
    """Draws under two of them would tell where they differ."""
    state, vector, _ = registered
    _, read = read_candidate_registry(state, vector, NUM_CLIENTS, 3)
    with pytest.raises(RefusedError, match="One candidate holds in an epoch"):
        read_candidate_registry(read, vector, NUM_CLIENTS, 4)
    assert read_candidate_registry(read, vector, NUM_CLIENTS, 3)[1] == read


def test_one_sum_is_read(registered: tuple[SessionState, bytes, Any]) -> None:
    """Another ciphertext of the same sum is another, and so is another number of clients."""
    state, vector, expected = registered
    _, read = read_overall_registries(state, vector, NUM_CLIENTS)
    same = encrypted(state, "registry", expected.ravel())
    for other, number in ((same, NUM_CLIENTS), (vector, NUM_CLIENTS - 1)):
        with pytest.raises(RefusedError, match="one overall registry in an epoch"):
            read_overall_registries(read, other, number)


def moved(counts: Any, slots: tuple[int, ...], candidate: int) -> Any:
    """Return registries of the same totals, in one of which the node's slot is empty."""
    result = counts.copy()
    own = slots[candidate]
    result[candidate, own - 1] += result[candidate, own]
    result[candidate, own] = 0
    return result


@pytest.mark.parametrize("candidate", [0, 4, NUM_CANDIDATES - 1])
@pytest.mark.parametrize(
    "spoil",
    [
        moved,
        lambda counts, _s, c: counts + (np.arange(NUM_CANDIDATES) == c)[:, None],
        lambda counts, _s, c: counts * (np.arange(NUM_CANDIDATES) != c)[:, None],
    ],
    ids=["moved", "more", "empty"],
)
def test_each_row_has_to_add_up(
    registered: tuple[SessionState, bytes, Any], candidate: int, spoil: Any
) -> None:
    """Under every candidate the total is the number of clients, and the own slot is filled."""
    state, _, expected = registered
    spoilt = encrypted(state, "registry", spoil(expected, state.slots, candidate).ravel())
    with pytest.raises(RefusedError, match="not the sum it is said to be"):
        read_overall_registries(state, spoilt, NUM_CLIENTS)


def test_the_smallest_cohort(registered: tuple[SessionState, bytes, Any]) -> None:
    """Three clients are enough, two are not."""
    state, _, expected = registered
    counts = np.zeros_like(expected)
    counts[np.arange(NUM_CANDIDATES), state.slots] = 3
    three = encrypted(state, "registry", counts.ravel())
    np.testing.assert_array_equal(read_overall_registries(state, three, 3)[0], counts)
    with pytest.raises(RefusedError, match="A registry of 2 clients is too few"):
        read_overall_registries(state, three, 2)


STAGES = [Stage.MOMENTS, Stage.CALIBRATE, Stage.PARTICIPATE]


class TestRequests:
    """Every request that names a candidate is held to the first one."""

    def asked(self, stage: Stage) -> tuple[Federation[CoordinatorState], int, Any]:
        """Return a federation that searched, a node and what that is asked."""
        nodes = federation(thresholds="search", participation="calibrated")
        return nodes, *next_request(nodes, stage)

    @pytest.mark.parametrize("stage", STAGES)
    def test_a_candidate_out_of_range_is_refused(self, stage: Stage) -> None:
        """Below, above, and far out."""
        nodes, node_id, request = self.asked(stage)
        for candidate in (-1, NUM_CANDIDATES, 2**63 - 1):
            altered = {**request, "candidate": candidate}
            refuses(nodes, node_id, altered, RefusedError, "There is no candidate")
        nodes.handle(node_id, request)

    @pytest.mark.parametrize("stage", STAGES[1:])
    def test_a_second_candidate_is_refused(self, stage: Stage) -> None:
        """Whoever told moments under one draws and calibrates under no other."""
        nodes, node_id, request = self.asked(stage)
        other = {**request, "candidate": (request["candidate"] + 1) % NUM_CANDIDATES}
        refuses(nodes, node_id, other, RefusedError, "One candidate holds in an epoch")
        nodes.handle(node_id, request)

    def test_nor_after_the_draw(self) -> None:
        """A node has one probability in an epoch."""
        nodes = federation(thresholds="search")
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        nodes.handle(node_id, request)
        candidate: Any = request["candidate"]
        other = {**request, "candidate": (candidate + 1) % NUM_CANDIDATES, "sequence": 50}
        refuses(nodes, node_id, other, RefusedError, "one probability in an epoch")

    def test_the_registry_of_the_search_is_that_of_the_rounds(self) -> None:
        """Another one is refused wherever it comes."""
        nodes, node_id, request = self.asked(Stage.MOMENTS)
        state = session_state(nodes, node_id)
        overall = decrypted(state, "registry", request["overall-registry"])
        same = encrypted(state, "registry", overall)
        altered = {**request, "overall-registry": same}
        refuses(nodes, node_id, altered, RefusedError, "one overall registry in an epoch")
