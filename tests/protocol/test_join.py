"""Who joins an epoch: nodes and server have to agree on encryption, rule and classes."""

from functools import partial

import pytest
from protocol.nodes import Exchanges, federation, set_policy

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.rules import rule as rules
from dubhe_flwr.protocol.wire.messages import JoinStatus
from dubhe_flwr.protocol.wire.terms import rule_of


def test_statuses_are_numbers_that_travel() -> None:
    """The numbers on the wire do not change from version to version."""
    names = ("JOINS", "UNWILLING", "NO_DATA", "WRONG_NUMBER_OF_CLASSES", "INVALID_LABEL_COUNTS")
    expected = {name: number for number, name in enumerate((*names, "REFUSES_PARAMETERS"))}
    assert {status.name: int(status) for status in JoinStatus} == expected


def test_nodes_without_the_rule_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is told to let them know it."""
    nodes = federation(rule=Exchanges())
    batch = nodes.until(Stage.JOIN)
    monkeypatch.delitem(rules._RULES, Exchanges.name)  # as in a ClientApp that does not import it
    rule_of.cache_clear()
    replies = nodes.deliver(batch)
    monkeypatch.undo()
    with pytest.raises(QuorumError, match=r"9 refuses parameters at join.*let them know the rule"):
        nodes.step(replies)


def test_labels_in_the_place_of_counts_are_told_as_such() -> None:
    """Lists of all lengths: hardly two nodes agree."""
    nodes = federation(rule=Exchanges())
    for length, node_id in enumerate(nodes.ids, 2):
        set_policy(nodes, node_id, label_counts=partial(list, range(1, length)))
    with pytest.raises(QuorumError, match="must return one number a class, not the labels"):
        nodes.play(1)
