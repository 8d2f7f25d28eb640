"""Tests of what nodes sign: every part counts, and a server that substitutes any is found out."""

import copy
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from protocol.federation import Federation, session_state
from protocol.node import NUM_CLIENTS, federation
from protocol.pinned import KEYS, TRUSTED, pin, pinned_federation, signing_key

from dubhe_flwr.errors import ProtocolError, QuorumError, UntrustedError
from dubhe_flwr.he import (
    NO_SIGNATURE,
    SIGNATURE_BYTES,
    PinnedKeys,
    PublicKey,
    RecipientKey,
    generate_secret_key,
    seal,
    sealed_bytes,
)
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage, wire_size
from dubhe_flwr.protocol.messages import JoinRequest
from dubhe_flwr.protocol.parameters import epoch_parameters, sealing_context
from dubhe_flwr.protocol.statements import (
    bundle_statement,
    join_statement,
    parameters_digest,
    recipients_digest,
)

JOIN = JoinRequest(
    (1, 2, 10), (0.7, 0.1), 20, 512, 1000, 3, 1000, 500, -1, 10, 4, True, 1.0, 0.1, 0.05, 9
)
MODULI = [generate_secret_key(512).public_key.to_bytes() for _ in range(2)]
KEY_SIZE = 32


def other_value(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    return (*value[:-1], value[-1] + 1) if isinstance(value, tuple) else value + 1


def test_every_parameter_is_in_the_digest() -> None:
    """No two announcements that differ have the same digest, whichever field it is."""
    digests = {parameters_digest(JOIN)}
    for field in fields(JOIN):
        changed = copy.copy(JOIN)
        object.__setattr__(changed, field.name, other_value(getattr(JOIN, field.name)))
        digests.add(parameters_digest(changed))
    assert len(digests) == 1 + len(fields(JOIN))


def test_every_part_is_in_a_statement() -> None:
    """Statements of another kind, epoch, parameter, key, modulus or recipient are others."""
    epoch, key, digest = b"e" * 16, b"k" * 32, recipients_digest(b"r" * 64)
    other = replace(JOIN, seed=5)
    statements = [
        join_statement(epoch, JOIN, key),
        join_statement(b"f" * 16, JOIN, key),
        join_statement(epoch, other, key),
        join_statement(epoch, JOIN, b"l" * 32),
        bundle_statement(epoch, JOIN, key, MODULI[0], digest),
        bundle_statement(b"f" * 16, JOIN, key, MODULI[0], digest),
        bundle_statement(epoch, other, key, MODULI[0], digest),
        bundle_statement(epoch, JOIN, b"l" * 32, MODULI[0], digest),
        bundle_statement(epoch, JOIN, key, MODULI[1], digest),
        bundle_statement(epoch, JOIN, key, MODULI[0], recipients_digest(b"r" * 96)),
    ]
    assert len(set(statements)) == len(statements)


def test_parts_cannot_lend_to_each_other() -> None:
    """Where one part ends and the next begins is signed too."""
    assert join_statement(b"e" * 15, JOIN, b"e" + b"k" * 32) != join_statement(
        b"e" * 16, JOIN, b"k" * 32
    )


def sizes(nodes: Federation[CoordinatorState]) -> list[Any]:
    """Return stage, node and sizes of all messages that the network carried."""
    carried: list[Any] = nodes.exchanges
    return [(e.stage, e.node_id, wire_size(e.request), wire_size(e.reply)) for e in carried]


def test_all_is_well_with_pinned_keys() -> None:
    """Nodes that know each other select as those that do not, and complain about nothing."""
    nodes, plain = pinned_federation(), federation()
    for server_round in (1, 2, 11):
        assert nodes.play(server_round).aliases == plain.play(server_round).aliases
    assert nodes.errors == []


@pytest.mark.parametrize("with_keys", [1, NUM_CLIENTS])
def test_keys_change_no_number_and_no_size(with_keys: int) -> None:
    """Messages are as many and as large, whoever has keys; nobody but a signer signs."""
    plain, nodes = federation(), federation()
    for node_id, key in zip(nodes.ids[:with_keys], KEYS, strict=False):
        pin(nodes, node_id, PinnedKeys(key, TRUSTED))
    plain.until(Stage.KEYGEN)
    nodes.until(Stage.KEYGEN)
    assert sizes(nodes) == sizes(plain)
    joined: list[Any] = [e.reply for e in nodes.exchanges]
    unsigned = {
        e.node_id
        for e, r in zip(nodes.exchanges, joined, strict=True)
        if r["signature"] == NO_SIGNATURE
    }
    assert unsigned == set(nodes.ids[with_keys:])


def test_a_whole_run_has_the_same_shape() -> None:
    """The same holds for keys of all nodes through all stages."""
    plain, nodes = federation(), pinned_federation()
    plain.play(1)
    nodes.play(1)
    assert sizes(nodes) == sizes(plain)


def untrusted(nodes: Federation[CoordinatorState]) -> list[str]:
    """Return what nodes found out."""
    return [str(error) for error in nodes.errors if isinstance(error, UntrustedError)]


Change = Callable[[list[bytes], list[bytes], dict[str, bytes]], None]


def substitute(keys: list[bytes], signatures: list[bytes], seen: dict[str, bytes]) -> None:
    """Put a key of the server's own in place of a node's."""
    keys[other_than(keys, seen)] = RecipientKey.generate().public_bytes


def sign_with_a_stranger(
    keys: list[bytes], signatures: list[bytes], seen: dict[str, bytes]
) -> None:
    """Put a key in place of a node's, signed by another key of the server's own."""
    place = other_than(keys, seen)
    keys[place] = RecipientKey.generate().public_bytes
    stranger = signing_key(1000)
    announced = session_parameters(seen)
    signatures[place] = PinnedKeys(stranger, [stranger.public_key()]).sign(
        join_statement(seen["epoch"], announced, keys[place])
    )


def swap_signatures(keys: list[bytes], signatures: list[bytes], seen: dict[str, bytes]) -> None:
    """Let two nodes' signatures change places."""
    signatures[0], signatures[1] = signatures[1], signatures[0]


def drop_signatures(keys: list[bytes], signatures: list[bytes], seen: dict[str, bytes]) -> None:
    """Pretend that nobody has keys."""
    signatures.clear()


def zero_signature(keys: list[bytes], signatures: list[bytes], seen: dict[str, bytes]) -> None:
    """Pretend that one node has no key."""
    signatures[0] = NO_SIGNATURE


def other_than(keys: list[bytes], seen: dict[str, bytes]) -> int:
    """Return the place of a key that is not the agent's."""
    return next(place for place, key in enumerate(keys) if key != seen["own"])


PARAMETERS: dict[bytes, JoinRequest] = {}


def session_parameters(seen: dict[str, bytes]) -> JoinRequest:
    """Return the parameters of the epoch, which the server knows."""
    return PARAMETERS[seen["epoch"]]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (substitute, "something else"),
        (sign_with_a_stranger, "not trusted"),
        (swap_signatures, "something else"),
        (drop_signatures, "not one signature for each"),
        (zero_signature, "no signature"),
    ],
)
def test_an_agent_finds_a_substituted_join_key(change: Change, match: str) -> None:
    """It makes no key for recipients that it does not trust, and nobody registers."""
    nodes = pinned_federation()

    def attack(stage: str, node_id: int, request: Fields) -> Fields:
        if stage != Stage.KEYGEN:
            return request
        state = session_state(nodes, node_id)
        PARAMETERS[state.epoch] = state.parameters
        keys = split(request["public-keys"], KEY_SIZE)
        signatures = split(request["signatures"], SIGNATURE_BYTES)
        own = RecipientKey.from_bytes(state.recipient_key).public_bytes
        change(keys, signatures, {"epoch": state.epoch, "own": own})
        return {**request, "public-keys": b"".join(keys), "signatures": b"".join(signatures)}

    nodes.alter_request = attack
    with pytest.raises(QuorumError):
        nodes.play(1)
    assert len(untrusted(nodes)) == 3
    assert all(match in text for text in untrusted(nodes))
    assert Stage.REGISTER not in nodes.stages()


