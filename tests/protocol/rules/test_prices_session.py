"""A session by prices is what its file says, from the server's side and from the node's."""

import json

from protocol.federation import node_policies
from protocol.rules.prices_session import FILE, NODE, read, text, told

from dubhe_flwr.protocol import ClientSession


def test_a_federation_plays_the_session_of_the_file() -> None:
    """Sums, prices and draws follow from the seed, to the last bit."""
    assert text() == FILE.read_text(encoding="utf-8")


def test_a_node_answers_as_the_file_says() -> None:
    """Over two epochs, of which the second one begins with the prices of the first."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    node = ClientSession(node_policies([known["label-counts"]] * (NODE + 1))[NODE])
    for step in known["steps"]:
        assert told(node.handle(read(step["request"]))) == step["reply"]
    assert node.memory is not None
    assert node.memory.joined is not None
    assert len(node.memory.joined.remembered) == 1 + len(known["label-counts"])
