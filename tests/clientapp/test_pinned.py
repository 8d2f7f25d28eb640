"""Pinned keys and a dishonest node from end to end, for both strategies, on the in-process Grid."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.server.strategy import FedAvg as FitFedAvg
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray
from protocol.federation import decrypted, encrypted
from support import (
    LABEL_COUNTS,
    NUM_NODES,
    SELECTION,
    initial_parameters,
    main_server_app,
    message_client_app,
    numpy_client_app,
    strategy_server_app,
)

from dubhe_flwr import server, serverapp
from dubhe_flwr.core import fixed_point_distribution, overall_registry, with_square
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he import RecipientKey, generate_secret_key, seal
from dubhe_flwr.protocol import Fields, Memory
from dubhe_flwr.protocol.node.memory import Joined
from dubhe_flwr.protocol.wire.terms import sealing_context
from dubhe_flwr.simulation import InProcessGrid

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(NUM_NODES)]
TRUSTED = [key.public_key() for key in KEYS]
Alter = Callable[["AttackedGrid", str, int, Fields], Fields]


def own_key(context: Context) -> Ed25519PrivateKey:
    """Return the key of a node by its partition."""
    return KEYS[int(context.node_config["partition-id"])]


PINNED: dict[str, Any] = {"signing_key": own_key, "trusted_keys": TRUSTED}


class AttackedGrid(InProcessGrid):
    """A network, or a server, that changes the protocol's messages on the way."""

    alter_request: Alter = staticmethod(lambda _g, _s, _n, fields: fields)
    alter_reply: Alter = staticmethod(lambda _g, _s, _n, fields: fields)
    seen: ClassVar[list[tuple[str, int, Fields]]]

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        for message in messages:
            self.change(message.metadata, message, type(self).alter_request)
        ids = list(super().push_messages(messages))
        for message in messages:
            reply = self._replies[message.metadata.message_id]
            if reply.has_content():
                self.change(message.metadata, reply, type(self).alter_reply)
        return ids

    def change(self, metadata: Any, message: Message, alter: Alter) -> None:
        """Put altered fields in the place of those of a message."""
        stage = metadata.message_type.removeprefix("evaluate.dubhe_")
        if stage != metadata.message_type:
            fields: Any = dict(message.content.config_records["dubhe"])
            self.seen.append((stage, metadata.dst_node_id, fields))
            altered = alter(self, stage, metadata.dst_node_id, fields)
            # The requests of a batch may share their content.
            message.content = RecordDict({"dubhe": ConfigRecord(dict(altered))})

    def joined(self, node_id: int) -> Joined:
        """Return what a node keeps of its epoch."""
        memory = Memory.from_fields(self.contexts[node_id].state.config_records["dubhe"])
        assert memory.joined is not None
        return memory.joined

    def fields(self, stage: str, name: str) -> list[Any]:
        """Return a field of all messages of a stage that have it."""
        return [f[name] for s, _, f in self.seen if s == stage and name in f]


@pytest.fixture(params=["fit", "train"])
def federation(request: pytest.FixtureRequest) -> Callable[..., tuple[AttackedGrid, Any]]:
    """Return what runs a federation under either strategy."""

    def run(
        alter_request: Any = None,
        *,
        alter_reply: Any = None,
        num_nodes: int = NUM_NODES,
        num_rounds: int = 1,
        counts: Any = LABEL_COUNTS,
        options: dict[str, Any] = PINNED,
        **settings: Any,
    ) -> tuple[AttackedGrid, Any]:
        class Grid(AttackedGrid):
            seen: ClassVar = []

        if alter_request:
            Grid.alter_request = staticmethod(alter_request)
        if alter_reply:
            Grid.alter_reply = staticmethod(alter_reply)

        def label_counts(context: Context) -> Any:
            return counts[int(context.node_config["partition-id"])]

        settings = SELECTION | settings
        app: Any
        strategy: Any
        if request.param == "fit":
            app = numpy_client_app(label_counts, **options)
            inner = FitFedAvg(fraction_evaluate=0.0, initial_parameters=initial_parameters())
            strategy = server.Dubhe(inner, **settings)
            server_app = strategy_server_app(strategy, num_rounds)
        else:
            app = message_client_app(label_counts, **options)
            strategy = serverapp.Dubhe(FedAvg(fraction_evaluate=0.0), **settings)
            server_app = main_server_app(strategy, num_rounds)
        grid = Grid(app, num_nodes)
        with suppress(QuorumError):
            server_app(grid, Context(grid.run.run_id, 1, {}, RecordDict(), {}))
        return grid, strategy

    return run