def split(joined: Any, size: int) -> list[bytes]:
    """Cut bytes into pieces."""
    assert isinstance(joined, bytes)
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def test_an_old_signature_of_a_join_key_is_found() -> None:
    """What a node signed for one epoch is worth nothing in the next."""
    nodes = pinned_federation()
    nodes.play(1)
    old = next(e.request for e in nodes.exchanges if e.stage == Stage.KEYGEN)

    def attack(stage: str, node_id: int, request: Fields) -> Fields:
        if stage != Stage.KEYGEN:
            return request
        own = RecipientKey.from_bytes(session_state(nodes, node_id).recipient_key).public_bytes
        keys, signatures = (
            split(request["public-keys"], KEY_SIZE),
            split(request["signatures"], SIGNATURE_BYTES),
        )
        place = other_than(keys, {"own": own})
        keys[place] = split(old["public-keys"], KEY_SIZE)[place]
        signatures[place] = split(old["signatures"], SIGNATURE_BYTES)[place]
        return {**request, "public-keys": b"".join(keys), "signatures": b"".join(signatures)}

    nodes.alter_request = attack
    with pytest.raises(QuorumError):
        nodes.play(11)
    assert len(untrusted(nodes)) == 3


def play_the_agent(nodes: Federation[CoordinatorState]) -> Callable[[str, int, Fields], Fields]:
    """Return what a server does that hands out a key of its own."""
    secret_key = generate_secret_key(512)
    own = RecipientKey.generate()

    def attack(stage: str, node_id: int, request: Fields) -> Fields:
        if stage != Stage.REGISTER:
            return request
        state = session_state(nodes, node_id)
        layout = epoch_parameters(state.parameters).layout
        context = sealing_context(state.epoch, own.public_bytes, secret_key.public_key, layout)
        recipient = RecipientKey.from_bytes(state.recipient_key).public_bytes
        return {
            **request,
            "modulus": secret_key.public_key.to_bytes(),
            "agent-public-key": own.public_bytes,
            "sealed-key": seal(secret_key, recipient, context),
        }

    return attack


