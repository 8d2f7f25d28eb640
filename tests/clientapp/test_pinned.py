"""Pinned keys from end to end, in both APIs, on the in-process Grid."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from apis import Api, in_both_apis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, Context, Message, RecordDict
from support import NUM_NODES

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he import RecipientKey, generate_secret_key, seal
from dubhe_flwr.protocol import Fields, Memory
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
    api: Api, alter: Alter = honest, num_rounds: int = 1, **options: Any
) -> tuple[Any, Callable[[str, str], list[Any]]]:
    """Run a federation whose server alters its requests.

    Return the strategy, and what finds a field in all messages of a stage.
    """
    grid, strategy = api.grid(**options), api.dubhe()
    answer = grid._answer
    seen: list[tuple[str, Any]] = []

    def altered(message: Message) -> Any:
        kind = message.metadata.message_type
        stage = kind.removeprefix("evaluate.dubhe_")
        if stage == kind:
            return answer(message)
        node_id = message.metadata.dst_node_id
        fields: Any = dict(message.content["dubhe"])
        seen.append((stage, fields))
        # The requests of a batch may share their content.
        record = ConfigRecord(dict(alter(grid, stage, node_id, fields)))
        message.content = RecordDict({"dubhe": record})
        reply = answer(message)
        if reply.has_content():
            seen.append((stage, dict(reply.content["dubhe"])))
        return reply

    grid._answer = altered
    with suppress(QuorumError):
        api.run(strategy, grid, num_rounds)
    return strategy, lambda stage, name: [f[name] for s, f in seen if s == stage and name in f]


def test_nodes_that_trust_each_other_train(api: Api) -> None:
    """With keys on all sides the same clients are chosen as without, on every side signed."""
    strategy, fields = run(api, num_rounds=2, **PINNED)
    plain, unsigned = run(api, num_rounds=2)
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
        kept = grid.contexts[node_id].state.config_records["dubhe"]
        joined = Memory.from_fields(dict(kept)).joined
        assert joined is not None
        public_key, layout = secret_key.public_key, joined.terms.layout
        context = sealing_context(joined.epoch, own.public_bytes, public_key, layout)
        recipient = RecipientKey.from_bytes(joined.delivery_key).public_bytes
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
        _, fields = run(api, attack, **PINNED)
    assert sum(said in record.message for record in caplog.records) >= num_found
    assert not fields("register", "registration")
    caplog.clear()
    with caplog.at_level(logging.ERROR, logger="flwr"):
        _, fields = run(api, attack)
    assert said not in caplog.text
    assert fields("register", "registration")  # without keys the server gets its way
