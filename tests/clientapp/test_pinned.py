"""Pinned keys from end to end, in both APIs, on the in-process Grid.

What each attack comes to is tested without a runtime, in `tests/adversary/test_forged_keys.py`.
"""

import logging
from contextlib import suppress
from typing import Any

import pytest
from apis import Api, in_both_apis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, Context, Message, RecordDict
from support import NUM_NODES

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he import RecipientKey, generate_secret_key, seal
from dubhe_flwr.protocol import Memory
from dubhe_flwr.protocol.wire.terms import sealing_context

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(NUM_NODES)]

pytestmark = in_both_apis


def own_key(context: Context) -> Ed25519PrivateKey:
    """Return the key of a node by its partition."""
    return KEYS[int(context.node_config["partition-id"])]


PINNED: dict[str, Any] = {
    "signing_key": own_key,
    "trusted_keys": [key.public_key() for key in KEYS],
}


def told(grid: Any) -> set[str]:
    """Return a set that grows by the fields of all requests and replies of a Grid."""
    answer, names = grid._answer, set[str]()

    def watched(message: Message) -> Any:
        reply = answer(message)
        for one in (message, reply):
            if one.has_content():
                names.update(*(record for record in one.content.config_records.values()))
        return reply

    grid._answer = watched
    return names


def test_nodes_that_trust_each_other_train(api: Api) -> None:
    """With keys on all sides the same clients are chosen as without, on every side signed."""
    selected, signed = [], []
    for options in (PINNED, {}):
        grid, strategy = api.grid(**options), api.dubhe()
        names = told(grid)
        api.run(strategy, grid, 2)
        selected.append(strategy.selected)
        signed.append(names & {"signature", "signatures", "key.signature"})
    assert selected[0] == selected[1]
    assert signed == [{"signature", "signatures", "key.signature"}, set()]


def play_the_agent(grid: Any) -> None:
    """Let the server seal a key of its own to the nodes."""
    answer, own_secret, own = grid._answer, generate_secret_key(512), RecipientKey.generate()

    def altered(message: Message) -> Any:
        if message.metadata.message_type == "evaluate.dubhe_register":
            state = grid.contexts[message.metadata.dst_node_id].state
            node = Memory.from_fields(dict(state.config_records["dubhe"])).joined
            assert node is not None
            key, layout = own_secret.public_key, node.terms.layout
            context = sealing_context(node.epoch, own.public_bytes, layout)
            recipient = RecipientKey.from_bytes(node.delivery_key).public_bytes
            forged: Any = {
                "key.modulus": key.to_bytes(),
                "key.agent-public-key": own.public_bytes,
                "key.sealed-key": seal(own_secret, recipient, context),
            }
            fields = dict(message.content["dubhe"]) | forged
            message.content = RecordDict({"dubhe": ConfigRecord(fields)})
        return answer(message)

    grid._answer = altered


@pytest.mark.parametrize("pinned", [True, False])
def test_an_active_server_is_found_out(
    api: Api, pinned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each node's log says why, and no label is encrypted for the server; without keys it wins."""
    grid = api.grid(**(PINNED if pinned else {}))
    names = told(grid)
    play_the_agent(grid)
    with caplog.at_level(logging.ERROR, logger="flwr"), suppress(QuorumError):
        api.run(api.dubhe(), grid, 1)
    found = sum("No trusted agent made this key" in line for line in caplog.messages)
    assert (found >= NUM_NODES) == pinned == (found > 0)
    assert ("registration" in names) != pinned
