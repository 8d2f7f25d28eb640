"""A federation in memory: nodes, a server that drives a selector, and hooks for every fault."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.he.secret_key import SecretKey
from dubhe_flwr.protocol import Batch, Fields, NodeFailure, Plan
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.node.memory import Membership, Memory, Registration
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.selector import Selector
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.vaults import SumName
from dubhe_flwr.protocol.vaults.paillier import Paillier
from dubhe_flwr.protocol.wire.terms import Terms
from dubhe_flwr.rules import Paper, Prices, Tries

StateT = TypeVar("StateT")
Reply = Mapping[str, object] | NodeFailure
Nodes = Sequence[int] | None

KEY_BITS = 512
"""Smallest keys that work, for speed."""

_OF_PAPER: Final = ("reference_set", "thresholds")


@dataclass(frozen=True)
class Exchange:
    """One request and what came back to the server."""

    stage: str
    node_id: int
    request: Fields
    reply: Reply | None


def node_policies(label_counts: Iterable[ArrayLike], **overrides: Any) -> list[NodePolicy]:
    """Return a policy for each row, named by its number."""
    options = {"simulated": True, "min_key_bits": KEY_BITS} | overrides
    return [
        NodePolicy(label_counts=partial(np.asarray, counts), alias=str(row), **options)
        for row, counts in enumerate(label_counts)
    ]


def node_ids(number: int, seed: int = 0) -> list[int]:
    """Return distinct ids of 64 unsigned bits in no order, as Flower draws them."""
    ids = generator(seed, "ids").integers(2, 2**64, number, dtype=np.uint64).tolist()
    assert len(set(ids)) == number
    return list(ids)


class Federation(Generic[StateT]):
    """Nodes and a server in one process; a state that is passed in is checked to stay as it was."""

    def __init__(
        self, selector: Selector[StateT], policies: Sequence[NodePolicy], seed: int = 0
    ) -> None:
        self.selector = selector
        self.ids = node_ids(len(policies), seed)
        self.policies = dict(zip(self.ids, policies, strict=True))
        self.memories: dict[int, Fields] = {}
        self.state = selector.initial_state()
        self.exchanges: list[Exchange] = []
        self.errors: list[ProtocolError] = []
        # What the network does to a message of a stage and node; None loses it.
        self.alter_request: Callable[[str, int, Fields], Fields | None] = lambda _s, _n, r: r
        self.alter_reply: Callable[[str, int, Fields], Reply | None] = lambda _s, _n, r: r

    def session(self, node_id: int) -> ClientSession:
        """Return the node's session as it wakes up for a request."""
        memory = self.memories.get(node_id)
        kept = Memory() if memory is None else Memory.from_fields(memory)
        return ClientSession(self.policies[node_id], kept)

    def handle(self, node_id: int, request: Mapping[str, object]) -> Fields:
        """Let a node answer a request and keep its state."""
        session = self.session(node_id)
        try:
            return session.handle(request)
        finally:
            if session.memory != Memory():
                self.memories[node_id] = session.memory.to_fields()

    def deliver(self, batch: Batch) -> dict[int, Reply]:
        """Carry a batch to the nodes and the replies back."""
        replies: dict[int, Reply] = {}
        stage = batch.header.stage
        for node_id, request in batch.fields.items():
            reply = self._carry(stage, node_id, request)
            self.exchanges.append(Exchange(stage, node_id, request, reply))
            if reply is not None:
                replies[node_id] = reply
        return replies

    def begin(
        self, server_round: int, present: Nodes = None, eligible: Nodes = None
    ) -> Batch | Plan:
        """Begin a round with these nodes, or all."""
        ids = self.ids if present is None else present
        return self._go_on(self.selector.begin_round, server_round, ids, eligible)

    def step(self, replies: Mapping[int, Reply]) -> Batch | Plan:
        """Let the server go on."""
        return self._go_on(self.selector.step, replies)

    def play(self, server_round: int, present: Nodes = None, eligible: Nodes = None) -> Plan:
        """Play a round to its plan."""
        return self.finish(self.begin(server_round, present, eligible))

    def finish(self, outcome: Batch | Plan) -> Plan:
        """Play on to the plan."""
        while isinstance(outcome, Batch):
            outcome = self.step(self.deliver(outcome))
        return outcome

    def rounds(self, first: int, last: int) -> list[Plan]:
        """Play some rounds in turn."""
        return [self.play(server_round) for server_round in range(first, last + 1)]

    def until(self, stage: str, server_round: int = 1) -> Batch:
        """Play a round up to the batch of a stage, which is not delivered."""
        outcome = self.begin(server_round)
        while isinstance(outcome, Batch) and outcome.header.stage != stage:
            outcome = self.step(self.deliver(outcome))
        assert isinstance(outcome, Batch)
        return outcome

    def stages(self) -> list[str]:
        """Return the stages that the network carried, without repetitions."""
        seen = [exchange.stage for exchange in self.exchanges]
        return [stage for stage, last in zip(seen, ["", *seen], strict=False) if stage != last]

    def _go_on(self, take_step: Callable[..., Any], *args: Any) -> Batch | Plan:
        old, before = self.state, fingerprint(self.state)
        outcome: Batch | Plan
        try:
            self.state, outcome = take_step(old, *args)
        finally:
            assert fingerprint(old) == before
        return outcome

    def _carry(self, stage: str, node_id: int, request: Fields) -> Reply | None:
        altered = self.alter_request(stage, node_id, request)
        if altered is None:
            return None
        try:
            reply = self.handle(node_id, altered)
        except ProtocolError as error:
            self.errors.append(error)
            return NodeFailure.of(error)
        return self.alter_reply(stage, node_id, reply)


