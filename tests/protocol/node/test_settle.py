"""Tests of how a node goes on with a rule; what it refuses is in the vectors and `adversary`."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import decrypted, epoch_of, joined, registered
from protocol.nodes import (
    NUM_CLIENTS,
    SCALE,
    Exchanges,
    asked_to_settle,
    federation,
    next_request,
    refuses,
    slots_of,
    with_slots,
)

from dubhe_flwr.core import best_candidate
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.terms import SETTLEMENT, terms_of
from dubhe_flwr.rules import Paper, Settled, Unsettled


class TestSearch:
    """Every node tells what it adds under each candidate, and finds the best one."""

    def test_every_node_finds_the_same(self) -> None:
        """The best by what all of them told, named as finding; nobody's word is taken."""
        nodes, node_id, request = asked_to_settle(1)
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
        nodes, node_id, request = asked_to_settle(1)
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
        forged = with_slots(nodes, node_id, request, [0])
        refuses(nodes, node_id, forged, RefusedError, "^The sum is not what it is said to be")
        (message,) = set(caplog.messages)
        assert message.startswith(
            f"dubhe: the rule {Exchanges.name!r} raised ZeroDivisionError in "
        )

    def test_a_probability_of_numpy_is_kept(self) -> None:
        """The node finds it again when it draws the next time."""
        nodes = federation(rule=Exchanges())
        nodes.play(1)
        assert registered(nodes, nodes.ids[0]).reading is not None

    @pytest.mark.parametrize(
        "outcome",
        [Settled(None), Unsettled(0.5, None), Unsettled(0.5, [[1], []])],  # type: ignore[arg-type]
        ids=["no probability", "no contribution", "a ragged one"],
    )
    def test_what_was_decrypted_is_charged_whatever_a_rule_returns(
        self, outcome: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same sum is not decrypted a second time."""
        nodes = federation(rule=Exchanges(1))
        node_id, request = next_request(nodes, Stage.SETTLE)
        monkeypatch.setattr(Exchanges, "settle", lambda *_: outcome)
        session = nodes.session(node_id)
        with pytest.raises(RefusedError):
            session.handle(request)
        own = registered(nodes, node_id)
        assert own.reading is None
        assert session.memory is not None
        assert session.memory.joined is not None
        assert session.memory.joined.registered is not None
        assert session.memory.joined.registered.reading is not None

    @pytest.mark.parametrize("method", ["contribution", "registration_slots"])
    def test_no_text_of_a_rule_leaves_the_node(
        self, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It may hold labels; the log has the type of the error and its place."""
        nodes = federation(rule=Exchanges(local_skew=0.25 if method == "contribution" else 0.5))
        stage = Stage.REGISTER if method == "contribution" else Stage.JOIN
        node_id, request = next_request(nodes, stage)

        def fails(*_: Any) -> Any:
            raise ValueError("counts 3 1 4")

        monkeypatch.setattr(Exchanges, method, fails)
        terms_of.cache_clear()
        refuses(nodes, node_id, request, RefusedError, f"^{stage} failed; the node's log says why")
        (message,) = caplog.messages
        assert message.startswith(f"dubhe: the node's answer to {stage} raised ValueError in ")
        assert "3 1 4" not in message
