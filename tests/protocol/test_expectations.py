"""Tests of a node in the search for thresholds: what it tells, finds as agent, and refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    encrypted,
    epoch_of,
    secret_key,
    session_state,
    skewed_counts,
)
from protocol.node import (
    COUNTS,
    SCALE,
    SETTINGS,
    federation,
    next_request,
    refuses,
    seal,
    secret_prime,
)

from dubhe_flwr.core import (
    best_candidate,
    fixed_point_distribution,
    overall_registry,
    participation_probability,
    search_contribution,
    seeded_draws,
)
from dubhe_flwr.errors import RefusedError, StaleMessageError
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage
from dubhe_flwr.protocol.messages import ExpectRequest, SearchRequest

NUM_OF_TRIES = 20
OF_TRIES: dict[str, Any] = SETTINGS | {
    "thresholds": "search-tries",
    "reference_set": (1, 4),
    "max_draws_per_epoch": 52,
}
"""Three candidates; twenty clients leave an agent nine sums, three tries of each."""


def searching() -> Federation[CoordinatorState]:
    """Return nine nodes and a server that searches by expectations, among nine candidates."""
    return federation(thresholds="search")


def by_tries(**overrides: Any) -> Federation[CoordinatorState]:
    """Return twenty nodes and a server that searches by tries."""
    return dubhe(skewed_counts(NUM_OF_TRIES), **OF_TRIES | overrides)


def registries(nodes: Federation[CoordinatorState], counts: Any) -> list[Any]:
    """Return ``R_A`` and the slots of all clients, under each candidate."""
    parameters = epoch_of(nodes).parameters
    return [overall_registry(counts, parameters.codebook, c) for c in parameters.candidates]


class TestExpect:
    """A node tells P p_l and P under each candidate, or draws under each."""

    def test_expectations_are_those_of_the_core(self) -> None:
        """One row for each candidate, under the epoch's key."""
        nodes = searching()
        nodes.until(Stage.SEARCH)
        registered = registries(nodes, COUNTS)
        overall = [counts for counts, _ in registered]
        replies = {e.node_id: e.reply for e in nodes.exchanges if e.stage == Stage.EXPECT}
        for row, node_id in enumerate(nodes.ids):
            reply: Any = replies[node_id]
            state = session_state(nodes, node_id)
            told = decrypted(state, "expectations", reply["expectations"]).reshape(9, 5)
            own, slots = fixed_point_distribution(COUNTS[row]), [s[row] for _, s in registered]
            np.testing.assert_array_equal(told, search_contribution(own, slots, overall, 4))
            assert reply["decisions"] == b""
            assert state.slots == tuple(slots)
            assert (state.expected, state.candidate, state.num_draws) == (True, -1, 0)

    @pytest.mark.parametrize(
        ("overrides", "volunteers", "charged"),
        [
            ({}, 4, 9),
            ({"determination": "grouped", "group_size": 4, "max_draws_per_epoch": 100}, 10, 27),
        ],
    )
    def test_tries_are_draws_below_the_probability(
        self, overrides: Any, volunteers: int, charged: int
    ) -> None:
        """One bit for each candidate and try; those of no round, so that no round repeats them."""
        nodes = by_tries(**overrides)
        nodes.until(Stage.SEARCH)
        replies = {e.node_id: e.reply for e in nodes.exchanges if e.stage == Stage.EXPECT}
        probabilities = [
            participation_probability(overall, volunteers)[slots]
            for overall, slots in registries(nodes, skewed_counts(NUM_OF_TRIES))
        ]
        for row, node_id in enumerate(nodes.ids):
            draws = seeded_draws(7, str(row), 0, 1, 9).reshape(3, 3)
            expected = draws < np.array([p[row] for p in probabilities])[:, None]
            reply: Any = replies[node_id]
            assert reply["decisions"] == np.packbits(expected.ravel()).tobytes()
            assert reply["expectations"] == b""
            assert session_state(nodes, node_id).num_draws == charged

    def test_draws_are_private_unless_both_sides_say_otherwise(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In the search as in the rounds."""
        monkeypatch.setattr("dubhe_flwr.protocol.registrant.private_draws", np.zeros)
        nodes = by_tries(seed=None)
        nodes.until(Stage.SEARCH)
        replies: list[Any] = [e.reply for e in nodes.exchanges if e.stage == Stage.EXPECT]
        assert {reply["decisions"] for reply in replies} == {b"\xff\x80"}

    def test_once_in_an_epoch(self) -> None:
        """Two answers would tell a probability twice, under two obfuscations."""
        nodes = searching()
        node_id, request = next_request(nodes, Stage.EXPECT)
        nodes.handle(node_id, request)
        refuses(nodes, node_id, request, StaleMessageError, "answered before")
        again = {**request, "sequence": 50}
        refuses(nodes, node_id, again, RefusedError, "tells its expectations once")

    @pytest.mark.parametrize("num_tries", [0, 1])
    def test_not_where_thresholds_are_given(self, num_tries: int) -> None:
        """With one candidate there is nothing to tell."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        epoch = epoch_of(nodes)
        told = ExpectRequest(epoch.overall_registry, 9, num_tries)
        asked = seal(epoch.identity, Stage.EXPECT, 50, told)
        refuses(nodes, node_id, asked, RefusedError, "thresholds of this epoch are settled")
        nodes.handle(node_id, request)

    def test_not_after_the_choice(self) -> None:
        """A node that knows which candidate holds tells and searches no more."""
        nodes = searching()
        batch = nodes.until(Stage.EXPECT)
        late = nodes.ids[2]
        asked = dict(batch.fields())[late]
        nodes.alter_request = lambda stage, node_id, request: (
            None if (stage, node_id) == (Stage.EXPECT, late) else request
        )
        outcome: Any = nodes.step(nodes.deliver(batch))
        search = dict(outcome.fields())
        while hasattr(outcome, "header"):
            outcome = nodes.step(nodes.deliver(outcome))
        altered = {**asked, "sequence": 50}
        refuses(nodes, late, altered, RefusedError, "thresholds of this epoch are settled")
        (request,) = search.values()
        altered = {**request, "sequence": 50}
        refuses(nodes, late, altered, RefusedError, "thresholds of this epoch are settled")

    def test_who_missed_it_takes_part(self) -> None:
        """The registry is read when it comes, with the candidate that holds."""
        nodes = searching()
        late = nodes.ids[2]
        nodes.alter_request = lambda stage, node_id, request: (
            None if (stage, node_id) == (Stage.EXPECT, late) else request
        )
        plan = nodes.play(1)
        state = session_state(nodes, late)
        assert (state.expected, state.candidate) == (False, epoch_of(nodes).candidate)
        overall, slots = overall_registry(
            COUNTS, epoch_of(nodes).parameters.codebook, plan.thresholds
        )
        assert state.probability == participation_probability(overall, 4)[slots[2]]
        assert nodes.errors == []

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"num-registered": 2}, "A registry of 2 clients is too few"),
            ({"num-registered": 8}, "DecryptionError|not the sum it is said to be"),
            ({"num-registered": 10}, "not the sum it is said to be"),
            ({"overall-registry": bytes(64)}, "^expect failed: DecryptionError.$"),
            ({"overall-registry": b""}, "^expect failed: DecryptionError.$"),
            ({"num-tries": 6}, "The draws of this epoch are used up"),
            ({"num-tries": 2**20}, "The draws of this epoch are used up"),
        ],
    )
    def test_unfit_requests_are_refused(self, change: dict[str, Any], match: str) -> None:
        """Registry and budget are checked; five tries of nine candidates are within 48 draws."""
        nodes = searching()
        node_id, request = next_request(nodes, Stage.EXPECT)
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)
        nodes.handle(node_id, {**request, "num-tries": 5})
        assert session_state(nodes, node_id).num_draws == 45

    def test_draws_of_the_search_and_of_rounds_share_a_budget(self) -> None:
        """Nine of 52 are spent before the first round."""
        nodes = by_tries()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        over = {**request, "num-tries": 1, "num-rounds": 44}
        refuses(nodes, node_id, over, RefusedError, "The draws of this epoch are used up")
        nodes.handle(node_id, {**over, "num-rounds": 43})

    def test_before_registration_there_is_nothing_to_tell(self) -> None:
        """A node without a key refuses."""
        nodes = searching()
        node_id, request = next_request(nodes, Stage.EXPECT)
        state = replace(session_state(nodes, node_id), modulus=b"", secret_key=b"")
        nodes.memories[node_id] = state.to_fields()
        refuses(nodes, node_id, request, RefusedError, "has not registered in that epoch")


