"""Tests of how a node reads sums over all nodes: each one once, and charged before it is seen."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    decrypted,
    encrypted,
    epoch_of,
    joined,
    registered,
    secret_key,
)
from protocol.node import (
    COUNTS,
    NUM_CLIENTS,
    SCALE,
    Exchanges,
    federation,
    next_request,
    refuses,
    seal,
    secret_prime,
)

from dubhe_flwr.core import (
    Codebook,
    best_candidate,
    fixed_point_distribution,
    overall_registry,
    participation_probability,
    search_contribution,
)
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he import generate_secret_key
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage
from dubhe_flwr.protocol.wire.messages import SettleRequest
from dubhe_flwr.protocol.wire.terms import REGISTRATION, SETTLEMENT
from dubhe_flwr.rules import Paper

IS_ANOTHER = r"^The sum is not what it is said to be\.$"
Nodes = Federation[CoordinatorState]


def asked(exchange: int = 0) -> tuple[Nodes, int, Fields]:
    """Return nodes that search for thresholds, one of them, and what it is asked in an exchange."""
    nodes = federation(thresholds="search")
    batch: Any = nodes.until(Stage.SETTLE)
    for _ in range(exchange):
        batch = nodes.step(nodes.deliver(batch))
    node_id, request = next(iter(batch.fields()))
    return nodes, node_id, request


def with_slots(nodes: Nodes, node_id: int, request: Fields, slots: Any) -> Fields:
    """Return the request with another sum."""
    field = SETTLEMENT if request["exchange"] else REGISTRATION
    return {**request, "sums": encrypted(joined(nodes, node_id), field, np.ravel(slots))}


def slots_of(nodes: Nodes, node_id: int, request: Any) -> NDArray[np.int64]:
    """Return what the sum of a request holds."""
    field = SETTLEMENT if request["exchange"] else REGISTRATION
    return decrypted(joined(nodes, node_id), field, request["sums"])


SPOILT: dict[str, Callable[[Any, Any, int], Any]] = {
    "zero": lambda vector, _key, _p: bytes(len(vector)),
    "n": lambda vector, key, _p: key.n.to_bytes(len(vector), "big"),
    "p": lambda vector, _key, p: p.to_bytes(len(vector), "big"),
    "n squared": lambda vector, key, _p: key.n_square.to_bytes(len(vector), "big"),
    "too large": lambda vector, _key, _p: b"\xff" * len(vector),
    "a byte less": lambda vector, _key, _p: vector[:-1],
    "twice as long": lambda vector, _key, _p: vector * 2,
    "nothing": lambda _vector, _key, _p: b"",
    "of another key": lambda vector, _k, _p: generate_secret_key(512).encrypt([1])[: len(vector)],
}


class TestChargedFirst:
    """A sum counts as read before it is looked at, and all refusals of it sound the same."""

    @pytest.mark.parametrize("exchange", [0, 1])
    @pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
    def test_what_is_not_a_ciphertext_is_refused(
        self, spoil: Callable[[Any, Any, int], Any], exchange: int
    ) -> None:
        """Zero, multiples of the primes, foreign ciphertexts and wrong sizes give no plaintext."""
        nodes, node_id, request = asked(exchange)
        key = secret_key(joined(nodes, node_id)).public_key
        spoilt = spoil(request["sums"], key, secret_prime(nodes, node_id))
        self.check(nodes, node_id, request, {**request, "sums": spoilt})

    @pytest.mark.parametrize(
        ("change", "number"),
        [
            (lambda r: r, 8),
            (lambda r: r, 10),
            (lambda r: r, 20),
            (lambda r: r * 2, 9),
            (lambda r: r * 0, 9),
            (lambda r: np.where(np.arange(len(r)) < 88, r, 0), 9),
            (lambda r: np.full_like(r, 31), 9),
            (lambda r: np.append(r, np.ones_like(r)), 9),
        ],
    )
    def test_a_registry_that_does_not_add_up_is_refused(self, change: Any, number: int) -> None:
        """Under each candidate the total is the number of clients."""
        nodes, node_id, request = asked()
        spoilt = with_slots(nodes, node_id, request, change(slots_of(nodes, node_id, request)))
        self.check(nodes, node_id, request, {**spoilt, "num-clients": number})

    @pytest.mark.parametrize(
        "change",
        [
            lambda t: t + np.eye(9, 5, dtype=np.int64) * 46,
            lambda t: t - np.array([0, 0, 0, 0, 46]),
            lambda t: np.where(np.arange(9)[:, None] == 4, 0, t),
            lambda t: t * 0,
            lambda t: np.full_like(t, 2**25 - 1),
        ],
    )
    def test_expectations_that_do_not_add_up_are_refused(self, change: Any) -> None:
        """P p_l sums up to P, but for the rounding of nine clients, and someone takes part."""
        nodes, node_id, request = asked(1)
        table = np.tile([SCALE // 4] * 4 + [SCALE], (9, 1))
        kept = nodes.memories[node_id]
        rounded = table + np.array([0, 0, 0, 0, 45])
        nodes.handle(node_id, with_slots(nodes, node_id, request, rounded))
        nodes.memories[node_id] = kept
        self.check(nodes, node_id, request, with_slots(nodes, node_id, request, change(table)))

    @staticmethod
    def check(nodes: Nodes, node_id: int, honest: Fields, spoilt: Fields) -> None:
        """Check the sentence, and that the node goes on with nothing in this epoch."""
        refuses(nodes, node_id, spoilt, RefusedError, IS_ANOTHER)
        with pytest.raises(RefusedError):
            nodes.handle(node_id, spoilt)
        reading = registered(nodes, node_id).reading
        assert reading is not None
        assert (reading.is_refused, reading.probability) == (True, 0.0)
        draws = {"stage": "participate", "first-round": 1, "num-rounds": 1, "num-tries": 1}
        for request, match in ((honest, "this is another"), (spoilt, "A sum of this epoch was")):
            for later in (request, request | draws):
                refuses(nodes, node_id, {**later, "sequence": 50}, RefusedError, match)

    def test_a_draw_from_a_sum_that_does_not_add_up(self) -> None:
        """Where the sum comes with the first draw, it is the same."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        self.check(nodes, node_id, request, {**request, "num-clients": 10})

    @pytest.mark.parametrize("number", [2, 21, 2**62])
    def test_a_number_of_clients_that_nodes_never_accept_costs_nothing(self, number: int) -> None:
        """Nothing is decrypted for it."""
        nodes, node_id, request = asked()
        refuses(nodes, node_id, {**request, "num-clients": number}, RefusedError, "too few or too")
        nodes.handle(node_id, request)

    def test_no_exchange_is_over_more_clients_than_the_first(self) -> None:
        """Nobody can register after the others."""
        nodes, node_id, request = asked(1)
        refuses(nodes, node_id, {**request, "num-clients": 10}, RefusedError, "too few or too many")


