"""Tests of what is kept of nodes that join, and of what they are sent."""

from protocol.federation import node_ids

from dubhe_flwr.he import SIGNATURE_BYTES
from dubhe_flwr.protocol.arrivals import Arrivals, ByPosition
from dubhe_flwr.protocol.messages import JoinReply


def arrivals(aliases: list[str]) -> Arrivals:
    """Return nodes that came in this order; keys and signatures tell the place."""
    found = Arrivals()
    for place, (node_id, alias) in enumerate(zip(node_ids(len(aliases)), aliases, strict=True)):
        reply = JoinReply(0, alias, bytes([place]) * 32, bytes([place]) * SIGNATURE_BYTES)
        found.add(node_id, reply)
    return found


def test_everything_is_in_the_order_of_the_aliases() -> None:
    """Keys and signatures stay with their nodes."""
    for aliases, order in ((["10", "9", "laptop", "8"], [3, 1, 0, 2]), (["1", "2"], [0, 1])):
        by_alias, keys, signatures = arrivals(aliases).in_order()
        ids = node_ids(len(aliases))
        assert list(by_alias.items()) == [(ids[place], aliases[place]) for place in order]
        assert keys == b"".join(bytes([place]) * 32 for place in order)
        assert signatures == b"".join(bytes([place]) * SIGNATURE_BYTES for place in order)


def test_values_are_made_when_they_are_looked_at() -> None:
    """A mapping like any other, with nothing kept."""
    made: list[int] = []

    def value(position: int) -> str:
        made.append(position)
        return f"value {position}"

    values = ByPosition(dict.fromkeys([30, 10, 20]), value)
    assert (len(values), list(values), 10 in values, 11 in values) == (3, [30, 10, 20], True, False)
    assert made == []
    expected = {30: "value 0", 10: "value 1", 20: "value 2"}
    assert dict(values.items()) == dict(values) == expected
    assert list(values.values()) == list(expected.values())
    assert values[10] == "value 1"
    assert values.get(11) is None
