"""Pinned keys and blocks from end to end, for both strategies, on the in-process Grid."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dubhe_flwr.protocol.parameters import epoch_parameters, sealing_context
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.server.strategy import FedAvg as FitFedAvg
from flwr.serverapp.strategy import FedAvg
from protocol.dishonest import KINDS, forged
from protocol.federation import decrypted
from support import (
    LABEL_COUNTS,
    NUM_NODES,
    SELECTION,
    initial_parameters,
    main_server_app,
    message_client_app,
    numpy_client_app,
    skewed_label_counts,
    strategy_server_app,
)

from dubhe_flwr import server, serverapp
from dubhe_flwr.core import fixed_point_distribution, overall_registry, with_square
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he import RecipientKey, generate_secret_key, seal
from dubhe_flwr.protocol import Fields, Memory
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
            self.__dict__.setdefault("seen", []).append((stage, metadata.dst_node_id, fields))
            altered = alter(self, stage, metadata.dst_node_id, fields)
            # The requests of a batch may share their content.
            message.content = RecordDict({"dubhe": ConfigRecord(dict(altered))})

    def session(self, node_id: int) -> Memory:
        """Return what a node keeps."""
        return Memory.from_fields(self.contexts[node_id].state.config_records["dubhe"])

    def fields(self, stage: str, name: str) -> list[Any]:
        """Return a field of all messages of a stage that have it."""
        return [f[name] for s, _, f in self.__dict__["seen"] if s == stage and name in f]


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
            pass

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
    assert all(map(any, grid.fields("join", "signature")))
    assert not any(map(any, plain.fields("join", "signature")))
    for stage, name in (("join", "signature"), ("keygen", "signatures"), ("register", "signature")):
        sizes = [list(map(len, g.fields(stage, name))) for g in (grid, plain)]
        assert sizes[0] == sizes[1]


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
        state = grid.session(node_id)
        layout = epoch_parameters(state.parameters).layout
        context = sealing_context(state.epoch, own.public_bytes, secret_key.public_key, layout)
        recipient = RecipientKey.from_bytes(state.recipient_key).public_bytes
        return {
            **fields,
            "modulus": secret_key.public_key.to_bytes(),
            "agent-public-key": own.public_bytes,
            "sealed-key": seal(secret_key, recipient, context),
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
        (substituted, "to seal to is of no trusted node", 3),
        (misled, "to seal to is of no trusted node", 3),
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
    assert not grid.fields("register", "registry")
    caplog.clear()
    with caplog.at_level(logging.ERROR, logger="flwr"):
        grid, _ = federation(attack, options={})
    assert not any(said in record.message for record in caplog.records)
    assert grid.fields("register", "registry")  # without keys the server gets its way


@pytest.mark.parametrize("kind", ["twice", "a negative slot", "a huge slot", "half a distribution"])
def test_a_dishonest_registry_costs_its_block(kind: str, federation: Any) -> None:
    """Of sixty nodes six are left out and named, and the sums are exactly those of the rest."""
    num_nodes = 60
    counts = skewed_label_counts(num_nodes, seed=3)

    def dishonest(grid: AttackedGrid, stage: str, node_id: int, fields: Fields) -> Fields:
        if stage != "register" or grid.contexts[node_id].node_config["partition-id"] != 17:
            return fields
        name, spoil = KINDS[kind]
        vector: Any = fields[name]
        return {**fields, name: forged(grid.session(node_id), name, vector, spoil)}

    grid, strategy = federation(
        alter_reply=dishonest, num_nodes=num_nodes, counts=counts, options={}, block_size=6
    )
    epoch = strategy.driver.run.state.epoch
    rest = [int(alias) for alias in epoch.aliases.values()]
    assert len(rest) == 54
    assert 17 not in rest
    left_out = ", ".join(str(node) for node in range(num_nodes) if node not in rest)
    assert strategy.plan.notes[0].endswith(f"left out of this epoch: nodes {left_out}.")
    assert len(strategy.plan.participants) == SELECTION["num_participants"]
    rule = SELECTION["rule"]
    expected, _ = overall_registry(counts[rest], rule.codebook, rule.candidates[0])
    insider = grid.session(epoch.registered[0])
    found = decrypted(insider, "registry", epoch.overall_registry)
    np.testing.assert_array_equal(found, expected)
    for alias, vector in zip(epoch.aliases.values(), epoch.distributions, strict=True):
        own = decrypted(insider, "distribution", vector)
        shares = with_square(fixed_point_distribution(counts[int(alias)]))
        np.testing.assert_array_equal(own, shares)
