"""Tests of the node's side: what it answers, and everything that it refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    encrypted,
    epoch_of,
    secret_key,
    session_state,
    skewed_counts,
)

from dubhe_flwr.core import (
    fixed_point_distribution,
    overall_registry,
    participation_probability,
    registry,
    seeded_draws,
)
from dubhe_flwr.errors import (
    MalformedMessageError,
    ProtocolError,
    RefusedError,
    StaleMessageError,
)
from dubhe_flwr.he import PublicKey, RecipientKey, SecretKey, generate_secret_key, open_sealed
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage, encode, messages
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import (
    HelloRequest,
    JoinRequest,
    JoinStatus,
    KeygenRequest,
    Message,
)
from dubhe_flwr.protocol.parameters import epoch_parameters, sealing_context

NUM_CLIENTS = 9
COUNTS = skewed_counts(NUM_CLIENTS)
SETTINGS: dict[str, Any] = {
    "num_participants": 4,
    "reference_set": (1, 2, 4),
    "thresholds": {1: 0.6, 2: 0.3},
    "tries": 4,
    "registration_interval": 10,
    "max_draws_per_epoch": 48,
    "max_clients": 20,
}
SCALE = 2**20


def federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return nine nodes and a server."""
    return dubhe(COUNTS, **SETTINGS | overrides)


def next_request(
    nodes: Federation[CoordinatorState], stage: Stage, server_round: int = 1
) -> tuple[int, Fields]:
    """Play up to a stage; return one node that is asked, and its request."""
    batch = nodes.until(stage, server_round)
    return next(iter(batch.fields()))


def refuses(
    nodes: Federation[CoordinatorState],
    node_id: int,
    request: Any,
    error: type[ProtocolError],
    match: str,
) -> None:
    """Check that a request is refused for that reason, and changes nothing at the node."""
    session = nodes.session(node_id)
    kept = session.state
    before = None if kept is None else encode(kept)
    with pytest.raises(error, match=match):
        session.handle(request)
    assert session.state is kept
    assert kept is None or encode(kept) == before


def seal(epoch: bytes, stage: Stage, sequence: int, body: Message) -> Fields:
    """Return a request as a server would send it."""
    return Envelope(epoch, stage.value, sequence).seal(body)


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

    @pytest.mark.parametrize(
        "stage", [Stage.KEYGEN, Stage.REGISTER, Stage.PARTICIPATE, Stage.DETERMINE]
    )
    def test_a_replay_is_stale(self, stage: Stage) -> None:
        """The same request is answered once."""
        nodes = federation()
        node_id, request = next_request(nodes, stage)
        nodes.handle(node_id, request)
        refuses(nodes, node_id, request, StaleMessageError, "answered before")

    @pytest.mark.parametrize("stage", [Stage.REGISTER, Stage.PARTICIPATE, Stage.DETERMINE])
    def test_numbers_never_go_back(self, stage: Stage) -> None:
        """A request with the number of an earlier batch, or a lower one, is stale."""
        nodes = federation()
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

    @pytest.mark.parametrize(
        "stage", [Stage.KEYGEN, Stage.REGISTER, Stage.PARTICIPATE, Stage.DETERMINE]
    )
    def test_without_an_epoch_everything_is_stale(self, stage: Stage) -> None:
        """A node that joined nothing, or has lost its state, says so."""
        nodes = federation()
        node_id, request = next_request(nodes, stage)
        del nodes.memories[node_id]
        refuses(nodes, node_id, request, StaleMessageError, "an epoch that this node is not in")

    @pytest.mark.parametrize(
        "stage", [Stage.KEYGEN, Stage.REGISTER, Stage.PARTICIPATE, Stage.DETERMINE]
    )
    def test_another_epoch_is_stale(self, stage: Stage) -> None:
        """A request of the past epoch, or of a foreign one, is refused whatever its number."""
        nodes = federation(registration_interval=1)
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