class TestOneSum:
    """There is one sum of each exchange, and one probability in an epoch."""

    @pytest.mark.parametrize("exchange", [0, 1])
    def test_a_second_sum_is_refused(self, exchange: int) -> None:
        """Another ciphertext of the same sum is another, and so is another number of clients."""
        nodes, node_id, request = asked(exchange)
        slots = slots_of(nodes, node_id, request)
        nodes.handle(node_id, request)
        later = {**request, "sequence": 50}
        same = with_slots(nodes, node_id, later, slots)
        for altered in (same, {**later, "num-clients": 8}):
            refuses(nodes, node_id, altered, RefusedError, "and this is another")
        refuses(nodes, node_id, later, RefusedError, "answered that exchange before")

    def test_an_exchange_that_was_missed_is_not_made_up(self) -> None:
        """A node that was not given a sum takes no later one."""
        nodes, node_id, request = asked()
        later = {**request, "exchange": 1}
        refuses(nodes, node_id, later, RefusedError, "A sum before this one did not reach")

    def test_no_sum_after_the_rule_is_settled(self) -> None:
        """A server could choose one that tells more."""
        nodes, node_id, request = asked(1)
        nodes.handle(node_id, request)
        forged = with_slots(nodes, node_id, request, np.tile([9, 0, 0, 0, 0], (9, 1)))
        forged |= {"exchange": 2, "sequence": 50}
        refuses(nodes, node_id, forged, RefusedError, "settled with fewer sums")

    def test_no_sum_after_a_draw(self) -> None:
        """Draws by two probabilities would tell both."""
        nodes = federation(thresholds="search")
        batch = nodes.until(Stage.SETTLE)
        replies = nodes.deliver(batch)
        node_id, request = next(iter(batch.fields()))
        draws = {"stage": "participate", "first-round": 1, "num-rounds": 1, "num-tries": 1}
        nodes.handle(node_id, {**request, **draws, "sequence": 50})
        following: Any = nodes.step(replies)
        later = {**dict(following.fields())[node_id], "sequence": 60}
        refuses(nodes, node_id, later, RefusedError, "settled with fewer sums")

    def test_no_more_exchanges_than_the_rule_has(self) -> None:
        """One that is settled by the registrations takes no other sum."""
        nodes = federation()
        nodes.play(1)
        told = SettleRequest(epoch_of(nodes).last_sum.vector, 9, 1)
        forged = seal(epoch_of(nodes).identity, Stage.SETTLE, 60, told)
        refuses(nodes, nodes.ids[0], forged, RefusedError, "settled with fewer sums")


