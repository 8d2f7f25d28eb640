"""Tests of batches, reports and plans."""

from dubhe_flwr.protocol import Batch, StageReport
from dubhe_flwr.protocol.wire.codec import wire_size
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import KeygenRequest, Roster

HEADER = Envelope(bytes(16), "keygen", sequence=3)


def test_a_batch_seals_each_request() -> None:
    """Header and body go to each node; nodes that share a body share its fields."""
    shared, other = KeygenRequest(Roster(bytes(32))), KeygenRequest(Roster(bytes(64)))
    batch = Batch(HEADER, {5: shared, 7: shared, 9: other, 8: shared})
    fields = batch.fields
    assert list(fields) == [5, 7, 9, 8]
    assert fields[5] == HEADER.seal(shared)
    assert fields[9] == HEADER.seal(other)
    assert fields[5] is fields[7] is fields[8]
    assert batch.num_bytes == 3 * wire_size(fields[5]) + wire_size(fields[9])


def test_replies_found_unusable_later_count_as_dropped() -> None:
    """What turns out unfit later moves from the accepted to the dropped, in a new report."""
    report = StageReport("join", 5, 4, {"no reply": [17]}, 10, 20)
    once = report.without({9, 4}, "invalid")
    assert once == StageReport("join", 5, 2, {"no reply": [17], "invalid": (4, 9)}, 10, 20)
    assert once.without([1], "invalid").dropped == {"no reply": 1, "invalid": 3}
    assert report.dropped == {"no reply": 1}
    assert report.without([], "invalid") == report