class TestSearch:
    """An agent names the best candidate, from one sum over many clients or few tries."""

    def asked(self) -> tuple[Federation[CoordinatorState], int, Fields]:
        """Return a federation, the agent and what it is asked."""
        nodes = searching()
        node_id, request = next_request(nodes, Stage.SEARCH)
        return nodes, node_id, request

    def table(self, nodes: Federation[CoordinatorState], node_id: int, request: Any) -> Any:
        """Return what the agent decrypts."""
        state = session_state(nodes, node_id)
        return decrypted(state, "expectations", request["sums"]).reshape(9, 5)

    def with_table(
        self, nodes: Federation[CoordinatorState], node_id: int, request: Fields, table: Any
    ) -> Fields:
        """Return the request with other expectations."""
        state = session_state(nodes, node_id)
        return {**request, "sums": encrypted(state, "expectations", np.ravel(table))}

    def test_the_answer_is_an_index(self) -> None:
        """Of the least distance, and nothing else travels."""
        nodes, node_id, request = self.asked()
        table = self.table(nodes, node_id, request)
        reply = nodes.handle(node_id, request)
        assert reply["candidate"] == best_candidate(table)
        assert set(reply) == {"epoch", "stage", "sequence", "version", "candidate"}
        assert request["num-clients"] == 8

    @pytest.mark.parametrize("candidate", [0, 5, 8])
    def test_the_most_uniform_one_is_named(self, candidate: int) -> None:
        """Whichever it is."""
        nodes, node_id, request = self.asked()
        table = np.tile([SCALE, 0, 0, 0, SCALE], (9, 1))
        table[candidate] = [SCALE // 4] * 4 + [SCALE]
        altered = self.with_table(nodes, node_id, request, table)
        assert nodes.handle(node_id, altered)["candidate"] == candidate

    def test_tries_are_averaged(self) -> None:
        """The candidate is the best by all of its tries together."""
        nodes = by_tries()
        node_id, request = next_request(nodes, Stage.SEARCH)
        state = session_state(nodes, node_id)
        sums: Any = request["sums"]
        size = len(sums) // 9
        tries = np.array(
            [decrypted(state, "distribution", sums[k * size : (k + 1) * size]) for k in range(9)]
        )
        shares = tries[:, :4].reshape(3, 3, 4).sum(axis=1)
        expected = np.abs(shares / shares.sum(axis=1, keepdims=True) - 0.25).sum(axis=1).argmin()
        assert nodes.handle(node_id, request)["candidate"] == expected
        assert session_state(nodes, node_id).num_sums == 9

    @pytest.mark.parametrize("frequent", range(4))
    def test_every_class_counts(self, frequent: int) -> None:
        """Tries of which one class is too frequent lose, whichever it is."""
        nodes = by_tries()
        node_id, request = next_request(nodes, Stage.SEARCH)
        state = session_state(nodes, node_id)
        even, skewed = [SCALE] * 5, [SCALE // 2] * 4 + [SCALE]
        skewed[frequent] = 4 * SCALE - 3 * (SCALE // 2)
        rows = [skewed] * 3 + [even] * 3 + [skewed] * 3
        sums = b"".join(encrypted(state, "distribution", row) for row in rows)
        assert nodes.handle(node_id, {**request, "sums": sums})["candidate"] == 1

    def test_one_sum_in_an_epoch(self) -> None:
        """Two sums of expectations would tell their difference."""
        nodes, node_id, request = self.asked()
        table = self.table(nodes, node_id, request)
        nodes.handle(node_id, request)
        refuses(nodes, node_id, request, StaleMessageError, "answered before")
        later = {**request, "sequence": 50}
        other = self.with_table(nodes, node_id, later, table)
        refuses(nodes, node_id, other, RefusedError, "one sum of expectations in an epoch")
        fewer = {**later, "num-clients": 7}
        refuses(nodes, node_id, fewer, RefusedError, "one sum of expectations in an epoch")
        nodes.handle(node_id, later)

    def test_a_refused_sum_is_the_only_one_too(self) -> None:
        """Else a server could ask about one sum after the other until one adds up."""
        nodes, node_id, request = self.asked()
        none = self.with_table(nodes, node_id, request, self.table(nodes, node_id, request) * 0)
        with pytest.raises(RefusedError, match="do not add up"):
            nodes.handle(node_id, none)
        later = {**request, "sequence": 50}
        refuses(nodes, node_id, later, RefusedError, "one sum of expectations in an epoch")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (lambda t: t + np.eye(9, 5, dtype=np.int64) * 41, "do not add up"),
            (lambda t: t - np.array([0, 0, 0, 0, 41]), "do not add up"),
            (lambda t: np.where(np.arange(9)[:, None] == 4, 0, t), "do not add up"),
            (lambda t: t * 0, "do not add up"),
            (lambda t: np.full_like(t, 2**25 - 1), "^search failed: DecryptionError.$"),
            (lambda t: np.append(t, 1), "^search failed: DecryptionError.$"),
        ],
    )
    def test_expectations_that_do_not_add_up_are_refused(self, change: Any, match: str) -> None:
        """P p_l sums up to P, but for the rounding of eight clients, and someone takes part."""
        nodes, node_id, request = self.asked()
        table = np.tile([SCALE // 4] * 4 + [SCALE], (9, 1))
        nodes_table = self.with_table(nodes, node_id, request, change(table))
        refuses(nodes, node_id, nodes_table, RefusedError, match)
        rounded = self.with_table(nodes, node_id, request, table + np.array([0, 0, 0, 0, 40]))
        nodes.handle(node_id, rounded)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"num-clients": 2}, "Expectations of 2 clients are too few"),
            ({"num-clients": 2**62}, "^search failed: SettingsError.$"),
            ({"sums": b""}, "^search failed: DecryptionError.$"),
            ({"sums": bytes(64)}, "^search failed: DecryptionError.$"),
            ({"num-tries": 1}, "sums that this node decrypts in an epoch are used up"),
            ({"num-tries": 2**20}, "sums that this node decrypts in an epoch are used up"),
        ],
    )
    def test_unfit_requests_are_refused(self, change: dict[str, Any], match: str) -> None:
        """Cohort, ciphertexts and the budget of sums are checked."""
        nodes, node_id, request = self.asked()
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)
        nodes.handle(node_id, request)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"num-clients": 2}, "A sum over 2 clients is too few"),
            ({"num-clients": 5}, "DecryptionError|not cover the clients it is said to cover"),
            ({"num-tries": 2}, "not as many as announced"),
            ({"num-tries": 4}, "are used up"),
            ({"num-tries": 0}, "^search failed: DecryptionError.$"),
            ({"sums": b""}, "not as many as announced"),
        ],
    )
    def test_unfit_tries_are_refused(self, change: dict[str, Any], match: str) -> None:
        """As those of a round are."""
        nodes = by_tries()
        node_id, request = next_request(nodes, Stage.SEARCH)
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)
        nodes.handle(node_id, request)
        again = {**request, "sequence": 50}
        refuses(nodes, node_id, again, RefusedError, "are used up")

    def test_multiples_of_a_prime_are_refused(self) -> None:
        """What is no unit gives no plaintext."""
        nodes, node_id, request = self.asked()
        key = secret_key(session_state(nodes, node_id))
        sums: Any = request["sums"]
        altered = {**request, "sums": secret_prime(key).to_bytes(len(sums), "big")}
        refuses(nodes, node_id, altered, RefusedError, "^search failed: DecryptionError.$")

    def test_not_where_thresholds_are_given(self) -> None:
        """With one candidate there is nothing to find."""
        nodes = federation()
        node_id, _ = next_request(nodes, Stage.PARTICIPATE)
        body = SearchRequest(epoch_of(nodes).overall_registry, 0, 9)
        asked = seal(epoch_of(nodes).identity, Stage.SEARCH, 50, body)
        refuses(nodes, node_id, asked, RefusedError, "thresholds of this epoch are settled")
