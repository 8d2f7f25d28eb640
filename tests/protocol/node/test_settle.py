"""Tests of how a node goes on with a rule; what it refuses is in the vectors and `adversary`."""

from typing import Any

import numpy as np
import pytest
from protocol.nodes import Exchanges, federation, next_request, refuses, with_slots

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he.secret_key import SecretKey
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.terms import terms_of
from dubhe_flwr.rules import Settled, Unsettled


def test_nodes_in_one_process_decrypt_a_sum_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes have the same key, so one decryption serves all; the next sum needs another."""
    decrypted: list[bytes] = []
    decrypt = SecretKey.decrypt

    def counted(key: SecretKey, vector: bytes) -> list[int]:
        decrypted.append(vector)
        return decrypt(key, vector)

    nodes = federation(rule=Exchanges(2), tries=1)
    monkeypatch.setattr(SecretKey, "decrypt", counted)
    nodes.play(1)
    sums = {e.request["rule-sum.sums"] for e in nodes.exchanges if e.stage == "settle"}
    assert len(sums) == 3
    assert sorted(decrypted) == sorted(sums)


def test_an_error_of_a_rule_is_a_refusal_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    """An error in a rule costs as much as any refusal, and its text stays at the node."""
    nodes = federation(rule=Exchanges())
    node_id, request = next_request(nodes, Stage.SETTLE)
    forged = with_slots(nodes, node_id, request, [0])
    refuses(nodes, node_id, forged, RefusedError, "^The sum is not valid")
    (message,) = set(caplog.messages)
    assert message.startswith(f"dubhe: the rule {Exchanges.name!r} raised ZeroDivisionError in ")


def test_a_rule_must_be_settled_after_its_last_sum(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sum is refused, and the log names the rule."""
    nodes = federation(rule=Exchanges())
    monkeypatch.setattr(Exchanges, "settle", lambda *_: Unsettled(np.ones(1, int)))
    node_id, request = next_request(nodes, Stage.SETTLE)
    refuses(nodes, node_id, request, RefusedError, "^The sum is not valid")
    sentence = f"dubhe: the rule {Exchanges.name!r} is not settled after its last sum."
    assert caplog.messages == [sentence]


@pytest.mark.parametrize(
    "outcome",
    [
        Settled(None),  # type: ignore[arg-type]
        Settled(float("nan")),
        Settled(1.5),
        Unsettled(None),  # type: ignore[arg-type]
        Unsettled([[1], []]),  # type: ignore[arg-type]
    ],
)
def test_a_decrypted_sum_is_charged_whatever_a_rule_returns(
    outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sum is not decrypted a second time."""
    nodes = federation(rule=Exchanges(1))
    node_id, request = next_request(nodes, Stage.SETTLE)
    monkeypatch.setattr(Exchanges, "settle", lambda *_: outcome)
    session = nodes.session(node_id)
    with pytest.raises(RefusedError):
        session.handle(request)
    own = session.memory.joined
    assert own is not None
    assert own.registered is not None
    assert own.registered.has_refused == (own.registered.reading is None)


@pytest.mark.parametrize("method", ["contribution", "registration_slots"])
def test_a_rules_error_text_never_leaves_the_node(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The text may hold labels; the log has the error's type and place."""
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


@pytest.mark.parametrize(
    ("told", "sentence"),
    [([-1], "lies outside 0.."), ([0.5], "give integers of shape")],
)
def test_the_owner_learns_what_is_wrong_with_a_contribution(
    told: Any,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A sentence names the range or the shape; the server learns only a type."""
    nodes = federation(rule=Exchanges())
    node_id, request = next_request(nodes, Stage.REGISTER)
    monkeypatch.setattr(Exchanges, "contribution", lambda *_: np.array(told))
    refuses(nodes, node_id, request, RefusedError, "^register failed: SettingsError.$")
    (message,) = caplog.messages
    assert message.startswith("dubhe: the node cannot answer register: ")
    assert sentence in message
