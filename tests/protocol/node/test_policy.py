"""Tests of what a node says about its data, and what it keeps to itself."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from pandas import Series

from dubhe_flwr.labels import count_labels
from dubhe_flwr.protocol.node.policy import NodePolicy, is_willing, read_label_counts
from dubhe_flwr.protocol.wire.announced import JoinRequest, JoinStatus
from dubhe_flwr.rules import Paper, Prices

ANNOUNCED = JoinRequest("paper", Paper((1, 3), {1: 0.7}).to_json(), 20, 2048, 1000, 3)
ANY_CLASSES = replace(ANNOUNCED, rule="prices", rule_settings=Prices().to_json())


def policy(counts: Any = (1, 2, 3), **options: Any) -> NodePolicy:
    """Return the policy of a node with these label counts."""
    return NodePolicy(label_counts=lambda: counts, alias="3", **options)


def broken() -> Any:
    """Raise an error, as an owner's code may."""
    raise KeyError("secret-31415")


BROKEN = NodePolicy(label_counts=broken, alias="3")
UNREAD = replace(BROKEN, label_counts=lambda: np.loadtxt("nothing"))
NO_VECTOR = replace(BROKEN, label_counts=lambda: count_labels([[0], [1]], 4))


@pytest.mark.parametrize(
    "counts",
    [
        *([60], [[1, 2], 3, 4], [None, 2, 3], [2**70, 0, 0], [2**62] * 3),
        np.array([2**64 - 1, 5, 5], dtype=np.uint64),
        np.array([2**63, 2**63, 0], dtype=np.uint64),
    ],
)
def test_invalid_label_counts_keep_a_node_out(counts: Any) -> None:
    """The server learns no number, even under a rule for any number of classes above one."""
    assert read_label_counts(policy(counts), ANY_CLASSES) is JoinStatus.INVALID_LABEL_COUNTS


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (policy([41.5, 42.0, 43.0]), "returned float64 of shape (3,), but must return an int"),
        (policy([True] * 3), "returned bool of shape (3,), but must return an int"),
        (
            policy([41, 42, 43, 44]),
            "returned 4 numbers for 3 classes, but must return the number of samples of each",
        ),
        (policy(Series([2, 0, 0, 1]).value_counts()), "returned a Series whose index is not 0, 1"),
        (BROKEN, "raised KeyError"),
        (UNREAD, f"raised FileNotFoundError in {__file__}"),  # by a line of numpy, not of the owner
        (NO_VECTOR, "The labels have shape (2, 1), not (M,): pass"),
    ],
)
def test_the_owner_is_told_why(
    node: NodePolicy, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The node's own log says what is wrong and shows no count, nor an error's text."""
    with caplog.at_level(logging.DEBUG):
        read_label_counts(node, ANNOUNCED)
    ((logger, level, message),) = caplog.record_tuples
    assert (logger, level) == ("flwr", logging.WARNING)
    assert message.startswith("dubhe: label_counts")
    assert said in message
    is_no_count = " of shape " in said
    assert ("as count_labels(labels, num_classes) does" in message) == is_no_count


@pytest.mark.parametrize(
    ("change", "why", "said"),
    [
        ({"min_cohort": 2}, "REFUSES_PARAMETERS", "the server's key_bits=2048 and min_cohort=2"),
        ({"key_bits": 1024}, "REFUSES_PARAMETERS", "the server's key_bits=1024 and min_cohort=3"),
        ({"simulation_seed": 7}, "NOT_SIMULATED", "the server runs a simulation"),
        ({"rule": "nearest"}, "RULE_NOT_KNOWN", "The rule 'nearest' is not known here; import the"),
        (
            {"rule_settings": '{"reference_set": [500000000, 1000000000], "thresholds": "search"}'},
            *("RULE_NOT_KNOWN", "The settings of the rule"),
        ),
    ],
)
def test_terms_that_the_owner_does_not_accept_are_refused(
    change: dict[str, Any], why: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Small cohorts and keys, simulations, unknown rules: no label is read; the log says why."""
    assert read_label_counts(BROKEN, replace(ANNOUNCED, **change)) is JoinStatus[why]
    assert caplog.messages[0].startswith(f"dubhe: {said}")
    assert caplog.messages[0].lower().endswith("the node sits out.")


def test_a_simulated_node_of_a_server_without_simulation(caplog: pytest.LogCaptureFixture) -> None:
    """Such a node joins, and logs that its draws will not repeat."""
    for simulated in (True, True, False):
        assert read_label_counts(policy(simulated=simulated), ANNOUNCED) == (1, 2, 3)
    (text,) = caplog.messages
    assert text.startswith("dubhe: this node is simulated, but the server does not run a sim")


def test_an_unwilling_node_does_not_read_its_labels() -> None:
    """Willingness is asked with round 0, before the labels are read."""
    asked: list[int] = []
    unwilling = replace(BROKEN, willing=lambda r: bool(asked.append(r)))  # type: ignore[func-returns-value]
    assert read_label_counts(unwilling, ANNOUNCED) is JoinStatus.UNWILLING
    assert asked == [0]


@pytest.mark.parametrize(
    ("willing", "expected", "said"),
    [
        (None, True, ""),
        (lambda _r: np.True_, True, ""),
        (lambda _r: 0, False, ""),
        (lambda r: r % 2, True, ""),
        *(
            (lambda _r, answer=answer: answer, False, "willing returned neither True nor False,")
            for answer in (None, "false", "yes")
        ),
        (lambda _r: broken(), False, f"willing raised KeyError in {__file__}, line "),
    ],
)
def test_willing_is_a_plain_bool(
    willing: Callable[[int], Any] | None,
    expected: bool,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Anything but true or false is a no, of which the log says why once, not in every round."""
    assert all(is_willing(policy(willing=willing), number) is expected for number in (1, 5))
    assert len(caplog.messages) == (said != "")
    assert said in caplog.text


def test_a_repr_shows_neither_label_counts_nor_willing() -> None:
    """A partial shows the counts in its own repr, or a Context that keeps the key."""
    counts: Any = partial(list, [31415])
    willing: Any = partial(bool, "secret")
    shown = repr(NodePolicy(label_counts=counts, alias="3", willing=willing))
    assert "31415" not in shown
    assert "secret" not in shown


def test_the_owner_limits_how_many_register() -> None:
    """A real node stays out of a larger federation; a simulated one takes part."""
    counts = np.array([1, 2, 3], dtype=np.uint64)
    real, simulated = (policy(counts, max_clients=100, simulated=told) for told in (False, True))
    for most, status in ((100, (1, 2, 3)), (101, JoinStatus.REFUSES_PARAMETERS)):
        asked = replace(ANNOUNCED, max_clients=most)
        assert read_label_counts(real, asked) == status
        assert read_label_counts(simulated, asked) == (1, 2, 3)
