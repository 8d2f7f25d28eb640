"""Nodes with pinned keys notice when a server substitutes or replays a key."""

from typing import Any

import pytest
from adversary.test_committee import federation as with_committee
from protocol.federation import Federation, joined
from protocol.nodes import (
    KEYS,
    NUM_CLIENTS,
    TRUSTED,
    federation,
    pinned_federation,
    set_policy,
)

from dubhe_flwr.errors import QuorumError, StaleMessageError, UntrustedError
from dubhe_flwr.he.sealing import RecipientKey, seal
from dubhe_flwr.he.secret_key import generate_secret_key
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import Fields, Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.node.memory import REMEMBERED_EPOCHS, Membership
from dubhe_flwr.protocol.wire.envelope import read_request

Nodes = Federation[CoordinatorState]


def untrusted(nodes: Nodes) -> list[str]:
    """Return the nodes' errors about untrusted keys."""
    return [str(error) for error in nodes.errors if isinstance(error, UntrustedError)]


def nodes_with(pinned: bool) -> Nodes:
    """Return nodes with or without pinned keys, and a server."""
    return pinned_federation() if pinned else federation()


def statement(node: Membership, told: Fields) -> bytes:
    """Return what the first opener signs for a node, and under which it seals a key."""
    own, request = RecipientKey.from_bytes(node.delivery_key), read_request(told)[1]
    vault: Any = node.terms.vault
    made: bytes = vault.statement(node.epoch, request, own.public_bytes, 0)
    return made


def sealed_anew(node: Membership, key: bytes, told: Fields) -> Fields:
    """Return a request to register with a key that is sealed as the opener would."""
    own = RecipientKey.from_bytes(node.delivery_key).public_bytes
    return {**told, "sealed-key": seal(key, own, statement(node, told))}


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("lie", ["its own key", "a wrong number of nodes"])
def test_what_the_agent_signs_and_seals(lie: str, pinned: bool) -> None:
    """A server plays the agent: seals open, but no node with pinned keys registers; others do.

    The agent's own key opens with no other number of nodes. With a larger one, an agent would
    decrypt more sums, and sums over all clients.
    """
    nodes, own_key, own = nodes_with(pinned), generate_secret_key(512), RecipientKey.generate()

    def alter(stage: str, node_id: int, request: Fields) -> Fields:
        if stage != Stage.REGISTER:
            return request
        if lie != "its own key":
            return {**request, "num-joined": 1000}
        made = {"public": own_key.public_key.to_bytes(), "opener-keys": own.public_bytes}
        return sealed_anew(joined(nodes, node_id), own_key.to_bytes(), {**request, **made})

    nodes.alter_request = alter
    nodes.deliver(nodes.until(Stage.REGISTER))
    is_refused = pinned or lie != "its own key"
    assert len(untrusted(nodes)) == NUM_CLIENTS * pinned
    assert len(nodes.errors) == NUM_CLIENTS * is_refused
    assert all((joined(nodes, n).registered is None) == is_refused for n in nodes.ids)


@pytest.mark.parametrize("forgets", ["many epochs", "everything"])
@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("make", [nodes_with, lambda pinned: with_committee(pinned=pinned)])
def test_a_leaked_key_of_an_old_epoch_opens_nothing(make: Any, pinned: bool, forgets: str) -> None:
    """A node that forgot the epoch joins it with a new delivery key, which no opener has signed.

    All openers collude with the server, but only after the epoch.
    """
    nodes = make(pinned)
    nodes.play(1)
    node_id = nodes.ids[-1]
    told: Any = {e.stage: e.request for e in nodes.exchanges if e.node_id == node_id}
    join, old, place = told[Stage.JOIN], told[Stage.REGISTER], joined(nodes, node_id)
    leaked = RecipientKey.from_bytes(place.delivery_key)
    key = leaked.decrypt(old["sealed-key"], statement(place, old))
    if forgets == "everything":  # a new run, or a SuperNode that was restarted
        del nodes.memories[node_id]
    else:
        set_policy(nodes, node_id, max_epochs_per_day=2 * REMEMBERED_EPOCHS)
        for number in range(REMEMBERED_EPOCHS):
            with pytest.raises(StaleMessageError):  # it still remembers the epoch
                nodes.session(node_id).handle(join)
            nodes.handle(node_id, {**join, "epoch": bytes([number]) * 16})
    nodes.handle(node_id, join)
    for request in (old, sealed_anew(joined(nodes, node_id), key, old))[not pinned :]:
        if pinned:
            with pytest.raises(UntrustedError, match="Opener 1 is not a trusted node that signed"):
                nodes.handle(node_id, request)
        else:
            nodes.handle(node_id, request)
    assert (joined(nodes, node_id).registered is None) == pinned


def test_a_trusted_key_has_one_node() -> None:
    """Another node that signs with it stays out alone."""
    nodes = pinned_federation(trusted_keys=iter(TRUSTED))
    set_policy(nodes, nodes.ids[5], pinned=PinnedKeys(KEYS[0], TRUSTED))
    plan = nodes.play(1)
    assert plan.num_registered == NUM_CLIENTS - 1
    assert plan.stages[0].dropped == {"signing key of another node": 1}
    assert nodes.errors == []


def test_a_server_without_the_keys_gets_no_nodes_that_pin_them() -> None:
    """The error names the reason, and what to give the server."""
    nodes = pinned_federation(trusted_keys=None)
    with pytest.raises(QuorumError, match=r"needs trusted keys at join.*trusted_keys=load_trusted"):
        nodes.play(1)
    assert nodes.stages() == ["join"]


def test_an_intruder_takes_no_place() -> None:
    """A node that copies a trusted node's join key is left out; the trusted node is not."""
    nodes = pinned_federation()
    batch: Any = nodes.begin(1)
    replies: Any = nodes.deliver(batch)
    first, last = nodes.ids[0], nodes.ids[-1]
    copied = {k: v for k, v in replies[last].items() if k != "signature"} | {"alias": "intruder"}
    outcome: Any = nodes.step({**replies, first: copied})
    assert outcome.header.stage == Stage.APPOINT
    assert set(nodes.state.run.aliases) == set(nodes.ids) - {first}