def dubhe(
    label_counts: Iterable[ArrayLike],
    policy: Mapping[str, Any] | None = None,
    *,
    tries: int | None = 10,
    **settings: Any,
) -> Federation[CoordinatorState]:
    """Return a federation under Dubhe with small keys; settings may be the paper's rule's."""
    policy = {"simulated": True, **(policy or {})}
    usual: dict[str, Any] = {
        "key_bits": KEY_BITS,
        "seed": 7,
        "simulation": "encrypted" if policy["simulated"] else None,
        "max_registered": 100,
        "rounds_per_draw": 1,  # as with real nodes
        "equal_weights": True,
        "determination": None if tries is None else Tries(tries),
    }
    paper = {name: settings.pop(name) for name in _OF_PAPER if name in settings}
    if paper:
        usual["rule"] = Paper(**paper)
    coordinator = Coordinator(Settings(**usual | settings))
    return Federation(coordinator, node_policies(label_counts, **policy))


def priced(num_clients: int = 60, **settings: Any) -> Federation[CoordinatorState]:
    """Return nodes whose server uses prices; they are simulated without encryption."""
    usual: dict[str, Any] = {"rule": Prices(), "simulation": "plain", "max_registered": 256}
    return dubhe(skewed_counts(num_clients), **usual | settings)


def skewed_counts(num_clients: int, num_classes: int = 4, seed: int = 0) -> NDArray[np.int64]:
    """Return label counts of clients with one, two or many classes."""
    rng = generator(seed, "counts")
    shares = rng.dirichlet(np.full(num_classes, 0.3), size=num_clients)
    return np.asarray(rng.multinomial(1000, shares), dtype=np.int64)


def counts_with_rare_classes(num_clients: int) -> NDArray[np.int64]:
    """Return skewed label counts of ten classes; class 0 is ten times as common as 9."""
    rng, common = generator(0, "counts"), np.geomspace(10, 1, 10)
    shares = rng.dirichlet(3 * common / common.sum(), size=num_clients)
    return np.asarray(rng.multinomial(1000, shares), dtype=np.int64)


def epoch_of(federation: Federation[CoordinatorState]) -> Epoch:
    """Return the epoch that is on."""
    assert federation.state.epoch is not None
    return federation.state.epoch


def joined(federation: Federation[Any], node_id: int) -> Membership:
    """Return a node's place in the epoch."""
    found = federation.session(node_id).memory.joined
    assert found is not None
    return found


def registered(federation: Federation[Any], node_id: int) -> Registration:
    """Return what a node has since it registered."""
    found = joined(federation, node_id).registered
    assert found is not None
    return found


def paillier(terms: Terms) -> Paillier:
    """Return the vault of an epoch."""
    assert isinstance(terms.vault, Paillier)
    return terms.vault


def secret_key(node: Membership) -> SecretKey:
    """Return the epoch's key, as a registered node has it."""
    assert node.registered is not None
    return paillier(node.terms).secret_key(node.registered.keys)


def decrypted(node: Membership, field: str, vector: bytes) -> NDArray[np.int64]:
    """Decrypt and unpack a vector as a registered node could, or read one that is in the clear."""
    assert node.registered is not None
    label, most = SumName(field), node.announced.max_clients
    return node.terms.vault.read(node.registered.keys, label, vector, most)


def encrypted(node: Membership, field: str, values: ArrayLike) -> bytes:
    """Pack and encrypt any slots, also such as no sum of clients has."""
    layout = paillier(node.terms).layout
    width, step = layout.slot_bits(field), layout.slots_per_ciphertext(field)
    slots = np.asarray(values).tolist()
    return secret_key(node).encrypt(
        [
            sum(slot << (index * width) for index, slot in enumerate(slots[start : start + step]))
            for start in range(0, len(slots), step)
        ]
    )


def fingerprint(value: object) -> object:
    """Return a value that differs whenever anything inside differs."""
    inner: Any = value
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if is_dataclass(value):
        inner = [getattr(value, name) for name in value.__dataclass_fields__]
    elif isinstance(value, Mapping):
        inner = [*value, *value.values()]
    elif not isinstance(value, list | tuple):
        return value
    # Most of what is inside holds nothing else.
    return type(value), [v if type(v) in {int, bytes, str} else fingerprint(v) for v in inner]
