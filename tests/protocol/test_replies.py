"""Tests of batches, and of how the server counts replies; test_every_stage has bad ones."""

from typing import Any

from dubhe_flwr.protocol import Batch, Fields, NodeFailure, StageReport
from dubhe_flwr.protocol.replies import accept_replies, alias_order
from dubhe_flwr.protocol.wire.codec import wire_size
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import AppointRequest, HelloReply, HelloRequest
from dubhe_flwr.protocol.wire.roster import Roster

HEADER = Envelope(bytes(16), "hello", sequence=3)


def reply(alias: str) -> Fields:
    """Return the fields of a reply."""
    return HEADER.seal(HelloReply(alias, willing=True))


def test_a_batch_seals_each_request() -> None:
    """Header and body go to each node; nodes that share a body share its fields."""
    header = Envelope(bytes(16), "appoint", sequence=3)
    shared, other = AppointRequest(Roster(bytes(32)), (0,)), AppointRequest(Roster(bytes(64)), (0,))
    batch = Batch(header, {5: shared, 9: other, 8: shared})
    assert batch.fields == {5: header.seal(shared), 9: header.seal(other), 8: header.seal(shared)}
    assert batch.fields[5] is batch.fields[8]


def test_each_request_is_accounted_for() -> None:
    """Replies are used in the order of the requests, or lost for a reason, whoever else answers."""
    batch = Batch(HEADER, dict.fromkeys((1, 3, 5, 8, 9), HelloRequest()))
    replies: dict[int, Any] = {9: reply("nine"), 8: reply("x"), 5: NodeFailure("boom" * 60)}
    replies |= {1: reply("one"), 77: reply("foreign")}

    def refuse(_node_id: int, reply: HelloReply) -> str | None:
        return "disliked" if reply.alias == "x" else None

    accepted, report = accept_replies(batch, replies, refuse)
    assert list(accepted.items()) == [(1, HelloReply("one", True)), (9, HelloReply("nine", True))]
    down = sum(map(wire_size, batch.fields.values()))
    up = wire_size(reply("one")) + wire_size(reply("nine"))
    lost = {"disliked": [8], "no reply": [3], "error reply": [5]}
    assert report == StageReport("hello", 5, 2, lost, down, up, error="boom" * 50)


def test_replies_found_unusable_later_count_as_dropped() -> None:
    """What turns out unfit later moves from the accepted to the dropped, in a new report."""
    report = StageReport("join", 5, 4, {"no reply": [17]}, 10, 20)
    once = report.without({9, 4}, "invalid")
    assert once == StageReport("join", 5, 2, {"no reply": [17], "invalid": (4, 9)}, 10, 20)
    assert once.without([1], "invalid").dropped == {"no reply": 1, "invalid": 3}
    assert report.dropped == {"no reply": 1}


def test_numeric_aliases_come_first_and_sort_by_value() -> None:
    """Partition ids sort as numbers, other names as text after them, equal ones by node id."""
    aliases = {6: "b", 2: "10", 9: "9", 4: "a", 5: "09", 3: "9", 7: "²", 8: "-1", 1: "٣"}
    assert alias_order(aliases) == (5, 3, 9, 2, 8, 4, 6, 7, 1)
