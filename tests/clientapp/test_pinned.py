"""Pinned keys and a dishonest node from end to end, in both APIs, on the in-process Grid."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from apis import Api, in_both_apis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, Context, Message, RecordDict
from numpy.typing import NDArray
from protocol.federation import decrypted, encrypted
from support import LABEL_COUNTS, NUM_NODES, SELECTION

from dubhe_flwr.core import fixed_point_distribution, overall_registry, with_square
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he import RecipientKey, generate_secret_key, seal
from dubhe_flwr.protocol import Fields, Memory
from dubhe_flwr.protocol.node.memory import Joined
from dubhe_flwr.protocol.wire.terms import sealing_context

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(NUM_NODES)]
Alter = Callable[[Any, str, int, Fields], Fields]

pytestmark = in_both_apis


def own_key(context: Context) -> Ed25519PrivateKey:
    """Return the key of a node by its partition."""
    return KEYS[int(context.node_config["partition-id"])]


PINNED: dict[str, Any] = {
    "signing_key": own_key,
    "trusted_keys": [key.public_key() for key in KEYS],
}


def honest(_grid: Any, _stage: str, _node_id: int, fields: Fields) -> Fields:
    """Change nothing."""
    return fields


def run(
    api: Api, request: Alter = honest, reply: Alter = honest, num_rounds: int = 1, **options: Any
) -> tuple[Any, Any, Callable[[str, str], list[Any]]]:
    """Run a federation whose messages are altered on their way.

    Return grid, strategy, and what finds a field in all messages of a stage.
    """
    grid, strategy = api.grid(**options), api.dubhe()
    answer = grid._answer
    seen: list[tuple[str, Any]] = []

    def change(message: Message, stage: str, node_id: int, alter: Alter) -> None:
        fields: Any = dict(message.content["dubhe"])
        seen.append((stage, fields))
        # The requests of a batch may share their content.
        record = ConfigRecord(dict(alter(grid, stage, node_id, fields)))
        message.content = RecordDict({"dubhe": record})

    def altered(message: Message) -> Any:
        kind, node_id = message.metadata.message_type, message.metadata.dst_node_id
        stage = kind.removeprefix("evaluate.dubhe_")
        if stage == kind:
            return answer(message)
        change(message, stage, node_id, request)
        response = answer(message)
        if response.has_content():
            change(response, stage, node_id, reply)
        return response

    grid._answer = altered
    with suppress(QuorumError):
        api.run(strategy, grid, num_rounds)

    def fields(stage: str, name: str) -> list[Any]:
        return [found[name] for of, found in seen if of == stage and name in found]

    return grid, strategy, fields


def joined(grid: Any, node_id: int) -> Joined:
    """Return what a node keeps of its epoch."""
    kept = grid.contexts[node_id].state.config_records["dubhe"]
    memory = Memory.from_fields(dict(kept))
    assert memory.joined is not None
    return memory.joined


def test_nodes_that_trust_each_other_train(api: Api) -> None:
    """With keys on all sides the same clients are chosen as without, on every side signed."""
    _, strategy, fields = run(api, num_rounds=2, **PINNED)
    _, plain, unsigned = run(api, num_rounds=2)
    assert strategy.selected == plain.selected
    for stage, name in (
        ("join", "signature"),
        ("keygen", "signatures"),
        ("register", "key.signature"),
    ):
        assert fields(stage, name)
        assert not unsigned(stage, name)


def substituted(_grid: Any, stage: str, _node_id: int, fields: Fields) -> Fields:
    """Give the agent a key of the server's own among those of the nodes."""
    if stage != "keygen":
        return fields
    keys: Any = fields["public-keys"]
    return {**fields, "public-keys": keys[:-32] + RecipientKey.generate().public_bytes}


def misled(grid: Any, stage: str, node_id: int, fields: Fields) -> Fields:
    """Show every second node another budget of draws."""
    if stage == "join" and list(grid.contexts).index(node_id) % 2:
        return {**fields, "max-draws": 99_999}
    return fields


def played(secret_key: Any, own: RecipientKey) -> Alter:
    """Return what seals a key of the server's own to the nodes."""

    def alter(grid: Any, stage: str, node_id: int, fields: Fields) -> Fields:
        if stage != "register":
            return fields
        node = joined(grid, node_id)
        public_key, layout = secret_key.public_key, node.terms.layout
        context = sealing_context(node.epoch, own.public_bytes, layout)
        recipient = RecipientKey.from_bytes(node.delivery_key).public_bytes
        return {
            **fields,
            "key.modulus": public_key.to_bytes(),
            "key.agent-public-key": own.public_bytes,
            "key.sealed-key": seal(secret_key, recipient, context),
        }

    return alter


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
    api: Api, attack: Alter, said: str, num_found: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents or recipients refuse, their log says why, and no label is encrypted for the server."""
    with caplog.at_level(logging.ERROR, logger="flwr"):
        *_, fields = run(api, attack, **PINNED)
    assert sum(said in record.message for record in caplog.records) >= num_found
    assert not fields("register", "registration")
    caplog.clear()
    with caplog.at_level(logging.ERROR, logger="flwr"):
        *_, fields = run(api, attack)
    assert said not in caplog.text
    assert fields("register", "registration")  # without keys the server gets its way


LIES: dict[str, Callable[[NDArray[np.int64]], NDArray[np.int64]]] = {
    "two categories": lambda slots: (np.arange(len(slots)) < 2).astype(np.int64),
    "a huge number": lambda slots: slots * 1_000,
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_dishonest_node_registers_chooses_nobody(api: Api, lie: str) -> None:
    """Its epoch is refused; the round is of another one, in which all sums are of honest nodes."""
    liar = 17

    def dishonest(grid: Any, stage: str, node_id: int, fields: Fields) -> Fields:
        if stage != "register" or grid.contexts[node_id].node_config["partition-id"] != liar:
            return fields
        node, vector = joined(grid, node_id), fields["registration"]
        assert isinstance(vector, bytes)
        slots = LIES[lie](decrypted(node, "registration", vector))
        return {**fields, "registration": encrypted(node, "registration", slots)}

    grid, strategy, _ = run(api, reply=dishonest)
    plan, epoch = strategy.plan, strategy.driver.run.state.epoch
    members = [int(alias) for alias in epoch.aliases.values()]
    assert len(plan.participants) == 6
    assert not plan.fallback
    assert liar not in members
    assert "24 of 24 nodes refused at participate" in plan.notes[0]
    rule, insider = SELECTION["rule"], joined(grid, epoch.registered[0])
    expected, _ = overall_registry(LABEL_COUNTS[members], rule.codebook, rule.candidates[0])
    found = decrypted(insider, "registration", epoch.last_sum.sums)
    np.testing.assert_array_equal(found, expected)
    for alias, vector in zip(members, epoch.distributions, strict=True):
        shares = with_square(fixed_point_distribution(LABEL_COUNTS[alias]))
        np.testing.assert_array_equal(decrypted(insider, "distribution", vector), shares)
