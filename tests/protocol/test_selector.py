"""Tests of what all selectors share: the order of aliases, and the drop of unfit replies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import CheckpointError, RefusedError
from dubhe_flwr.protocol import Batch, NodeFailure, Selector, alias_order, wire_size
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import HelloReply, HelloRequest
from dubhe_flwr.protocol.selector import accept_replies

HEADER = Envelope(bytes(16), "hello", sequence=3)


def reply(alias: str, header: Envelope = HEADER) -> dict[str, Any]:
    """Return the fields of a reply."""
    return dict(header.seal(HelloReply(alias, willing=True)))


def accept_all(_node_id: int, _reply: HelloReply) -> None:
    """Refuse nothing."""


def test_numbers_come_first_and_by_value() -> None:
    """Partition ids sort as numbers, other names as text after them, equal ones by node id."""
    aliases = {1: "b", 2: "10", 3: "9", 4: "a", 5: "09", 6: "9", 7: "²", 8: "-1", 9: "٣"}
    assert [aliases[node] for node in alias_order(aliases)] == [
        *("09", "9", "9", "10"),
        *("-1", "a", "b", "²", "٣"),
    ]
    assert alias_order({6: "9", 3: "9"}) == (3, 6)


@given(st.dictionaries(st.integers(0, 2**64 - 1), st.text(min_size=1, max_size=3)))
def test_the_order_does_not_depend_on_arrival(aliases: dict[int, str]) -> None:
    """Any order of arrival gives the same order of aliases."""
    backwards = dict(reversed(aliases.items()))
    assert alias_order(aliases) == alias_order(backwards)
    assert sorted(alias_order(aliases)) == sorted(aliases)


def test_unfit_replies_are_dropped_and_counted() -> None:
    """Each request is accounted for once, by the reason for which its reply was dropped."""

    def refuse(node_id: int, reply: HelloReply) -> str | None:
        if reply.alias == "raises":
            raise RefusedError("no")
        assert node_id in {1, 8, 9}
        return "disliked" if reply.alias == "x" else None

    batch = Batch(HEADER, dict.fromkeys(range(1, 10), HelloRequest()))
    stale = Envelope(bytes(16), "hello", sequence=2)
    replies: dict[int, Any] = {
        9: reply("nine"),
        8: reply("x"),
        7: reply("raises"),
        6: reply("a", stale),
        5: reply("a") | {"version": 2},
        4: reply("a") | {"willing": 1},
        3: {},
        2: NodeFailure("boom"),
        1: reply("one"),
        77: reply("foreign"),
    }
    accepted, report = accept_replies(batch, replies, refuse)
    assert list(accepted.items()) == [(1, HelloReply("one", True)), (9, HelloReply("nine", True))]
    assert report.dropped == {
        "disliked": 1,
        "RefusedError": 1,
        "StaleMessageError": 2,
        "MalformedMessageError": 2,
        "error reply": 1,
    }
    assert (report.stage, report.sent, report.accepted) == ("hello", 9, 2)
    assert report.accepted + sum(report.dropped.values()) == report.sent
    assert report.bytes_up == wire_size(reply("one")) + wire_size(reply("nine"))
    assert report.bytes_down == batch.num_bytes()


class Forgetful(Selector[None]):
    """Chooses everybody and keeps nothing."""

    num_participants = 1

    def initial_state(self) -> None:
        """Return nothing."""

    def begin_round(self, *_: Any) -> Any:
        """Choose nobody."""

    def step(self, *_: Any) -> Any:
        """Never."""


def test_a_selector_that_keeps_no_state_says_so() -> None:
    """The error names the class and the methods that it lacks."""
    with pytest.raises(CheckpointError, match=r"Forgetful keeps no state; .*leave out checkpoint"):
        Forgetful().state_dict(None)
    with pytest.raises(CheckpointError, match="Forgetful loads no state; give it load_state_dict"):
        Forgetful().load_state_dict({}, interrupted=False)


def test_silence_is_counted() -> None:
    """A node that does not answer is dropped as such."""
    batch = Batch(HEADER, dict.fromkeys([1, 2], HelloRequest()))
    accepted, report = accept_replies(batch, {}, accept_all)
    assert (accepted, report.accepted, report.dropped) == ({}, 0, {"no reply": 2})
    assert report.bytes_up == 0