def test_recipients_find_a_server_that_plays_the_agent() -> None:
    """None of them registers under its key, although each seal opens."""
    nodes = pinned_federation(agent_attempts=1)
    nodes.alter_request = play_the_agent(nodes)
    with pytest.raises(QuorumError):
        nodes.play(1)
    assert len(untrusted(nodes)) == NUM_CLIENTS
    assert all(not session_state(nodes, node_id).secret_key for node_id in nodes.ids)


def test_without_pinned_keys_it_is_not_found() -> None:
    """HPKE proves no sender: the server's key is taken, which is what pinned keys are for."""
    nodes = federation(agent_attempts=1)
    nodes.alter_request = play_the_agent(nodes)
    batch = nodes.until(Stage.REGISTER)
    nodes.deliver(batch)
    assert nodes.errors == []
    assert all(session_state(nodes, node_id).secret_key for node_id in nodes.ids)


@pytest.mark.parametrize(
    "field", ["modulus", "agent-public-key", "recipients-digest", "signature", "all of another"]
)
def test_recipients_find_a_bundle_of_another_epoch(field: str) -> None:
    """Neither the whole bundle nor a part of it can come again."""
    nodes = pinned_federation(agent_attempts=1)
    nodes.play(1)
    old = {e.node_id: e.request for e in nodes.exchanges if e.stage == Stage.REGISTER}
    header = {"epoch", "stage", "sequence", "version"}

    def attack(stage: str, node_id: int, request: Fields) -> Fields:
        if stage != Stage.REGISTER:
            return request
        replayed = set(request) - header if field == "all of another" else {field}
        return {**request, **{name: old[node_id][name] for name in replayed}}

    nodes.alter_request = attack
    with pytest.raises(QuorumError):
        nodes.play(11)
    assert len(untrusted(nodes)) == NUM_CLIENTS


