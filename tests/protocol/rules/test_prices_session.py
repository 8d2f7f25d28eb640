"""A session by prices is what its file says; run as a script, this module writes it anew."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protocol.federation import dubhe, node_policies, skewed_counts

from dubhe_flwr.protocol import ClientSession
from dubhe_flwr.rules import Prices

FILE = Path(__file__).with_name("prices_session.json")
NODE = 3
RANDOM = {"public-key"}


def told(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message as JSON has them, without what is random."""
    return {
        name: {"bytes": value.hex()} if isinstance(value, bytes) else value
        for name, value in sorted(fields.items())
        if name not in RANDOM
    }


def read(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `told`."""
    return {
        name: bytes.fromhex(value["bytes"]) if isinstance(value, dict) else value
        for name, value in fields.items()
    }


def session() -> dict[str, Any]:
    """Play two rounds of an epoch each; return the node's side of it."""
    counts = skewed_counts(40)
    nodes = dubhe(
        counts,
        rule=Prices(coverage=0.1, local_skew=1.0),
        num_participants=8,
        simulation="plain",
        registration_interval=1,
    )
    nodes.play(1)
    nodes.play(2)
    node_id = nodes.ids[NODE]
    return {
        "label-counts": counts[NODE].tolist(),
        "alias": nodes.policies[node_id].alias,
        "steps": [
            {"request": told(each.request), "reply": told(each.reply)}  # type: ignore[arg-type]
            for each in nodes.exchanges
            if each.node_id == node_id
        ],
    }


def text() -> str:
    """Return the session as it stands in the file; epochs have random names, and are counted."""
    played = session()
    found = json.dumps(played, indent=1) + "\n"
    epochs = dict.fromkeys(step["request"]["epoch"]["bytes"] for step in played["steps"])
    for number, epoch in enumerate(epochs, start=1):
        found = found.replace(epoch, f"{number:032x}")
    return found


def test_a_federation_plays_the_session_of_the_file() -> None:
    """Sums, prices and draws follow from the seed, to the last bit."""
    assert text() == FILE.read_text(encoding="utf-8")


def test_a_node_answers_as_the_file_says() -> None:
    """Over two epochs, of which the second one begins with the prices of the first."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    node = ClientSession(node_policies([known["label-counts"]] * (NODE + 1))[NODE])
    for step in known["steps"]:
        assert told(node.handle(read(step["request"]))) == step["reply"]
    assert node.memory.joined is not None
    assert len(node.memory.joined.remembered) == 1 + len(known["label-counts"])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
