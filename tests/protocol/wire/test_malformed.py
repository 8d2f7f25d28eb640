"""A node answers or refuses any message, and no text of it reveals a secret."""

import logging
import random
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
from protocol import nodes as of_nine
from protocol.accidents import spoilt
from protocol.eager import Eager
from protocol.nodes import only_charged, set_policy

from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.protocol import Fields
from dubhe_flwr.protocol.node.memory import Memory
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession

COUNTS = of_nine.COUNTS * 31415 + 27182
Situation = tuple[NodePolicy, Memory, Fields]


@pytest.fixture(scope="module")
def situations() -> list[Situation]:
    """Each request of a round, and the memories of two nodes it can meet.

    One server searches; the other one's nodes have pinned keys, and it uses prices.
    """
    found: list[Situation] = []
    searching = of_nine.federation(thresholds="search")
    for nodes in (searching, of_nine.pinned_federation(rule=Eager(0.1, 1.0))):
        for node_id, counts in zip(nodes.ids, COUNTS, strict=True):
            set_policy(nodes, node_id, label_counts=partial(np.array, counts))

        def note(_stage: str, node_id: int, request: Fields, nodes: Any = nodes) -> Fields:
            for other in (node_id, nodes.ids[0]):
                session = nodes.session(other)
                found.append((session.policy, session.memory, request))
            return request

        nodes.alter_request = note
        nodes.play(1)
    return found


def secrets(memories: Iterable[Memory]) -> set[str]:
    """Return everything that no text may contain, as it would be written."""
    found = {str(count) for row in COUNTS for count in row}
    for kept in (memory.joined for memory in memories):
        if kept is None:
            continue
        numbers = [int.from_bytes(kept.delivery_key, "big")]
        if kept.registered is not None:
            p = int.from_bytes(kept.registered.keys[64:], "big")
            numbers += [p, int.from_bytes(kept.registered.keys[:64], "big") // p]
        for number in numbers:
            found |= {str(number), f"{number:x}", repr(number.to_bytes(32, "big"))[2:-1]}
    return found


@pytest.mark.parametrize("num_messages", [4_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_a_node_answers_or_refuses(
    situations: list[Situation], num_messages: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A request causes only protocol errors; a refusal costs what was decrypted."""
    refusals: Counter[str] = Counter()
    texts: set[str] = set()
    rng = random.Random(0)
    with caplog.at_level(logging.DEBUG):
        for _ in range(num_messages):
            policy, memory, request = rng.choice(situations)
            session, sent = ClientSession(policy, memory), spoilt(request, rng)
            try:
                session.handle(sent)
            except ProtocolError as error:
                refusals[type(error).__name__] += 1
                texts.add(f"{error} {error!r} {error.args}")
                assert only_charged(memory, session.memory, sent)
    assert refusals.pop("UntrustedError") > 0
    assert set(refusals) == {"MalformedMessageError", "StaleMessageError", "RefusedError"}
    assert min(refusals.values()) > num_messages // 50
    assert refusals.total() > num_messages // 2
    everything = "\n".join([*texts, caplog.text])
    kept = secrets(memory for _, memory, _ in situations)
    assert not any(secret in everything for secret in kept)
