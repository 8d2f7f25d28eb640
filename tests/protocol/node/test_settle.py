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
)
from protocol.nodes import (
    COUNTS,
    NUM_CLIENTS,
    SCALE,
    Exchanges,
    federation,
    next_request,
    refuses,
    secret_prime,
)

from dubhe_flwr.core import (
    Codebook,
    best_candidate,
    overall_registry,
)
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage
from dubhe_flwr.protocol.wire.terms import REGISTRATION, SETTLEMENT
from dubhe_flwr.rules import Own, Paper

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


Change = Callable[[Nodes, int, Fields, Any], Any]


def multiple_of_a_prime(nodes: Nodes, node_id: int, request: Any, _slots: Any) -> Fields:
    """Return what would give the key away, decrypted."""
    prime = secret_prime(nodes, node_id)
    return {**request, "sums": prime.to_bytes(len(request["sums"]), "big")}


SPOILT: list[tuple[int, Change]] = [
    *((exchange, lambda _n, _i, r, _s: {**r, "sums": b""}) for exchange in (0, 1)),
    *((exchange, multiple_of_a_prime) for exchange in (0, 1)),
    *((exchange, lambda n, i, r, s: with_slots(n, i, r, s * 0)) for exchange in (0, 1)),
    *((0, lambda _n, _i, r, _s, k=k: {**r, "num-clients": k}) for k in (8, 10, 20)),
    (0, lambda n, i, r, s: with_slots(n, i, r, s * (np.arange(len(s)) < 88))),
    (0, lambda n, i, r, s: with_slots(n, i, r, np.full_like(s, 31))),
    (1, lambda n, i, r, s: with_slots(n, i, r, s + np.eye(9, 5, dtype=np.int64).ravel() * 60)),
    (1, lambda n, i, r, s: with_slots(n, i, r, s * (np.arange(len(s)) // 5 != 4))),
]


class TestChargedFirst:
    """A sum counts as read before it is looked at, and all refusals of it sound the same."""

    @pytest.mark.parametrize(("exchange", "change"), SPOILT)
    def test_what_is_not_the_sum_is_refused(self, exchange: int, change: Change) -> None:
        """Whatever is wrong with it, in each exchange."""
        nodes, node_id, request = asked(exchange)
        slots = slots_of(nodes, node_id, request)
        self.check(nodes, node_id, request, change(nodes, node_id, request, slots))

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
        terms = joined(nodes, node_id).terms
        slots = 3 * terms.rule.contribution(Own(COUNTS[0]), terms.frame)
        nodes.handle(node_id, with_slots(nodes, node_id, request, slots) | {"num-clients": 3})
        reading = registered(nodes, node_id).reading
        assert reading is not None
        assert (reading.probability, reading.num_registered) == (1.0, 3)


class TestSearch:
    """Every node tells what it adds under each candidate, and finds the best one."""

    def test_every_node_finds_the_same(self) -> None:
        """The best by what all of them told, named as finding; nobody's word is taken."""
        nodes, node_id, request = asked(1)
        candidates = Paper((1, 2, 4), "search").candidates
        table = slots_of(nodes, node_id, request)
        told: Any = [e.reply for e in nodes.exchanges if e.stage == Stage.SETTLE]
        own = joined(nodes, node_id)
        vectors = [decrypted(own, SETTLEMENT, reply["contribution"]) for reply in told]
        np.testing.assert_array_equal(np.sum(vectors, axis=0), table)
        plan = nodes.play(1)
        best = tuple(candidates[best_candidate(table.reshape(9, 5))].values())
        replies: Any = [e.reply for e in nodes.exchanges if e.stage == Stage.SETTLE]
        findings = {reply["finding"] for reply in replies[-NUM_CLIENTS:]}
        assert findings == {np.array(best, ">f8").tobytes()}
        assert plan.finding == best

    @pytest.mark.parametrize("candidate", [0, 8])
    def test_the_most_uniform_one_is_found(self, candidate: int) -> None:
        """With the probability that the node has under it; rounding by nine clients may be off."""
        nodes, node_id, request = asked(1)
        before = registered(nodes, node_id).reading
        table = np.tile([SCALE, 0, 0, 0, SCALE], (9, 1))
        table[candidate] = [SCALE // 4] * 4 + [SCALE + 45]
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
