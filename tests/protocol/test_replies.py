"""Tests of how the server reads replies: unusable replies are dropped and counted."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Batch, NodeFailure
from dubhe_flwr.protocol.replies import accept_replies, alias_order
from dubhe_flwr.protocol.wire.codec import wire_size
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import HelloReply, HelloRequest

HEADER = Envelope(bytes(16), "hello", sequence=3)


def reply(alias: str, header: Envelope = HEADER) -> dict[str, Any]:
    """Return the fields of a reply."""
    return dict(header.seal(HelloReply(alias, willing=True)))


def test_unfit_replies_are_dropped_and_counted() -> None:
    """Each request is accounted for once, by the reason for which its reply was dropped."""

    def refuse(node_id: int, reply: HelloReply) -> str | None:
        if reply.alias == "raises":
            raise RefusedError("no")
        assert node_id in {1, 8, 9}
        return "disliked" if reply.alias == "x" else None

    batch = Batch(HEADER, dict.fromkeys(range(1, 11), HelloRequest()))
    replies: dict[int, Any] = {
        9: reply("nine"),
        8: reply("x"),
        7: reply("raises"),
        6: reply("a", Envelope(bytes(16), "hello", sequence=2)),
        5: reply("a") | {"version": 2},
        4: reply("a") | {"willing": 1},
        3: {},
        2: NodeFailure("boom"),
        1: reply("one"),
        77: reply("foreign"),
    }
    accepted, report = accept_replies(batch, replies, refuse)
    assert list(accepted.items()) == [(1, HelloReply("one", True)), (9, HelloReply("nine", True))]
    assert report.lost == {
        "disliked": [8], "RefusedError": [7], "StaleMessageError": [5, 6],
        "MalformedMessageError": [3, 4], "error reply": [2], "no reply": [10],
    }  # fmt: skip
    assert (report.stage, report.sent, report.accepted) == ("hello", 10, 2)
    assert report.bytes_up == wire_size(reply("one")) + wire_size(reply("nine"))
    assert report.bytes_down == batch.num_bytes


def test_numeric_aliases_come_first_and_sort_by_value() -> None:
    """Partition ids sort as numbers, other names as text after them, equal ones by node id."""
    aliases = {1: "b", 2: "10", 3: "9", 4: "a", 5: "09", 6: "9", 7: "²", 8: "-1", 9: "٣"}
    assert [aliases[node] for node in alias_order(aliases)] == [
        *("09", "9", "9", "10"),
        *("-1", "a", "b", "²", "٣"),
    ]
    assert alias_order({6: "9", 3: "9"}) == (3, 6)


@given(st.dictionaries(st.integers(0, 2**64 - 1), st.text("0129-a²٣", min_size=1, max_size=3)))
def test_the_order_does_not_depend_on_arrival(aliases: dict[int, str]) -> None:
    """Any order of arrival gives the same order of aliases."""
    backwards = dict(reversed(aliases.items()))
    assert alias_order(aliases) == alias_order(backwards)
    assert sorted(alias_order(aliases)) == sorted(aliases)
