"""Tests of how a node goes on with a rule; what it refuses is in the vectors and `adversary`."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from protocol.nodes import Exchanges, federation, next_request, refuses

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he.secret_key import SecretKey
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.terms import terms_of
from dubhe_flwr.rules import Settled, Unsettled

UNSETTLED = Unsettled(np.ones(1, int))
IN_ANSWER = "raised ValueError in "
NOT_GIVEN = "register failed: SettingsError.$"
NOT_VALID = "The sum is not valid"
OUTSIDE = "returned a probability outside 0 to 1"


def test_nodes_in_one_process_decrypt_a_sum_once() -> None:
    """All nodes have the same key, so one decryption serves all; the next sum needs another."""
    nodes, decrypt = federation(rule=Exchanges(2), tries=1), SecretKey.decrypt
    with patch.object(SecretKey, "decrypt", autospec=True, side_effect=decrypt) as decrypted:
        nodes.play(1)
    sums = {e.request["rule-sum.sums"] for e in nodes.exchanges if e.stage == "settle"}
    assert len(sums) == 3
    assert sorted(call.args[1] for call in decrypted.call_args_list) == sorted(sums)


def fails(*_: Any) -> Any:
    """Raise an error whose text holds labels."""
    raise ValueError("counts 3 1 4")


@pytest.mark.parametrize(
    ("stage", "method", "what", "refusal", "log"),
    [
        ("join", "registration_slots", fails, "join failed; the node's log says why", IN_ANSWER),
        ("register", "contribution", fails, "register failed; the node's log says why", IN_ANSWER),
        ("register", "contribution", lambda *_: np.array([-1]), NOT_GIVEN, "lies outside 0.."),
        ("register", "contribution", lambda *_: np.array([0.5]), NOT_GIVEN, "integers of shape"),
        ("settle", "settle", fails, NOT_VALID, f"the rule {Exchanges.name!r} raised ValueError in"),
        ("settle", "settle", lambda *_: UNSETTLED, NOT_VALID, "is not settled after its last sum."),
        ("settle", "settle", lambda *_: Settled(float("nan")), NOT_VALID, OUTSIDE),
        ("settle", "settle", lambda *_: Settled(1.5), NOT_VALID, OUTSIDE),
    ],
)
def test_only_the_owner_learns_what_is_wrong_with_a_rule(  # noqa: PLR0917 - a row of the table
    stage: Stage,
    method: str,
    what: Any,
    refusal: str,
    log: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server gets a refusal that costs the sum; the log never quotes an error of the rule."""
    nodes = federation(rule=Exchanges())
    node_id, request = next_request(nodes, stage)
    monkeypatch.setattr(Exchanges, method, what)
    terms_of.cache_clear()
    refuses(nodes, node_id, request, RefusedError, f"^{refusal}")
    (message,) = set(caplog.messages)
    assert message.startswith("dubhe: the ")
    assert log in message
    assert "3 1 4" not in message
