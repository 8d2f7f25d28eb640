"""One node and what it is asked, for the tests of what it answers and refuses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    encrypted,
    joined,
    secret_key,
    skewed_counts,
)

from dubhe_flwr.errors import ProtocolError, SettingsError
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import Fields, Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.node.memory import Memory
from dubhe_flwr.protocol.wire.codec import Message, encode
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.terms import REGISTRATION, SETTLEMENT
from dubhe_flwr.rules import Frame, Own, Population, Rule, Settled, Slots, Unsettled, register_rule

NUM_CLIENTS = 9
COUNTS = skewed_counts(NUM_CLIENTS)
SETTINGS: dict[str, Any] = {
    "num_participants": 4, "reference_set": (1, 2, 4), "thresholds": {1: 0.6, 2: 0.3}, "tries": 4,
    "registration_interval": 10, "max_registered": 20,
}  # fmt: skip
SCALE = 2**20

_READING = {
    f"joined.registered.{name}"
    for name in ("has-refused", "num-read", "num-registered", "num-clients", "is-settled")
} | {"joined.registered.probability", "joined.registered.state"}
_CHARGES: dict[str, set[str]] = {
    Stage.APPOINT: {"joined.was-appointed"},
    Stage.DETERMINE: {"joined.registered.num-sums"},
    Stage.SETTLE: _READING,
}
"""What a refused request of a stage may cost."""


@register_rule
@dataclass(frozen=True)
class Exchanges(Rule):
    """A rule as a user may write it, with exchanges, NumPy numbers and errors of its own."""

    number: int = 0
    local_skew: float = 0.0

    name: ClassVar[str] = f"exchanges of {__name__}"  # pytest imports this module twice

    def __post_init__(self) -> None:
        if self.number < 0:
            raise SettingsError("number is below 0.")

    def registration_slots(self, frame: Frame) -> Slots:
        """Return one slot, whatever the labels are."""
        return Slots(1, 1)

    def settlement_slots(self, frame: Frame) -> Slots | None:
        """Return one slot, which counts the exchanges."""
        return Slots(1, 9)

    def num_sums(self, frame: Frame) -> int:
        """Return the sums of the registrations and of this number of exchanges."""
        return 1 + self.number

    def contribution(self, own: Own, population: Population) -> Any:
        """Return a one for every node."""
        return np.ones(1, dtype=np.int64)

    def settle(
        self, own: Own, population: Population, state: tuple[float, ...] | None, sums: Any
    ) -> Settled | Unsettled:
        """Return K divided by the last sum, which may be zero."""
        state = state or ()
        probability = np.float64(min(1.0, population.num_participants / int(sums[0])))
        if len(state) == self.number:
            return Settled(probability)
        number = len(state) + 1
        return Unsettled(np.array([number]), (*state, probability))


def federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return nine nodes and a server."""
    return dubhe(COUNTS, **SETTINGS | overrides)


def next_request(
    nodes: Federation[CoordinatorState], stage: Stage, server_round: int = 1
) -> tuple[int, Fields]:
    """Play up to a stage; return one node that is asked, and its request."""
    batch = nodes.until(stage, server_round)
    return next(iter(batch.fields.items()))


def asked_to_settle(exchange: int = 0) -> tuple[Federation[CoordinatorState], int, Fields]:
    """Return nodes that search for thresholds, one of them, and what it is asked in an exchange."""
    nodes = federation(thresholds="search")
    batch: Any = nodes.until(Stage.SETTLE)
    for _ in range(exchange):
        batch = nodes.step(nodes.deliver(batch))
    node_id, request = next(iter(batch.fields.items()))
    return nodes, node_id, request


def with_slots(nodes: Federation[Any], node_id: int, request: Fields, slots: Any) -> Fields:
    """Return the request with another sum."""
    field = SETTLEMENT if request["rule-sum.number"] else REGISTRATION
    total = encrypted(joined(nodes, node_id), field, np.ravel(slots))
    return {**request, "rule-sum.sums": total}


def slots_of(nodes: Federation[Any], node_id: int, request: Any) -> NDArray[np.int64]:
    """Return what the sum of a request holds."""
    field = SETTLEMENT if request["rule-sum.number"] else REGISTRATION
    return decrypted(joined(nodes, node_id), field, request["rule-sum.sums"])


def refuses(
    nodes: Federation[CoordinatorState],
    node_id: int,
    request: Any,
    error: type[ProtocolError],
    match: str,
) -> ProtocolError:
    """Check that a request is refused for that reason, and changes nothing but what it costs."""
    session = nodes.session(node_id)
    kept = session.memory
    before = encode(kept)
    with pytest.raises(error, match=match) as refusal:
        session.handle(request)
    assert encode(kept) == before
    assert only_charged(kept, session.memory, request)
    return refusal.value


def only_charged(before: Memory, after: Memory, request: Mapping[str, object]) -> bool:
    """Return whether a refused request changed nothing, or no more than what it costs."""
    if after is before:
        return True
    old, new = encode(before), encode(after)
    changed = {name for name in old.keys() | new.keys() if new.get(name) != old.get(name)}
    charges = _CHARGES.get(str(request["stage"]), set())
    return bool(changed & charges) and changed <= charges | {"sequence"}


def seal(epoch: bytes, stage: Stage, sequence: int, body: Message) -> Fields:
    """Return a request as a server would send it."""
    return Envelope(epoch, stage.value, sequence).seal(body)


def secret_prime(nodes: Federation[Any], node_id: int) -> int:
    """Return p."""
    return int.from_bytes(secret_key(joined(nodes, node_id)).to_bytes(), "big")


def signing_key(number: int) -> Ed25519PrivateKey:
    """Return the same key for the same number."""
    return Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


KEYS = [signing_key(number) for number in range(NUM_CLIENTS)]
TRUSTED = [key.public_key() for key in KEYS]


def pinned_federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return nine nodes with pinned keys, and a server."""
    nodes = federation(**{"trusted_keys": TRUSTED, **overrides})
    for node_id, key in zip(nodes.ids, KEYS, strict=True):
        set_policy(nodes, node_id, pinned=PinnedKeys(key, TRUSTED))
    return nodes


def set_policy(nodes: Federation[Any], node_id: int, **changes: Any) -> None:
    """Let the owner of a node decide otherwise."""
    nodes.policies[node_id] = replace(nodes.policies[node_id], **changes)