def test_swapped_recipients_are_found() -> None:
    """A sealed key that was made for another node opens for no one else."""
    nodes = pinned_federation()
    batch = nodes.until(Stage.REGISTER)
    requests = dict(batch.fields())
    first, second = list(requests)[:2]
    swapped = {first: requests[second], second: requests[first]}
    nodes.alter_request = lambda _s, node_id, request: swapped.get(node_id, request)
    nodes.step(nodes.deliver(batch))
    assert sorted(map(str, nodes.errors)) == ["register failed: SealError."] * 2


@pytest.mark.parametrize("name", ["max-draws", "min-cohort", "max-sums", "block-size", "seed"])
@pytest.mark.parametrize("num_misled", [1, NUM_CLIENTS - 1])
def test_nodes_that_were_told_different_parameters_find_out(name: str, num_misled: int) -> None:
    """Whoever is the agent does not trust those who joined under other parameters."""
    nodes, plain = pinned_federation(), federation()
    for network in (nodes, plain):
        misled = set(network.ids[:num_misled])

        def mislead(stage: str, node_id: int, request: Fields, misled: Any = misled) -> Fields:
            if stage != Stage.JOIN or node_id not in misled:
                return request
            other: dict[str, Any] = {"block-size": 5, "min-cohort": 4}
            value = request[name]
            assert isinstance(value, int)
            return {**request, name: other.get(name, value + 1)}

        network.alter_request = mislead
    with pytest.raises(QuorumError):
        nodes.play(1)
    assert len(untrusted(nodes)) == 3
    plain.play(1)  # without keys, nobody notices


def test_parameters_of_the_epoch_are_those_of_the_bundle() -> None:
    """An agent that was told other parameters than a recipient has not made its key."""
    nodes = pinned_federation(agent_attempts=1)
    batch = nodes.until(Stage.REGISTER)
    misled = nodes.ids[4]
    state = session_state(nodes, misled)
    session = nodes.session(misled)
    session.state = replace(state, parameters=replace(state.parameters, max_draws=47))
    with pytest.raises(UntrustedError, match="something else"):
        session.handle(dict(batch.fields())[misled])


WRONG_KEYS = {
    "none": (None, "join key not signed by a trusted node"),
    "unknown": (
        PinnedKeys(signing_key(77), [*TRUSTED, signing_key(77).public_key()]),
        "join key not signed by a trusted node",
    ),
    "of another node": (PinnedKeys(KEYS[0], TRUSTED), "signing key of another node"),
}


class TestOneNodeWithoutTrust:
    """A single node with a missing, wrong or borrowed key."""

    @pytest.mark.parametrize("wrong", WRONG_KEYS)
    def test_it_stops_the_others(self, wrong: str) -> None:
        """An agent cannot tell it from an intruder."""
        nodes = pinned_federation()
        pin(nodes, nodes.ids[5], WRONG_KEYS[wrong][0])
        with pytest.raises(QuorumError):
            nodes.play(1)
        assert untrusted(nodes)

    @pytest.mark.parametrize("wrong", WRONG_KEYS)
    def test_a_server_that_knows_the_keys_leaves_it_out(self, wrong: str) -> None:
        """With trusted_keys on the server it costs itself only, and the report says why."""
        nodes = pinned_federation(trusted_keys=TRUSTED)
        keys, reason = WRONG_KEYS[wrong]
        pin(nodes, nodes.ids[5], keys)
        plan = nodes.play(1)
        assert plan.num_registered == NUM_CLIENTS - 1
        assert plan.stages[0].dropped == {reason: 1}
        assert nodes.errors == []

    def test_an_intruder_takes_no_place(self) -> None:
        """Who copies the join key of a trusted node is left out, and the node is not."""
        nodes = pinned_federation(trusted_keys=iter(TRUSTED))
        batch = nodes.begin(1)
        replies: Any = nodes.deliver(batch)  # type: ignore[arg-type]
        first, last = nodes.ids[0], nodes.ids[-1]
        copied = {**replies[last], "signature": NO_SIGNATURE, "alias": "intruder"}
        outcome: Any = nodes.step({**replies, first: copied})
        assert nodes.state.enrolment is not None
        assert last in nodes.state.enrolment.aliases
        assert first not in nodes.state.enrolment.aliases
        assert outcome.header.stage == Stage.KEYGEN