class TestOwnLabels:
    """Nothing that a node refuses depends on its own labels."""

    def test_an_empty_own_slot_draws_like_any_other(self) -> None:
        """V / N; a refusal would tell whose category is missing."""
        nodes = federation()
        batch = nodes.until(Stage.PARTICIPATE)
        slots = overall_registry(COUNTS, Codebook((1, 2, 4)), {1: 0.6, 2: 0.3})[1]
        for row, (node_id, request) in enumerate(batch.fields()):
            overall = slots_of(nodes, node_id, request)
            overall[(slots[row] + 1) % len(overall)] += overall[slots[row]]
            overall[slots[row]] = 0
            reply: Any = nodes.handle(node_id, with_slots(nodes, node_id, request, overall))
            reading = registered(nodes, node_id).reading
            assert reading is not None
            assert (reading.is_refused, reading.probability) == (False, 4 / 9)
            assert len(reply["decisions"]) == 1

    def test_a_sum_over_the_smallest_cohort_is_read(self) -> None:
        """Three clients are enough; of fewer than V volunteers each one takes part."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        slots = 3 * joined(nodes, node_id).terms.rule.contribution(COUNTS[0])
        nodes.handle(node_id, with_slots(nodes, node_id, request, slots) | {"num-clients": 3})
        reading = registered(nodes, node_id).reading
        assert reading is not None
        assert (reading.probability, reading.num_registered) == (1.0, 3)


class TestSearch:
    """Every node tells what it adds under each candidate, and finds the best one."""

    def test_contributions_are_those_of_the_core(self) -> None:
        """One row for each candidate, under the epoch's key; until then the paper's holds."""
        nodes, *_ = asked(1)
        rule = Paper((1, 2, 4), "search")
        found = [overall_registry(COUNTS, rule.codebook, sigma) for sigma in rule.candidates]
        overall = [counts for counts, _ in found]
        replies: Any = {e.node_id: e.reply for e in nodes.exchanges if e.stage == Stage.SETTLE}
        for row, node_id in enumerate(nodes.ids):
            own, slots = joined(nodes, node_id), [slots[row] for _, slots in found]
            told = decrypted(own, SETTLEMENT, replies[node_id]["contribution"]).reshape(9, 5)
            expected = search_contribution(fixed_point_distribution(COUNTS[row]), slots, overall, 4)
            np.testing.assert_array_equal(told, expected)
            reading = registered(nodes, node_id).reading
            assert reading is not None
            probabilities = [
                participation_probability(r, 4)[s] for r, s in zip(overall, slots, strict=True)
            ]
            assert reading.memory == tuple(probabilities)
            assert reading.probability == probabilities[4]

    def test_every_node_finds_the_same(self) -> None:
        """Of the least distance, told as finding; nobody's word is taken."""
        nodes, node_id, request = asked(1)
        candidates = Paper((1, 2, 4), "search").candidates
        best = best_candidate(slots_of(nodes, node_id, request).reshape(9, 5))
        plan = nodes.play(1)
        replies: Any = [e.reply for e in nodes.exchanges if e.stage == Stage.SETTLE]
        findings = {reply["finding"] for reply in replies[-NUM_CLIENTS:]}
        assert findings == {np.array([*candidates[best].values()], ">f8").tobytes()}
        assert plan.finding == tuple(candidates[best].values())

    @pytest.mark.parametrize("candidate", [0, 5, 8])
    def test_the_most_uniform_one_is_found(self, candidate: int) -> None:
        """Whichever it is, with the probability that the node has under it."""
        nodes, node_id, request = asked(1)
        before = registered(nodes, node_id).reading
        table = np.tile([SCALE, 0, 0, 0, SCALE], (9, 1))
        table[candidate] = [SCALE // 4] * 4 + [SCALE]
        reply = nodes.handle(node_id, with_slots(nodes, node_id, request, table))
        sigma = Paper((1, 2, 4), "search").candidates[candidate]
        assert reply["finding"] == np.array([*sigma.values()], ">f8").tobytes()
        assert "contribution" not in reply
        after = registered(nodes, node_id).reading
        assert before is not None
        assert after is not None
        assert before.memory is not None
        assert (after.probability, after.memory) == (before.memory[candidate], None)

    @pytest.mark.parametrize("exchange", [0, 1])
    def test_who_missed_an_exchange_is_in_no_later_one(self, exchange: int) -> None:
        """Its part is missing from the sum, so nobody asks it any more in this epoch."""
        nodes = federation(thresholds="search")
        late = nodes.ids[2]
        nodes.alter_request = lambda _stage, node_id, request: (
            None if (node_id, request.get("exchange")) == (late, exchange) else request
        )
        nodes.play(1)
        nodes.play(2)
        later = [e.request for e in nodes.exchanges if e.node_id == late][2:]
        assert [request["exchange"] for request in later] == list(range(exchange + 1))
        assert late not in epoch_of(nodes).registered
        assert epoch_of(nodes).last_sum.num_clients == NUM_CLIENTS - (exchange == 0)
        assert nodes.errors == []


class TestAnyRule:
    """A rule may raise anything, and return any number."""

    def test_an_error_of_a_rule_is_a_refusal_like_any_other(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It costs the same, and its text stays at the node."""
        nodes = federation(rule=Exchanges())
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        TestChargedFirst.check(nodes, node_id, request, with_slots(nodes, node_id, request, [0]))
        assert set(caplog.messages) == {"dubhe: the rule 'exchanges' raised ZeroDivisionError."}

    def test_a_probability_of_numpy_is_kept(self) -> None:
        """The node finds it again when it draws the next time."""
        nodes = federation(rule=Exchanges())
        nodes.play(1)
        assert registered(nodes, nodes.ids[0]).reading is not None
