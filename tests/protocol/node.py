"""One node and what it is asked, for the tests of what it answers and refuses."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, dubhe, joined, skewed_counts

from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.he import RecipientKey, SecretKey
from dubhe_flwr.protocol import CoordinatorState, Fields, Memory, Stage, encode
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import Message

NUM_CLIENTS = 9
COUNTS = skewed_counts(NUM_CLIENTS)
SETTINGS: dict[str, Any] = {
    "num_participants": 4,
    "reference_set": (1, 2, 4),
    "thresholds": {1: 0.6, 2: 0.3},
    "tries": 4,
    "registration_interval": 10,
    "max_draws_per_epoch": 48,
    "max_registered": 20,
}
SCALE = 2**20

_READING = frozenset(
    f"joined.registered.reading.{name}"
    for name in ("digests", "num-registered", "is-refused", "probability", "memory")
)
_CHARGES: dict[str, frozenset[str]] = {
    Stage.DETERMINE: frozenset({"joined.registered.num-sums"}),
    Stage.SETTLE: _READING,
    Stage.PARTICIPATE: _READING,
}
"""What a refused request of a stage may cost."""


def federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return nine nodes and a server."""
    return dubhe(COUNTS, **SETTINGS | overrides)


def next_request(
    nodes: Federation[CoordinatorState], stage: Stage, server_round: int = 1
) -> tuple[int, Fields]:
    """Play up to a stage; return one node that is asked, and its request."""
    batch = nodes.until(stage, server_round)
    return next(iter(batch.fields()))


def refuses(
    nodes: Federation[CoordinatorState],
    node_id: int,
    request: Any,
    error: type[ProtocolError],
    match: str,
) -> None:
    """Check that a request is refused for that reason, and changes nothing but what it costs."""
    session = nodes.session(node_id)
    kept = session.memory
    before = None if kept is None else encode(kept)
    with pytest.raises(error, match=match):
        session.handle(request)
    assert kept is None or encode(kept) == before
    assert only_charged(kept, session.memory, request)


def only_charged(
    before: Memory | None, after: Memory | None, request: Mapping[str, object]
) -> bool:
    """Return whether a refused request changed nothing, or no more than what it costs."""
    if after is before:
        return True
    assert before is not None
    assert after is not None
    old, new = encode(before), encode(after)
    changed = {name for name in old.keys() | new.keys() if new.get(name) != old.get(name)}
    charges = _CHARGES.get(str(request["stage"]), frozenset())
    return bool(changed & charges) and changed <= charges | {"sequence"}


def seal(epoch: bytes, stage: Stage, sequence: int, body: Message) -> Fields:
    """Return a request as a server would send it."""
    return Envelope(epoch, stage.value, sequence).seal(body)


def public_key_of(nodes: Federation[CoordinatorState], node_id: int) -> bytes:
    """Return the public half of a node's key for delivery."""
    return RecipientKey.from_bytes(joined(nodes, node_id).delivery_key).public_bytes


def numbers(num_sums: list[int], num_clients: list[int]) -> dict[str, bytes]:
    """Return the two fields that say how many sums there are and what they cover."""
    return {
        "num-sums": np.array(num_sums, dtype=">i8").tobytes(),
        "num-clients": np.array(num_clients, dtype=">i8").tobytes(),
    }


def secret_prime(key: SecretKey) -> int:
    """Return p."""
    return int.from_bytes(key.to_bytes(), "big")