def test_a_bundle_of_too_few_is_refused() -> None:
    """A trusted agent makes no key for fewer than min_cohort, however well they sign."""
    nodes = pinned_federation()

    def few(stage: str, node_id: int, request: Fields) -> Fields:
        if stage != Stage.KEYGEN:
            return request
        keys = split(request["public-keys"], KEY_SIZE)
        own = RecipientKey.from_bytes(session_state(nodes, node_id).recipient_key).public_bytes
        places = [keys.index(own), other_than(keys, {"own": own})]
        signatures = split(request["signatures"], SIGNATURE_BYTES)
        return {
            **request,
            "public-keys": b"".join(keys[p] for p in places),
            "signatures": b"".join(signatures[p] for p in places),
        }

    nodes.alter_request = few
    with pytest.raises(QuorumError):
        nodes.play(1)
    assert {str(error) for error in nodes.errors} == {"2 recipients are too few or too many."}


def test_the_agent_signs_what_it_made() -> None:
    """The statement of the bundle is the one that recipients rebuild."""
    nodes = pinned_federation()
    batch = nodes.until(Stage.KEYGEN)
    ((agent, request),) = batch.fields()
    reply = nodes.handle(agent, request)
    state = session_state(nodes, agent)
    modulus, signature, keys = reply["modulus"], reply["signature"], request["public-keys"]
    assert isinstance(modulus, bytes)
    assert isinstance(signature, bytes)
    assert isinstance(keys, bytes)
    assert PublicKey.from_bytes(modulus, 512).bits == 512
    assert len(reply["sealed-keys"]) == NUM_CLIENTS * sealed_bytes(512)  # type: ignore[arg-type]
    own = RecipientKey.from_bytes(state.recipient_key).public_bytes
    statement = bundle_statement(
        state.epoch, state.parameters, own, modulus, recipients_digest(keys)
    )
    KEYS[nodes.ids.index(agent)].public_key().verify(signature[32:], statement)


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_thousand_wrong_keys_of_a_thousand_are_refused(with_keys: bool) -> None:
    """Wrong agent, epoch, layout or recipient, or one bit flipped on the way: nobody registers."""
    nodes = pinned_federation() if with_keys else federation()
    requests = dict(nodes.until(Stage.REGISTER).fields())
    rng = random.Random(5)
    signed = ["recipients-digest", "signature"] if with_keys else []
    refused: Counter[str] = Counter()
    for _ in range(1000):
        node_id, other = rng.sample(nodes.ids, 2)
        session, request = nodes.session(node_id), requests[node_id]
        state = session_state(nodes, node_id)
        kind = rng.choice(["bit", "bit", "epoch", "layout", "recipient", "agent"])
        if kind == "bit":
            name = rng.choice(["sealed-key", "modulus", "agent-public-key", *signed])
            request = {**request, name: flipped(request[name], rng)}
        elif kind == "epoch":
            foreign = rng.randbytes(16)
            session.state = replace(state, epoch=foreign)
            request = {**request, "epoch": foreign}
        elif kind == "layout":
            larger = replace(state.parameters, max_clients=rng.randrange(21, 10_000))
            session.state = replace(state, parameters=larger)
        elif kind == "recipient":
            request = requests[other]
        else:
            public_key = RecipientKey.generate().public_bytes
            request = {**request, "agent-public-key": public_key}
        kept = session.state
        with pytest.raises(ProtocolError):
            session.handle(request)
        assert session.state is kept
        refused[kind] += 1
    assert refused.total() == 1000
    assert min(refused.values()) > 100


def flipped(value: object, rng: random.Random) -> bytes:
    """Return bytes with one bit changed."""
    assert isinstance(value, bytes)
    changed = bytearray(value)
    changed[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
    return bytes(changed)
