"""A server that asks for too much: huge messages, endless draws and epochs."""

import tracemalloc
from typing import Any

import pytest
from protocol.federation import dubhe, encrypted, joined
from protocol.nodes import COUNTS, SCALE, federation, next_request, refuses, seal

from dubhe_flwr.errors import MalformedMessageError, RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.node.memory import Ledger, Memory
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.wire.messages import DetermineRequest
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION
from dubhe_flwr.rules import Prices

DAY = "This node has reached its owner's max_epochs_per_day or max_draws_per_day"
REAL: dict[str, Any] = {"simulated": False}
MEGABYTES = 2**20


@pytest.mark.parametrize(
    ("stage", "name", "unit"),
    [
        (Stage.DETERMINE, "num-tries", b"\0"), (Stage.DETERMINE, "sums", b"\0"),
        (Stage.SETTLE, "rule-sum.sums", b"\0"), (Stage.APPOINT, "roster.public-keys", b"\0"),
        (Stage.JOIN, "rule-settings", " "),
    ],
)  # fmt: skip
def test_a_huge_message_is_refused_before_it_is_unpacked(
    stage: Stage, name: str, unit: Any
) -> None:
    """The server sends 80 MB, which once became 382 MB at the node; now 1 MB is the most."""
    nodes = federation()
    node_id, request = next_request(nodes, stage)
    session, huge = nodes.session(node_id), {**request, name: unit * (80 * MEGABYTES)}
    tracemalloc.start()
    with pytest.raises(MalformedMessageError):
        session.handle(huge)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTES


def test_no_array_is_as_long_as_the_server_says() -> None:
    """The server announces K = 300 million, and asks an agent to compare two tries."""
    options: dict[str, Any] = {"rule": Prices(), "tries": 3}
    nodes = dubhe(COUNTS, num_participants=4, max_registered=20, policy=REAL, **options)
    nodes.alter_request = lambda stage, _node, request: (
        {**request, "num-participants": 3 * 10**8} if stage == "join" else request
    )
    batch = nodes.until("settle")
    nodes.alter_request = lambda _stage, _node, request: request
    nodes.deliver(batch)
    each = encrypted(joined(nodes, nodes.ids[0]), DISTRIBUTION, [3 * SCALE // 4] * 4 + [SCALE])
    header, asked = batch.header, DetermineRequest(2 * each, (2,))
    forged = seal(header.epoch, Stage.DETERMINE, header.sequence + 1, asked)
    tracemalloc.start()
    refuses(nodes, nodes.ids[0], forged, RefusedError, "leave out too few clients")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTES


def test_a_million_draws_are_refused_before_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server asks for 2^16 draws in a request, the most that a message may ask for."""
    nodes = federation(policy=REAL)
    nodes.play(1)
    node_id, request = next_request(nodes, Stage.PARTICIPATE, 2)
    monkeypatch.setattr("dubhe_flwr.protocol.node.round.private_draws", lambda _number: 1 // 0)
    refuses(nodes, node_id, {**request, "num-tries": 2**16}, RefusedError, DAY)
    nodes = federation(policy=REAL)
    node_id, request = next_request(nodes, Stage.SETTLE)
    assert "draws.decisions" not in nodes.handle(node_id, {**request, "draws.num-tries": 2**16})


def test_epochs_without_end_are_refused_for_the_day() -> None:
    """The server begins one epoch after another; the node joins 200 times a day.

    With `state_dir`, these are too few to drive it out of another run: it leaves an epoch that the
    file of both runs no longer lists.
    """
    nodes = federation(policy=REAL)
    node_id, request = next_request(nodes, Stage.JOIN)
    policy, other = nodes.policies[node_id], {**request, "epoch": b"\xff" * 16}
    first, ledger, memory = ClientSession(policy, today=5), Ledger(), Memory()
    first.handle(request)
    ledger = first.memory.ledger_after(ledger)
    for number in range(199):
        session = ClientSession(policy, memory.with_ledger(ledger), today=5)
        session.handle({**request, "epoch": number.to_bytes(16)})
        memory, ledger = session.memory, session.memory.ledger_after(ledger)
    session = ClientSession(policy, memory, today=5)
    with pytest.raises(RefusedError, match=DAY):
        session.handle(other)
    assert session.memory is memory
    assert first.memory.with_ledger(ledger).joined is not None
    assert ClientSession(policy, memory, today=6).handle(other)["status"] == 0
