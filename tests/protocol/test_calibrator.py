"""Tests of a node as agent that calibrates: probabilities from sums that add up, or nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    encrypted,
    epoch_of,
    session_state,
)
from protocol.node import (
    COUNTS,
    NUM_CLIENTS,
    SCALE,
    SETTINGS,
    federation,
    next_request,
    refuses,
)

from dubhe_flwr.core import calibrated_probability
from dubhe_flwr.errors import RefusedError, StaleMessageError
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage
from dubhe_flwr.protocol.calibrator import _for_all_members
from dubhe_flwr.protocol.messages import JoinRequest

UNREADABLE = r"^calibrate failed: DecryptionError\.$"
NOT_COVERED = r"^The moments do not cover the clients they are said to cover\.$"
NOT_THE_SUM = r"^The overall registry is not the sum it is said to be\.$"
ANOTHER_REGISTRY = r"^There is one overall registry in an epoch, and this is another\.$"


def _added(table: NDArray[np.int64], changes: dict[Any, int]) -> NDArray[np.int64]:
    """Return the table with some entries changed."""
    for place, number in changes.items():
        table[place] += number
    return table


def _moved(table: NDArray[np.int64], largest: int, empty: int) -> NDArray[np.int64]:
    """Return a table with all clients in a category that has none of them."""
    del largest
    moved = np.zeros_like(table)
    moved[empty] = table.sum(axis=0)
    return moved


class TestCalibrate:
    """An agent solves for probabilities from one sum of moments that adds up."""

    def asked(self, **overrides: Any) -> tuple[Federation[CoordinatorState], int, Fields]:
        """Return a federation, the agent and what that is asked."""
        nodes = federation(participation="calibrated", **overrides)
        node_id, request = next_request(nodes, Stage.CALIBRATE)
        return nodes, node_id, request

    def test_probabilities_are_those_of_the_core(self) -> None:
        """In fixed point, for all categories; every node can decrypt them."""
        nodes, node_id, request = self.asked(coverage=0.3, floor=0.2)
        reply = nodes.handle(node_id, request)
        state = session_state(nodes, node_id)
        overall = decrypted(state, "registry", epoch_of(nodes).overall_registry)
        sums, vector = request["moments"], reply["probabilities"]
        assert isinstance(sums, bytes)
        assert isinstance(vector, bytes)
        table = decrypted(state, "moments", sums).reshape(11, 5)
        expected = calibrated_probability(overall, table, 4, coverage=0.3, floor=0.2)
        found = decrypted(session_state(nodes, nodes.ids[0]), "probabilities", vector)
        np.testing.assert_array_equal(found, np.rint(expected * SCALE))
        assert set(reply) == {"epoch", "stage", "sequence", "version", "probabilities"}

    def test_moments_stand_for_all_members(self) -> None:
        """A cohort of answers is scaled up; in place of fewer the nominal distribution stands."""
        announced = JoinRequest((1, 2, 4), (0.6, 0.3), 4, 512, 20, 3, 100, 100, 7)
        table = np.zeros((11, 5), dtype=np.int64)
        all_answered, a_cohort, fewer = 0, 2, 5
        table[all_answered] = np.array([2, 0, 0, 0, 2]) * SCALE
        table[a_cohort] = np.array([1, 0, 2, 0, 2]) * SCALE
        table[fewer] = np.array([1, 0, 0, 1, 2]) * SCALE
        members, counts = np.zeros((2, 11), dtype=np.int64)
        members[[all_answered, a_cohort, fewer]] = 2, 3, 2
        counts[[all_answered, a_cohort, fewer]] = 2, 6, 8
        scaled = _for_all_members(table, members, counts, announced) / SCALE
        assert scaled[all_answered].tolist() == [2, 0, 0, 0, 2]
        assert scaled[a_cohort].tolist() == [2, 0, 4, 0, 4]
        assert scaled[fewer].tolist() == [4, 0, 4, 0, 4]  # classes 0 and 2 dominate
        assert not np.delete(scaled, [all_answered, a_cohort, fewer], axis=0).any()

    @pytest.mark.parametrize("tries", [2, 40])
    def test_as_many_volunteer_as_groups_need(self, tries: int) -> None:
        """The probabilities add up to as many clients as groups are cut from."""
        nodes = dubhe(
            np.tile(COUNTS, (4, 1)),
            **SETTINGS
            | {"participation": "calibrated", "determination": "grouped"}
            | {"tries": tries, "max_clients": 40, "max_draws_per_epoch": 400},
        )
        nodes.play(1)
        found = [session_state(nodes, i).probability for i in nodes.ids]
        assert sum(found) == pytest.approx({2: 8, 40: 18}[tries], abs=1e-4)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"num-clients": 2}, r"^Moments of 2 clients are too few\.$"),
            ({"num-clients": 8}, NOT_COVERED),
            ({"num-clients": 9, "num-registered": 10}, ANOTHER_REGISTRY),
            ({"overall-registry": bytes(128)}, ANOTHER_REGISTRY),
            ({"moments": b""}, UNREADABLE),
            ({"moments": bytes(128 * 6)}, UNREADABLE),
        ],
    )
    def test_unfit_requests_are_refused(self, change: dict[str, Any], match: str) -> None:
        """Cohort, number of clients, registry and ciphertexts are checked."""
        nodes, node_id, request = self.asked()
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)
        nodes.handle(node_id, request)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"num-registered": 10}, NOT_THE_SUM),
            ({"overall-registry": lambda r, _own, _other: _added(r, {0: 1})}, NOT_THE_SUM),
            ({"overall-registry": lambda r, _own, _other: r * 0}, NOT_THE_SUM),
            # As many clients as registered, but the agent itself is not among them.
            (
                {
                    "overall-registry": lambda r, own, other: _added(
                        r, {other: r[own], own: -r[own]}
                    )
                },
                NOT_THE_SUM,
            ),
            # The agent is among them, but a category holds fewer than told their moments.
            (
                {
                    "overall-registry": lambda r, own, other: _added(
                        r, {other: -r[other], own: r[other]}
                    )
                },
                NOT_COVERED,
            ),
            ({"overall-registry": b""}, UNREADABLE),
            ({"overall-registry": bytes(128)}, UNREADABLE),
        ],
    )
    def test_an_agent_that_told_no_moments_checks_the_registry(
        self, change: dict[str, Any], match: str
    ) -> None:
        """It has read none before, and looks at what is in this one."""
        nodes, node_id, request = self.asked()
        state = replace(session_state(nodes, node_id), registry_digest=b"", num_registered=0)
        nodes.memories[node_id] = state.to_fields()
        vector = change.get("overall-registry")
        if callable(vector):
            true: Any = request["overall-registry"]
            counts = decrypted(state, "registry", true)
            other = next(s for s, n in enumerate(counts.tolist()) if n and s != state.slot)
            spoilt = vector(counts, state.slot, other)
            change = {"overall-registry": encrypted(state, "registry", spoilt)}
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)
        nodes.handle(node_id, request)
        assert session_state(nodes, node_id).num_registered == NUM_CLIENTS

    @pytest.mark.parametrize(
        "change",
        [
            lambda t, _u, _v: t * 0,
            lambda t, u, _v: _added(t, {(u, 0): 1}),
            lambda t, u, _v: _added(t, {(u, 0): SCALE}),
            lambda t, u, _v: _added(t, {(u, int(t[u, :-1].argmax())): -1}),
            lambda t, u, v: _added(
                t, {(u, int(t[u, :-1].argmax())): -SCALE // 2, (v, 0): SCALE // 2}
            ),
            lambda t, u, v: _added(t, {(u, int(t[u, :-1].argmax())): -1, (v, 0): 1}),
            _moved,
        ],
    )
    def test_moments_that_do_not_add_up_are_refused(self, change: Any) -> None:
        """Each category holds whole clients, as many as announced and no more than registered."""
        nodes, node_id, request = self.asked()
        state = session_state(nodes, node_id)
        vector = request["moments"]
        assert isinstance(vector, bytes)
        table = decrypted(state, "moments", vector).reshape(11, 5)
        largest = int(table[:, :-1].sum(axis=1).argmax())
        empty = int(table[:, :-1].sum(axis=1).argmin())
        spoilt = change(table.copy(), largest, empty)
        altered = {**request, "moments": encrypted(state, "moments", spoilt.ravel())}
        refuses(nodes, node_id, altered, RefusedError, NOT_COVERED)

    def test_a_second_sum_is_refused(self) -> None:
        """Two sums over different clients would tell their difference."""
        nodes, node_id, request = self.asked()
        nodes.handle(node_id, request)
        state = session_state(nodes, node_id)
        vector = request["moments"]
        assert isinstance(vector, bytes)
        again = {**request, "sequence": 50}
        same = encrypted(state, "moments", decrypted(state, "moments", vector))
        for change in ({"moments": same}, {"num-clients": 8}):
            refuses(nodes, node_id, {**again, **change}, RefusedError, "one sum of moments in an")
        nodes.handle(node_id, again)

    def test_a_refused_sum_is_the_only_one_too(self) -> None:
        """Else a server could ask about one sum after the other until one adds up."""
        nodes, node_id, request = self.asked()
        state = session_state(nodes, node_id)
        none = encrypted(state, "moments", np.zeros(55, dtype=np.int64))
        with pytest.raises(RefusedError, match=NOT_COVERED):
            nodes.handle(node_id, {**request, "moments": none})
        refuses(nodes, node_id, request, StaleMessageError, "answered before")
        later = {**request, "sequence": 50}
        refuses(nodes, node_id, later, RefusedError, "one sum of moments in an epoch")

    def test_not_in_an_epoch_without_calibration(self) -> None:
        """An agent decrypts no moments where none were announced."""
        nodes, node_id, request = self.asked()
        state = session_state(nodes, node_id)
        parameters = replace(state.parameters, calibrated=False)
        nodes.memories[node_id] = replace(state, parameters=parameters).to_fields()
        refuses(nodes, node_id, request, RefusedError, "probabilities of this epoch are not calib")

    def test_before_registration_there_is_nothing_to_decrypt(self) -> None:
        """A node without a key refuses."""
        nodes, node_id, request = self.asked()
        state = replace(session_state(nodes, node_id), modulus=b"", secret_key=b"")
        nodes.memories[node_id] = state.to_fields()
        refuses(nodes, node_id, request, RefusedError, "has not registered in that epoch")
