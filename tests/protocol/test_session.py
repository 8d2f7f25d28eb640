"""Tests of a node's session: each request is answered once, in its order and its epoch."""

from dataclasses import replace

import pytest
from protocol.federation import (
    dubhe,
    epoch_of,
    session_state,
)
from protocol.node import (
    COUNTS,
    SETTINGS,
    federation,
    next_request,
    public_key_of,
    refuses,
    seal,
)

from dubhe_flwr.errors import (
    MalformedMessageError,
    RefusedError,
    StaleMessageError,
)
from dubhe_flwr.protocol import Stage, messages
from dubhe_flwr.protocol.messages import (
    HelloRequest,
    JoinRequest,
    JoinStatus,
    KeygenRequest,
)


class TestHello:
    """A node says who it is without any state."""

    def test_hello_needs_and_leaves_no_state(self) -> None:
        """Before any epoch the node gives its alias."""
        nodes = federation()
        session = nodes.session(nodes.ids[3])
        reply = session.handle(seal(bytes(16), Stage.HELLO, 1, HelloRequest()))
        assert (reply["alias"], reply["willing"]) == ("3", True)
        assert session.state is None

    def test_hello_leaves_an_epoch_alone(self) -> None:
        """A roll call in between does not count as a step of the epoch."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        kept = session_state(nodes, node_id)
        nodes.handle(node_id, seal(bytes(16), Stage.HELLO, 99, HelloRequest()))
        assert session_state(nodes, node_id) == kept
        nodes.handle(node_id, request)

    def test_hello_says_who_is_unwilling(self) -> None:
        """The owner decides whether the node takes part at all."""
        nodes = dubhe(COUNTS, policy={"willing": lambda r: r != 0}, **SETTINGS)
        reply = nodes.handle(nodes.ids[0], seal(bytes(16), Stage.HELLO, 1, HelloRequest()))
        assert reply["willing"] is False

    def test_an_alias_that_cannot_travel_is_refused(self) -> None:
        """A node with an empty name says so instead of sending it."""
        nodes = federation()
        nodes.policies[nodes.ids[0]] = replace(nodes.policies[nodes.ids[0]], alias="")
        hello = seal(bytes(16), Stage.HELLO, 1, HelloRequest())
        refuses(nodes, nodes.ids[0], hello, MalformedMessageError, "An alias has 1 to 256 bytes")


class TestOrder:
    """No request is answered twice, out of order or out of its epoch."""

    @pytest.mark.parametrize("stage", list(Stage)[2:])
    def test_a_replay_is_stale(self, stage: Stage) -> None:
        """The same request is answered once."""
        nodes = federation(participation="calibrated", thresholds="search", block_size=4)
        node_id, request = next_request(nodes, stage)
        nodes.handle(node_id, request)
        refuses(nodes, node_id, request, StaleMessageError, "answered before")

    @pytest.mark.parametrize("stage", list(Stage)[3:])
    def test_numbers_never_go_back(self, stage: Stage) -> None:
        """A request with the number of an earlier batch, or a lower one, is stale."""
        nodes = federation(participation="calibrated", thresholds="search", block_size=4)
        node_id, request = next_request(nodes, stage)
        last = session_state(nodes, node_id).sequence
        for sequence in (1, last):
            altered = {**request, "sequence": sequence}
            refuses(nodes, node_id, altered, StaleMessageError, "answered before")
        nodes.handle(node_id, {**request, "sequence": last + 1})

    def test_a_refused_request_may_come_again(self) -> None:
        """A refusal does not use up the number, so that a mended request gets through."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        refuses(nodes, node_id, {**request, "num-registered": 8}, RefusedError, "failed|said")
        nodes.handle(node_id, request)

    @pytest.mark.parametrize("stage", list(Stage)[2:])
    def test_without_an_epoch_everything_is_stale(self, stage: Stage) -> None:
        """A node that joined nothing, or has lost its state, says so."""
        nodes = federation(participation="calibrated", thresholds="search", block_size=4)
        node_id, request = next_request(nodes, stage)
        del nodes.memories[node_id]
        refuses(nodes, node_id, request, StaleMessageError, "an epoch that this node is not in")

    @pytest.mark.parametrize("stage", list(Stage)[2:])
    def test_another_epoch_is_stale(self, stage: Stage) -> None:
        """A request of the past epoch, or of a foreign one, is refused whatever its number."""
        nodes = federation(
            participation="calibrated",
            thresholds="search",
            registration_interval=1,
            block_size=4,
        )
        node_id, request = next_request(nodes, stage)
        foreign = {**request, "epoch": bytes(16), "sequence": 1000}
        refuses(nodes, node_id, foreign, StaleMessageError, "an epoch that this node is not in")
        nodes.play(2)
        old = {**request, "sequence": 1000}
        refuses(nodes, node_id, old, StaleMessageError, "an epoch that this node is not in")

    def test_an_epoch_is_joined_once(self) -> None:
        """A second request to join is stale in its epoch and in later ones."""
        nodes = federation(registration_interval=1)
        node_id, request = next_request(nodes, Stage.JOIN)
        nodes.handle(node_id, request)
        again = {**request, "sequence": 1000}
        refuses(nodes, node_id, request, StaleMessageError, "asked to join that epoch before")
        refuses(nodes, node_id, again, StaleMessageError, "asked to join that epoch before")
        nodes.play(2)
        refuses(nodes, node_id, again, StaleMessageError, "asked to join that epoch before")

    def test_the_last_64_epochs_are_remembered(self) -> None:
        """The memory has a fixed size, and forgets the oldest epoch first."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.JOIN)
        epochs = [bytes([number] * 16) for number in range(65)]
        for epoch in epochs:
            nodes.handle(node_id, {**request, "epoch": epoch})
        assert session_state(nodes, node_id).past_epochs == b"".join(epochs[1:])
        stale = {**request, "epoch": epochs[1]}
        refuses(nodes, node_id, stale, StaleMessageError, "asked to join that epoch before")
        nodes.handle(node_id, {**request, "epoch": epochs[0]})

    def test_an_unknown_kind_of_request_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A stage that a node has no answer to is refused by name."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        monkeypatch.setitem(messages.REQUESTS, Stage.REGISTER, messages.RegisterReply)
        spoilt = {k: v for k, v in request.items() if k in {"epoch", "stage", "version"}}
        spoilt |= {"sequence": 9, "registry": b"", "distribution": b""}
        refuses(nodes, node_id, spoilt, RefusedError, "A node answers no RegisterReply")


def test_a_server_cannot_make_the_agent_work_for_ever() -> None:
    """A node that refused a huge key does not make one when asked to."""
    nodes = federation()
    node_id, request = next_request(nodes, Stage.JOIN)
    huge = {**request, "key-bits": 2**30}
    assert nodes.handle(node_id, huge)["status"] == JoinStatus.REFUSES_PARAMETERS
    keys = KeygenRequest(b"".join([public_key_of(nodes, node_id), bytes(32), b"\x01" * 32]))
    epoch = request["epoch"]
    assert isinstance(epoch, bytes)
    asked = seal(epoch, Stage.KEYGEN, 5, keys)
    refuses(nodes, node_id, asked, RefusedError, "did not join that epoch")


def test_announced_parameters_are_kept_as_announced() -> None:
    """What is checked later is what the node agreed to."""
    nodes = federation()
    nodes.play(1)
    announced = session_state(nodes, nodes.ids[0]).parameters
    assert isinstance(announced, JoinRequest)
    assert announced == epoch_of(nodes).parameters.announced
