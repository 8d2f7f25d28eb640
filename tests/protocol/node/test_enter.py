"""Tests of how a node enters an epoch: it joins, makes the key as agent, and registers."""

from typing import Any

import pytest
from protocol.federation import joined, registered
from protocol.nodes import (
    federation,
    next_request,
    public_key_of,
    refuses,
    set_policy,
)

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he import PublicKey, RecipientKey, generate_secret_key, open_sealed
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.node.memory import Registered
from dubhe_flwr.protocol.wire.messages import JoinStatus
from dubhe_flwr.protocol.wire.terms import sealing_context

SEALED = 80
"""Bytes of a sealed key."""
NOT_OPEN = r"^register failed: SealError\.$"
TWICE = "has registered in that epoch before"


def other_modulus() -> bytes:
    """Return that of a key of nobody in the epoch."""
    return generate_secret_key(512).public_key.to_bytes()


class TestJoin:
    """A node checks the terms and reads its labels anew."""

    def test_a_node_joins_with_a_fresh_key(self) -> None:
        """Key, labels and budgets belong to the epoch; only its identity outlasts it."""
        nodes = federation(registration_interval=1)
        nodes.play(1)
        node_id = nodes.ids[2]
        old = joined(nodes, node_id)
        assert registered(nodes, node_id).num_draws > 0
        set_policy(nodes, node_id, label_counts=lambda: [0, 0, 0, 3])
        batch = nodes.until(Stage.JOIN, 2)
        reply = nodes.handle(node_id, batch.fields[node_id])
        own = joined(nodes, node_id)
        assert (reply["status"], reply["alias"], reply["num-classes"]) == (0, "2", 4)
        assert reply["public-key"] == public_key_of(nodes, node_id)
        assert own.delivery_key != old.delivery_key
        assert (own.epoch, own.label_counts, own.registered) == (
            batch.header.epoch,
            (0, 0, 0, 3),
            None,
        )
        memory = nodes.session(node_id).memory
        assert memory is not None
        assert (memory.epochs, memory.sequence) == (old.epoch + own.epoch, batch.header.sequence)

    @pytest.mark.parametrize(
        ("policy", "status"),
        [
            ({"willing": lambda _r: False}, JoinStatus.UNWILLING),
            ({"label_counts": lambda: [0, 0, 0, 0]}, JoinStatus.NO_DATA),
            ({"label_counts": lambda: 1 // 0}, JoinStatus.INVALID_LABEL_COUNTS),
            ({"min_cohort": 4}, JoinStatus.REFUSES_PARAMETERS),
        ],
    )
    def test_who_stays_out_keeps_nothing(self, policy: dict[str, Any], status: JoinStatus) -> None:
        """The reply has the same fields and sizes, and the memory holds no label and no key."""
        nodes = federation()
        node_id = nodes.ids[4]
        set_policy(nodes, node_id, **policy)
        replies: Any = nodes.deliver(nodes.until(Stage.JOIN))
        assert (replies[node_id]["status"], replies[node_id]["num-classes"]) == (status, 0)
        sizes = {
            tuple((name, len(v) if isinstance(v, bytes) else 8) for name, v in reply.items())
            for reply in replies.values()
        }
        assert len(sizes) == 1
        memory = nodes.session(node_id).memory
        assert memory is not None
        assert memory.joined is None


class TestKeygen:
    """An agent makes a key for those who joined, itself among them."""

    def test_every_recipient_can_open_the_key(self) -> None:
        """Each of the sealed keys is the modulus's own, in the order of the recipients."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        reply: Any = nodes.handle(node_id, request)
        key = PublicKey.from_bytes(reply["modulus"], 512)
        assert "signatures" not in reply
        for position, recipient in enumerate(nodes.ids):
            own = joined(nodes, recipient)
            context = sealing_context(own.epoch, public_key_of(nodes, node_id), own.terms.layout)
            sealed = reply["sealed-keys"][position * SEALED : (position + 1) * SEALED]
            delivery_key = RecipientKey.from_bytes(own.delivery_key)
            assert open_sealed(sealed, delivery_key, context, key).public_key == key

    def test_a_node_makes_one_key_an_epoch(self) -> None:
        """No two nodes make the same key, and the agent keeps none of it."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        other = next(n for n in nodes.ids if n != node_id)
        moduli = {nodes.handle(agent, request)["modulus"] for agent in (node_id, other)}
        assert len(moduli) == 2
        refuses(nodes, node_id, {**request, "sequence": 90}, RefusedError, "has made a key in")
        assert joined(nodes, node_id).registered is None


class TestRegister:
    """A node encrypts what the rule adds up and its distribution, under a key that it checked."""

    def test_the_key_of_a_second_agent_is_taken_before_a_sum_is_read(self) -> None:
        """Where the first one opened for too few, nothing is known under it yet."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        agents = [node_id, next(n for n in nodes.ids if n != node_id)]
        made: list[Any] = [nodes.handle(agent, request) for agent in agents]
        place = [public_key_of(nodes, n) for n in nodes.ids].index(public_key_of(nodes, node_id))
        for sequence, agent, reply in zip((60, 61), agents, made, strict=True):
            sealed = reply["sealed-keys"][place * SEALED : (place + 1) * SEALED]
            key = {"modulus": reply["modulus"], "sealed-key": sealed}
            key["agent-public-key"] = public_key_of(nodes, agent)
            delivery = {f"key.{name}": value for name, value in key.items()}
            header = {name: request[name] for name in ("epoch", "version")}
            asked = header | delivery | {"stage": "register", "sequence": sequence}
            nodes.handle(node_id, asked)
            kept = registered(nodes, node_id).key
            assert kept is not None
            assert kept.modulus == reply["modulus"]

    @pytest.mark.parametrize("simulation", ["plain", "encrypted"])
    def test_a_key_comes_with_encryption(self, simulation: str) -> None:
        """A server that agreed on one cannot go over to the other."""
        nodes = federation(simulation=simulation)
        node_id, request = next_request(nodes, Stage.REGISTER)
        without = {k: v for k, v in request.items() if not k.startswith("key.")}
        _, encrypted = next_request(federation(), Stage.REGISTER)
        key = {k: v for k, v in encrypted.items() if k.startswith("key.")}
        altered = without if simulation == "encrypted" else request | key
        refuses(nodes, node_id, altered, RefusedError, "if and only if the epoch is encrypted")
        nodes.handle(node_id, request)
        if simulation == "plain":
            assert registered(nodes, node_id) == Registered()
            refuses(nodes, node_id, {**request, "sequence": 70}, RefusedError, TWICE)