def test_nodes_that_trust_each_other_train(federation: Any) -> None:
    """With keys on all sides the same clients are chosen as without, on every side signed."""
    grid, strategy = federation(num_rounds=2)
    plain, other = federation(num_rounds=2, options={})
    assert strategy.plan.aliases == other.plan.aliases
    assert len(grid.fields("join", "signature")) == NUM_NODES
    assert len(grid.fields("keygen", "signatures")) == 2  # of those who joined, and of the agent
    assert len(grid.fields("register", "key.signature")) == NUM_NODES
    names = {name for _, _, fields in plain.seen for name in fields}
    assert not any("signature" in name for name in names)


def substituted(_grid: AttackedGrid, stage: str, _node_id: int, fields: Fields) -> Fields:
    """Give the agent a key of the server's own among those of the nodes."""
    if stage != "keygen":
        return fields
    keys: Any = fields["public-keys"]
    return {**fields, "public-keys": keys[:-32] + RecipientKey.generate().public_bytes}


def played(secret_key: Any, own: RecipientKey) -> Alter:
    """Return what seals a key of the server's own to the nodes."""

    def alter(grid: AttackedGrid, stage: str, node_id: int, fields: Fields) -> Fields:
        if stage != "register":
            return fields
        joined = grid.joined(node_id)
        layout, public_key = joined.terms.layout, secret_key.public_key
        context = sealing_context(joined.epoch, own.public_bytes, public_key, layout)
        recipient = RecipientKey.from_bytes(joined.delivery_key).public_bytes
        return {
            **fields,
            "key.modulus": public_key.to_bytes(),
            "key.agent-public-key": own.public_bytes,
            "key.sealed-key": seal(secret_key, recipient, context),
        }

    return alter


def misled(grid: AttackedGrid, stage: str, node_id: int, fields: Fields) -> Fields:
    """Show every second node another budget of draws."""
    if stage == "join" and list(grid.contexts).index(node_id) % 2:
        return {**fields, "max-draws": 99_999}
    return fields


@pytest.mark.parametrize(
    ("attack", "said", "num_found"),
    [
        (substituted, "to seal to is not of a trusted node", 3),
        (misled, "to seal to is not of a trusted node", 3),
        (
            played(generate_secret_key(512), RecipientKey.generate()),
            "No trusted agent made this key",
            NUM_NODES,
        ),
    ],
    ids=["substitutes a join key", "shows other parameters", "plays the agent"],
)
def test_an_active_server_is_found_out(
    attack: Alter,
    said: str,
    num_found: int,
    federation: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Agents or recipients refuse, their log says why, and no label is encrypted for the server."""
    with caplog.at_level(logging.ERROR, logger="flwr"):
        grid, _ = federation(attack)
    found = [record.message for record in caplog.records if said in record.message]
    assert len(found) >= num_found
    assert not grid.fields("register", "registration")
    caplog.clear()
    with caplog.at_level(logging.ERROR, logger="flwr"):
        grid, _ = federation(attack, options={})
    assert not any(said in record.message for record in caplog.records)
    assert grid.fields("register", "registration")  # without keys the server gets its way


LIES: dict[str, Callable[[NDArray[np.int64]], NDArray[np.int64]]] = {
    "two categories": lambda slots: (np.arange(len(slots)) < 2).astype(np.int64),
    "a huge number": lambda slots: slots * 1_000,
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_dishonest_node_registers_chooses_nobody(lie: str, federation: Any) -> None:
    """Its epoch is refused; the round is of another one, in which all sums are of honest nodes."""
    liar = 17

    def dishonest(grid: AttackedGrid, stage: str, node_id: int, fields: Fields) -> Fields:
        if stage != "register" or grid.contexts[node_id].node_config["partition-id"] != liar:
            return fields
        node, vector = grid.joined(node_id), fields["registration"]
        assert isinstance(vector, bytes)
        slots = LIES[lie](decrypted(node, "registration", vector))
        return {**fields, "registration": encrypted(node, "registration", slots)}

    grid, strategy = federation(alter_reply=dishonest, options={})
    plan, epoch = strategy.plan, strategy.driver.run.state.epoch
    members = [int(alias) for alias in epoch.aliases.values()]
    assert len(plan.participants) == SELECTION["num_participants"]
    assert not plan.fallback
    assert liar not in members
    assert "24 of 24 nodes refused at participate" in plan.notes[0]
    rule, insider = SELECTION["rule"], grid.joined(epoch.registered[0])
    expected, _ = overall_registry(LABEL_COUNTS[members], rule.codebook, rule.candidates[0])
    found = decrypted(insider, "registration", epoch.last_sum.vector)
    np.testing.assert_array_equal(found, expected)
    for alias, vector in zip(members, epoch.distributions, strict=True):
        shares = with_square(fixed_point_distribution(LABEL_COUNTS[alias]))
        np.testing.assert_array_equal(decrypted(insider, "distribution", vector), shares)