class TestJoin:
    """A node checks the parameters and reads its labels anew."""

    def test_a_node_joins_with_a_fresh_key(self) -> None:
        """Key and labels belong to the epoch; the budgets start anew."""
        nodes = federation(registration_interval=1)
        nodes.play(1)
        node_id = nodes.ids[2]
        old = session_state(nodes, node_id)
        assert old.num_draws > 0
        nodes.policies[node_id] = replace(
            nodes.policies[node_id], label_counts=lambda: [0, 0, 0, 3]
        )
        batch = nodes.until(Stage.JOIN, 2)
        reply = nodes.handle(node_id, dict(batch.fields())[node_id])
        state = session_state(nodes, node_id)
        own = RecipientKey.from_bytes(state.recipient_key)
        assert (reply["status"], reply["alias"]) == (0, "2")
        assert reply["public-key"] == own.public_bytes
        assert state.recipient_key != old.recipient_key
        assert state.distribution == (0, 0, 0, SCALE)
        assert state.slot == 3
        assert state.epoch == batch.header.epoch
        assert state.past_epochs == old.epoch + state.epoch
        assert (state.num_draws, state.num_sums, state.secret_key) == (0, 0, b"")
        assert (state.modulus, state.registry_digest, state.num_registered) == (b"", b"", 0)

    @pytest.mark.parametrize(
        ("policy", "status"),
        [
            ({"willing": lambda _r: False}, JoinStatus.UNWILLING),
            ({"label_counts": lambda: [0, 0, 0, 0]}, JoinStatus.NO_DATA),
            ({"label_counts": lambda: [1, 2, 3]}, JoinStatus.WRONG_NUMBER_OF_CLASSES),
            ({"label_counts": lambda: [1, 2, 3, -4]}, JoinStatus.INVALID_LABEL_COUNTS),
            ({"label_counts": lambda: 1 // 0}, JoinStatus.INVALID_LABEL_COUNTS),
            ({"min_key_bits": 2048}, JoinStatus.REFUSES_PARAMETERS),
            ({"min_cohort": 4}, JoinStatus.REFUSES_PARAMETERS),
        ],
    )
    def test_who_stays_out_answers_nothing_else(
        self, policy: dict[str, Any], status: JoinStatus
    ) -> None:
        """The reply has the same size, and every other stage of the epoch is refused."""
        nodes = federation()
        node_id = nodes.ids[4]
        nodes.policies[node_id] = replace(nodes.policies[node_id], **policy)
        batch = nodes.until(Stage.JOIN)
        replies: dict[int, Any] = dict(nodes.deliver(batch))
        sizes = {
            tuple(
                (name, len(value) if isinstance(value, bytes) else 8) for name, value in r.items()
            )
            for r in replies.values()
        }
        assert len(sizes) == 1
        reply = replies[node_id]
        assert reply["status"] == status
        state = session_state(nodes, node_id)
        assert (state.distribution, state.slot) == ((), -1)
        nodes.step(replies)
        keys = KeygenRequest(b"".join(_public_key(nodes, i) for i in nodes.ids))
        own = seal(batch.header.epoch, Stage.KEYGEN, 50, keys)
        refuses(nodes, node_id, own, RefusedError, "did not join that epoch")
        nodes.until(Stage.DETERMINE, 2)
        others = {exchange.stage: exchange.request for exchange in nodes.exchanges}
        for stage in (Stage.REGISTER, Stage.PARTICIPATE):
            request = {**others[stage], "epoch": state.epoch, "sequence": 50}
            nodes.memories[node_id] = encode(state)
            refuses(nodes, node_id, request, RefusedError, "did not join that epoch")


def _public_key(nodes: Federation[CoordinatorState], node_id: int) -> bytes:
    return RecipientKey.from_bytes(session_state(nodes, node_id).recipient_key).public_bytes


class TestKeygen:
    """An agent makes a key for those who joined, itself among them."""

    def test_every_recipient_can_open_the_key(self) -> None:
        """Each of the sealed keys is the modulus's own, in the order of the recipients."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        reply = nodes.handle(node_id, request)
        modulus, sealed = reply["modulus"], reply["sealed-keys"]
        assert isinstance(modulus, bytes)
        assert isinstance(sealed, bytes)
        assert len(modulus) == 64
        size = len(sealed) // NUM_CLIENTS
        for position, recipient in enumerate(nodes.ids):
            state = session_state(nodes, recipient)
            key = PublicKey.from_bytes(modulus, 512)
            layout = epoch_parameters(state.parameters).layout
            context = sealing_context(state.epoch, _public_key(nodes, node_id), key, layout)
            own = sealed[position * size : (position + 1) * size]
            opened = open_sealed(own, RecipientKey.from_bytes(state.recipient_key), context, key)
            assert opened.public_key == key

    def test_a_key_is_made_anew_each_time(self) -> None:
        """No two requests get the same key, and the agent keeps none of it."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        first = nodes.handle(node_id, request)
        second = nodes.handle(node_id, {**request, "sequence": 90})
        assert first["modulus"] != second["modulus"]
        assert session_state(nodes, node_id).secret_key == b""

    @pytest.mark.parametrize(
        ("spoil", "match"),
        [
            (lambda keys, own: [k for k in keys if k != own], "not distinct, or lack the agent"),
            (lambda keys, _own: [*keys, keys[0]], "not distinct, or lack the agent"),
            (lambda keys, own: [own, *[k for k in keys if k != own][:1]], "2 recipients are too"),
            (
                lambda keys, _own: [*keys, *(bytes([7, i]) * 16 for i in range(12))],
                "21 recipients are too few or too many",
            ),
            (lambda _keys, _own: [], "lack the agent"),
        ],
    )
    def test_unfit_recipients_are_refused(self, spoil: Any, match: str) -> None:
        """The agent seals to itself and to as many as a cohort has, each once."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        joined = request["public-keys"]
        assert isinstance(joined, bytes)
        keys = [joined[start : start + 32] for start in range(0, len(joined), 32)]
        spoilt = b"".join(spoil(keys, _public_key(nodes, node_id)))
        refuses(nodes, node_id, {**request, "public-keys": spoilt}, RefusedError, match)

    def test_smallest_and_largest_numbers_of_recipients(self) -> None:
        """A cohort of three and one of `max_clients` get a key."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        own = _public_key(nodes, node_id)
        others = [RecipientKey.generate().public_bytes for _ in range(19)]
        for sequence, number in ((80, 2), (81, 19)):
            keys = b"".join([own, *others[:number]])
            reply = nodes.handle(node_id, {**request, "public-keys": keys, "sequence": sequence})
            assert isinstance(reply["sealed-keys"], bytes)
            assert len(reply["sealed-keys"]) == (number + 1) * 80

    def test_an_unusable_public_key_harms_nobody_else(self) -> None:
        """Its owner gets bytes of the same size that never open; all others get the key."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        joined = request["public-keys"]
        assert isinstance(joined, bytes)
        reply = nodes.handle(node_id, {**request, "public-keys": joined + bytes(32)})
        sealed = reply["sealed-keys"]
        assert isinstance(sealed, bytes)
        assert len(sealed) == 10 * 80
        assert len({sealed[start : start + 80] for start in range(0, 800, 80)}) == 10


class TestRegister:
    """A node encrypts its registry and distribution under a key that it checked."""

    def test_a_registry_and_a_distribution(self) -> None:
        """Decrypted, they are the node's own one-hot registry and fixed-point distribution."""
        nodes = federation()
        nodes.play(1)
        slots = overall_registry(COUNTS, epoch_of(nodes).parameters.codebook, {1: 0.6, 2: 0.3})[1]
        replies = {e.node_id: e.reply for e in nodes.exchanges if e.stage == Stage.REGISTER}
        for row, node_id in enumerate(nodes.ids):
            state, reply = session_state(nodes, node_id), replies[node_id]
            assert isinstance(reply, dict)
            codebook = epoch_parameters(state.parameters).codebook
            own = registry(codebook.unrank(int(slots[row])), codebook)
            np.testing.assert_array_equal(decrypted(state, "registry", reply["registry"]), own)
            np.testing.assert_array_equal(
                decrypted(state, "distribution", reply["distribution"]),
                fixed_point_distribution(COUNTS[row]),
            )
            assert state.modulus == epoch_of(nodes).public_key.to_bytes()

    def test_a_node_registers_once(self) -> None:
        """Another key in the same epoch is refused: two registries would be linked."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        nodes.handle(node_id, request)
        again = {**request, "sequence": 70}
        refuses(nodes, node_id, again, RefusedError, "has registered in that epoch before")

    @pytest.mark.parametrize(
        ("field", "change", "error", "match"),
        [
            ("modulus", lambda m: m[1:], MalformedMessageError, "no odd number of 512 bits"),
            ("modulus", lambda m: m + b"\x01", MalformedMessageError, "no odd number"),
            ("modulus", lambda m: m[:-1] + b"\x02", MalformedMessageError, "no odd number"),
            ("modulus", lambda m: b"\x00" + m[1:], MalformedMessageError, "no odd number"),
            ("modulus", lambda _m: _other_modulus(), RefusedError, "^register failed: SealError.$"),
            ("sealed-key", lambda s: s[:-1], RefusedError, "^register failed: SealError.$"),
            ("sealed-key", lambda _s: b"", RefusedError, "^register failed: SealError.$"),
            ("sealed-key", lambda s: bytes(len(s)), RefusedError, "SealError"),
            ("sealed-key", lambda s: s[:-1] + bytes([s[-1] ^ 1]), RefusedError, "SealError"),
            ("agent-public-key", lambda _k: b"\x09" * 32, RefusedError, "SealError"),
        ],
    )
    def test_an_unfit_key_is_refused(
        self, field: str, change: Any, error: type[ProtocolError], match: str
    ) -> None:
        """Modulus, seal and agent belong together; an error tells no detail."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        refuses(nodes, node_id, {**request, field: change(request[field])}, error, match)

    def test_the_key_of_another_node_is_refused(self) -> None:
        """What was sealed to one recipient opens for no other."""
        nodes = federation()
        batch = nodes.until(Stage.REGISTER)
        (first, _), (_, request), *_ = batch.fields()
        refuses(nodes, first, request, RefusedError, "SealError")

    def test_the_key_of_another_epoch_is_refused(self) -> None:
        """A key that was sealed in another epoch does not open, even for the same recipient."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        state = replace(session_state(nodes, node_id), epoch=bytes(16))
        nodes.memories[node_id] = encode(state)
        refuses(nodes, node_id, {**request, "epoch": bytes(16)}, RefusedError, "SealError")


def _other_modulus() -> bytes:
    return generate_secret_key(512).public_key.to_bytes()


def moved(overall: Any, slot: int) -> Any:
    """Return a registry of the same total whose slot is empty."""
    result = overall.copy()
    result[slot - 1] += result[slot]
    result[slot] = 0
    return result


class TestParticipate:
    """A node draws by its own probability, from a registry that it checked."""

    def test_decisions_follow_the_probability(self) -> None:
        """Each bit tells whether the seeded draw is below eq. 6's probability."""
        nodes = federation(rounds_per_draw=3)
        nodes.play(1)
        codebook = epoch_of(nodes).parameters.codebook
        overall, slots = overall_registry(COUNTS, codebook, {1: 0.6, 2: 0.3})
        probability = participation_probability(overall, 4)[slots]
        replies = {e.node_id: e.reply for e in nodes.exchanges if e.stage == Stage.PARTICIPATE}
        for row, node_id in enumerate(nodes.ids):
            state, reply = session_state(nodes, node_id), replies[node_id]
            assert isinstance(reply, dict)
            assert state.probability == probability[row]
            assert state.num_registered == NUM_CLIENTS
            draws = np.array([seeded_draws(7, str(row), r, 4) for r in (1, 2, 3)])
            expected = np.packbits((draws < probability[row]).ravel()).tobytes()
            assert (reply["decisions"], reply["unwilling"]) == (expected, b"\x00")
            assert state.num_draws == 12

    @pytest.mark.parametrize(("seeded", "seed"), [(False, 7), (True, None), (False, None)])
    def test_draws_are_private_unless_both_sides_say_otherwise(
        self, seeded: bool, seed: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the owner's word or without a seed they come from the operating system."""
        monkeypatch.setattr("dubhe_flwr.protocol.session.private_draws", np.zeros)
        nodes = dubhe(COUNTS, policy={"seeded_draws": seeded}, **SETTINGS | {"seed": seed})
        nodes.play(1)
        replies = [e.reply for e in nodes.exchanges if e.stage == Stage.PARTICIPATE]
        assert [r["decisions"] for r in replies if isinstance(r, dict)] == [b"\xf0"] * NUM_CLIENTS

    def test_a_draw_at_the_probability_is_a_no(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Draws are from 0 up to but not 1, so a node takes part if one lies below P."""
        nodes = dubhe(COUNTS, policy={"seeded_draws": False}, **SETTINGS)
        nodes.play(1)
        node_id, request = next_request(nodes, Stage.PARTICIPATE, 2)
        probability = session_state(nodes, node_id).probability
        draws = np.array([probability, np.nextafter(probability, 0), np.nextafter(probability, 1)])
        monkeypatch.setattr("dubhe_flwr.protocol.session.private_draws", lambda _tries: draws)
        reply = nodes.handle(node_id, {**request, "num-tries": 3})
        assert reply["decisions"] == bytes([0b01000000])

    def test_unwilling_rounds_are_marked(self) -> None:
        """One bit a round tells in which rounds the node will not train."""
        nodes = dubhe(
            COUNTS,
            policy={"willing": lambda r: r not in {2, 5}},
            **SETTINGS | {"rounds_per_draw": 9},
        )
        batch = nodes.until(Stage.PARTICIPATE)
        node_id, request = next(iter(batch.fields()))
        assert nodes.handle(node_id, request)["unwilling"] == bytes([0b01001000, 0])

    def test_a_second_registry_is_refused(self) -> None:
        """Two overall registries in an epoch would tell their difference."""
        nodes = federation()
        nodes.play(1)
        node_id, request = next_request(nodes, Stage.PARTICIPATE, 2)
        state = session_state(nodes, node_id)
        overall = decrypted(state, "registry", epoch_of(nodes).overall_registry)
        same = encrypted(state, "registry", overall)
        for change in ({"overall-registry": same}, {"num-registered": 8}):
            refuses(nodes, node_id, {**request, **change}, RefusedError, "this is another")
        nodes.handle(node_id, request)
        assert session_state(nodes, node_id).probability == state.probability

    @pytest.mark.parametrize(
        ("change", "number", "match"),
        [
            (lambda r, _s: r, 2, "A registry of 2 clients is too few"),
            (lambda r, _s: r, 8, "DecryptionError|not the sum it is said to be"),
            (lambda r, _s: r, 10, "not the sum it is said to be"),
            (lambda r, _s: r, 21, "^participate failed: SettingsError.$"),
            (lambda r, _s: r * 2, 9, "participate failed|not the sum"),
            (moved, 9, "not the sum it is said to be"),
            (lambda r, _s: r * 0, 9, "not the sum it is said to be"),
            (lambda r, _s: np.full_like(r, 31), 9, "^participate failed: DecryptionError.$"),
            (lambda r, _s: np.append(r, 1), 9, "^participate failed: DecryptionError.$"),
        ],
    )
    def test_a_registry_that_does_not_add_up_is_refused(
        self, change: Any, number: int, match: str
    ) -> None:
        """Total, own slot, range and number of slots are checked."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        state = session_state(nodes, node_id)
        overall = decrypted(state, "registry", epoch_of(nodes).overall_registry)
        spoilt = encrypted(state, "registry", change(overall, state.slot))
        altered = {**request, "overall-registry": spoilt, "num-registered": number}
        refuses(nodes, node_id, altered, RefusedError, match)

    def test_a_registry_of_the_smallest_cohort_is_read(self) -> None:
        """Three clients are enough."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        state = session_state(nodes, node_id)
        overall = np.zeros(11, dtype=np.int64)
        overall[state.slot] = 3
        three = encrypted(state, "registry", overall)
        nodes.handle(node_id, {**request, "overall-registry": three, "num-registered": 3})
        assert session_state(nodes, node_id).probability == 1.0

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda vector, _key: bytes(len(vector)),
            lambda vector, key: key.public_key.n.to_bytes(len(vector), "big"),
            lambda vector, key: secret_prime(key).to_bytes(len(vector), "big"),
            lambda vector, key: key.public_key.n_square.to_bytes(len(vector), "big"),
            lambda vector, _key: b"\xff" * len(vector),
            lambda vector, _key: vector[:-1],
            lambda vector, _key: vector * 2,
            lambda _vector, _key: b"",
            lambda vector, _key: generate_secret_key(512).encrypt([1])[: len(vector)],
        ],
    )
    def test_what_is_no_ciphertext_is_refused(self, spoil: Any) -> None:
        """Zero, multiples of the primes, foreign ciphertexts and wrong sizes give no plaintext."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        vector = request["overall-registry"]
        spoilt = spoil(vector, secret_key(session_state(nodes, node_id)))
        altered = {**request, "overall-registry": spoilt}
        refuses(nodes, node_id, altered, RefusedError, "^participate failed: DecryptionError.$")

    def test_before_registration_there_is_nothing_to_read(self) -> None:
        """A node without a key refuses an overall registry."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        state = replace(session_state(nodes, node_id), modulus=b"", secret_key=b"")
        nodes.memories[node_id] = encode(state)
        refuses(nodes, node_id, request, RefusedError, "has not registered in that epoch")

    def test_the_budget_of_draws(self) -> None:
        """A node draws as often as was announced, and not once more."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        too_many = {**request, "num-rounds": 7, "num-tries": 7}
        refuses(nodes, node_id, too_many, RefusedError, "The draws of this epoch are used up")
        nodes.handle(node_id, {**request, "num-rounds": 47, "num-tries": 1})
        two_more = {**request, "num-tries": 2, "sequence": 70}
        refuses(nodes, node_id, two_more, RefusedError, "The draws of this epoch are used up")
        nodes.handle(node_id, {**two_more, "num-tries": 1})
        one_more = {**request, "num-tries": 1, "sequence": 71}
        refuses(nodes, node_id, one_more, RefusedError, "The draws of this epoch are used up")


def secret_prime(key: SecretKey) -> int:
    """Return p."""
    return int.from_bytes(key.to_bytes(), "big")


class TestDetermine:
    """An agent decrypts few sums, each of them over enough clients."""

    def agent(self, **overrides: Any) -> tuple[Federation[CoordinatorState], int, Fields]:
        """Return a federation, its first agent and what that is asked."""
        nodes = federation(**overrides)
        node_id, request = next_request(nodes, Stage.DETERMINE)
        return nodes, node_id, request

    def with_sums(
        self, nodes: Federation[CoordinatorState], node_id: int, request: Fields, sums: Any
    ) -> Fields:
        """Return the request with other sums, one a row."""
        state = session_state(nodes, node_id)
        joined = b"".join(encrypted(state, "distribution", row) for row in sums)
        return {**request, "sums": joined, "num-tries": len(sums)}

    def test_the_best_of_each_round(self) -> None:
        """The agent answers with one index a round, the first of equal ones."""
        nodes, node_id, request = self.agent()
        even, skewed = np.full(4, SCALE), np.array([4 * SCALE, 0, 0, 0])
        middle = np.array([2 * SCALE, SCALE, SCALE, 0])
        altered = self.with_sums(nodes, node_id, request, [skewed, even, even, middle])
        altered |= {"num-rounds": 2, "num-tries": 2}
        reply = nodes.handle(node_id, altered)
        assert reply["best"] == np.array([1, 0], dtype=">i8").tobytes()
        assert set(reply) == {"epoch", "stage", "sequence", "version", "best"}
        assert session_state(nodes, node_id).num_sums == 4

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"num-clients": 2}, "A sum over 2 clients is too few"),
            ({"num-clients": 1}, "A sum over 1 clients is too few"),
            ({"num-clients": 3}, "not cover the clients it is said to|DecryptionError"),
            ({"num-clients": 5}, "A sum does not cover the clients it is said to cover"),
            ({"num-clients": 21}, "^determine failed: SettingsError.$"),
            ({"num-tries": 3}, "The sums are not as many as announced"),
            ({"num-tries": 1, "num-rounds": 3}, "The sums are not as many as announced"),
            ({"num-tries": 5}, "The sums that this node decrypts in an epoch are used up"),
            ({"num-tries": 2**62, "num-rounds": 2**62}, "are used up"),
            ({"sums": b""}, "The sums are not as many as announced"),
            ({"sums": bytes(4 * 128)}, "^determine failed: DecryptionError.$"),
            ({"sums": b"\xff" * (4 * 128)}, "^determine failed: DecryptionError.$"),
        ],
    )
    def test_unfit_sums_are_refused(self, change: dict[str, Any], match: str) -> None:
        """Cohort, number and total of the sums are checked."""
        nodes, node_id, request = self.agent()
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)

    @pytest.mark.parametrize(
        "row",
        [
            [SCALE, SCALE, SCALE, SCALE - 1],
            [SCALE, SCALE, SCALE, SCALE + 1],
            [SCALE, 0, 0, 0],
            [0, 0, 0, 0],
            [4 * SCALE + 1, 0, 0, 0],
        ],
    )
    def test_one_wrong_total_is_enough(self, row: list[int]) -> None:
        """Each sum holds exactly as many clients as announced."""
        nodes, node_id, request = self.agent()
        even = [SCALE] * 4
        altered = self.with_sums(nodes, node_id, request, [even, even, row, even])
        refuses(nodes, node_id, altered, RefusedError, "not cover the clients|DecryptionError")

    def test_a_foreign_key_is_refused(self) -> None:
        """A sum under another key does not come out as a sum of distributions."""
        nodes, node_id, request = self.agent()
        sums = request["sums"]
        assert isinstance(sums, bytes)
        foreign = generate_secret_key(512).encrypt([1, 2, 3, 4])
        refuses(nodes, node_id, {**request, "sums": foreign}, RefusedError, "DecryptionError")

    @pytest.mark.parametrize(("num_clients", "budget"), [(9, 4), (8, 3), (7, 3)])
    def test_the_budget_is_below_half_the_clients(self, num_clients: int, budget: int) -> None:
        """Fewer sums than half the clients are decrypted in an epoch, at once or one by one."""
        nodes = dubhe(COUNTS[:num_clients], **SETTINGS)
        node_id, request = next_request(nodes, Stage.DETERMINE)
        sums = request["sums"]
        assert isinstance(sums, bytes)
        assert request["num-tries"] == budget
        size = len(sums) // budget
        for sequence in range(budget):
            one = {**request, "sums": sums[:size], "num-tries": 1, "sequence": 50 + sequence}
            nodes.handle(node_id, one)
        one["sequence"] = 60
        refuses(nodes, node_id, one, RefusedError, "decrypts in an epoch are used up")

    def test_the_budget_that_was_announced(self) -> None:
        """The operator may set a lower one."""
        nodes, node_id, request = self.agent(max_sums_per_epoch=2)
        assert request["num-tries"] == 2
        nodes.handle(node_id, request)
        refuses(nodes, node_id, {**request, "sequence": 60}, RefusedError, "are used up")

    def test_before_the_registry_no_sum_is_decrypted(self) -> None:
        """A node that does not know how many registered decrypts nothing."""
        nodes, node_id, request = self.agent()
        state = replace(session_state(nodes, node_id), num_registered=0)
        nodes.memories[node_id] = encode(state)
        refuses(nodes, node_id, request, RefusedError, "are used up")


def test_a_server_cannot_make_the_agent_work_for_ever() -> None:
    """A node that refused a huge key does not make one when asked to."""
    nodes = federation()
    node_id, request = next_request(nodes, Stage.JOIN)
    huge = {**request, "key-bits": 2**30}
    assert nodes.handle(node_id, huge)["status"] == JoinStatus.REFUSES_PARAMETERS
    keys = KeygenRequest(b"".join([_public_key(nodes, node_id), bytes(32), b"\x01" * 32]))
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
