"""Tests of a node as registrant and volunteer: what it answers, and everything that it refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    encrypted,
    epoch_of,
    secret_key,
    session_state,
)
from protocol.node import (
    COUNTS,
    NUM_CLIENTS,
    SCALE,
    SETTINGS,
    federation,
    next_request,
    public_key_of,
    refuses,
    seal,
    secret_prime,
)

from dubhe_flwr.core import (
    fixed_point_distribution,
    overall_registry,
    participation_probability,
    registry,
    seeded_draws,
    with_square,
)
from dubhe_flwr.errors import (
    MalformedMessageError,
    ProtocolError,
    RefusedError,
)
from dubhe_flwr.he import RecipientKey, generate_secret_key
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage
from dubhe_flwr.protocol.messages import (
    JoinStatus,
    KeygenRequest,
    ParticipateRequest,
)
from dubhe_flwr.protocol.parameters import epoch_parameters


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
        assert (state.moments_digest, state.probability_digest) == (b"", b"")

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
        nodes = federation(participation="calibrated", thresholds="search", block_size=4)
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
        assert (state.distribution, state.slots) == ((), ())
        nodes.step(replies)
        keys = KeygenRequest(b"".join(public_key_of(nodes, i) for i in nodes.ids))
        own = seal(batch.header.epoch, Stage.KEYGEN, 50, keys)
        refuses(nodes, node_id, own, RefusedError, "did not join that epoch")
        nodes.until(Stage.DETERMINE, 2)
        others = {exchange.stage: exchange.request for exchange in nodes.exchanges}
        for stage in list(Stage)[3:-1]:
            request = {**others[stage], "epoch": state.epoch, "sequence": 50}
            nodes.memories[node_id] = state.to_fields()
            refuses(nodes, node_id, request, RefusedError, "did not join that epoch")


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
                with_square(fixed_point_distribution(COUNTS[row])),
            )
            assert state.modulus == epoch_of(nodes).public_key.to_bytes()

    def test_a_node_registers_once(self) -> None:
        """Another key in the same epoch is refused: two registries would be linked."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        nodes.handle(node_id, request)
        again = {**request, "sequence": 70}
        refuses(nodes, node_id, again, RefusedError, "has registered in that epoch before")

    def test_the_key_of_another_agent_is_opened_as_long_as_nothing_is_known(self) -> None:
        """Where the first agent's key did not open elsewhere; here the seal is of another key."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        nodes.handle(node_id, request)
        other = {**request, "sequence": 70, "modulus": _other_modulus()}
        refuses(nodes, node_id, other, RefusedError, "^register failed: SealError.$")

    def test_no_other_key_once_the_registry_is_read(self) -> None:
        """A second agent may be asked for a key only as long as nothing is known."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.REGISTER)
        nodes.play(2)
        epoch = session_state(nodes, node_id).epoch
        other = {**request, "epoch": epoch, "sequence": 70, "modulus": _other_modulus()}
        refuses(nodes, node_id, other, RefusedError, "has registered in that epoch before")

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
        nodes.memories[node_id] = state.to_fields()
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
            draws = np.array([seeded_draws(7, str(row), r, 1, 4) for r in (1, 2, 3)])
            expected = np.packbits((draws < probability[row]).ravel()).tobytes()
            assert (reply["decisions"], reply["unwilling"]) == (expected, b"\x00")
            assert state.num_draws == 12

    @pytest.mark.parametrize(("seeded", "seed"), [(False, 7), (True, None), (False, None)])
    def test_draws_are_private_unless_both_sides_say_otherwise(
        self, seeded: bool, seed: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the owner's word or without a seed they come from the operating system."""
        monkeypatch.setattr("dubhe_flwr.protocol.registrant.private_draws", np.zeros)
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
        monkeypatch.setattr("dubhe_flwr.protocol.registrant.private_draws", lambda _tries: draws)
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

    @pytest.mark.parametrize(
        ("num_rounds", "expected"), [(1, [0b01000000]), (7, [1]), (8, [0, 0b10000000])]
    )
    def test_moved_labels_are_marked(self, num_rounds: int, expected: list[int]) -> None:
        """One bit after those of the rounds; the size is the same without."""
        nodes = dubhe(COUNTS, policy={"max_label_shift": 0.1}, **SETTINGS)
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        request |= {"num-rounds": num_rounds, "num-tries": 1}
        memory = nodes.memories[node_id]
        assert nodes.handle(node_id, request)["unwilling"] == bytes(len(expected))
        nodes.memories[node_id] = memory
        policy = nodes.policies[node_id]
        nodes.policies[node_id] = replace(policy, label_counts=lambda: COUNTS[5][::-1])
        assert nodes.handle(node_id, request)["unwilling"] == bytes(expected)

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
        nodes.memories[node_id] = state.to_fields()
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


class TestMoments:
    """A node tells what it adds to its category, from a registry that it checked."""

    def asked(self, **overrides: Any) -> tuple[Federation[CoordinatorState], int, Fields]:
        """Return a federation, a node and what that is asked."""
        nodes = federation(participation="calibrated", **overrides)
        node_id, request = next_request(nodes, Stage.MOMENTS)
        return nodes, node_id, request

    @pytest.mark.parametrize("min_cohort", [2, 3, 4])
    def test_moments_stand_in_the_slots_of_the_category(self, min_cohort: int) -> None:
        """They are those of the core, and of the dominating classes in small categories."""
        nodes = dubhe(
            COUNTS,
            policy={"min_cohort": 2},
            **SETTINGS | {"participation": "calibrated", "min_cohort": min_cohort},
        )
        nodes.play(1)
        codebook = epoch_of(nodes).parameters.codebook
        overall, slots = overall_registry(COUNTS, codebook, {1: 0.6, 2: 0.3})
        replies = {e.node_id: e.reply for e in nodes.exchanges if e.stage == Stage.MOMENTS}
        nominal = 0
        for row, node_id in enumerate(nodes.ids):
            reply, slot = replies[node_id], int(slots[row])
            assert isinstance(reply, dict)
            told = decrypted(session_state(nodes, node_id), "moments", reply["moments"])
            own = fixed_point_distribution(COUNTS[row])
            if overall[slot] < min_cohort:
                own = _nominal(codebook.unrank(slot))
                nominal += 1
            expected = np.zeros((codebook.length, 5), dtype=np.int64)
            expected[slot] = with_square(own)
            np.testing.assert_array_equal(told.reshape(codebook.length, 5), expected)
        assert nominal == int((overall * (overall < min_cohort)).sum())

    def test_not_in_an_epoch_without_calibration(self) -> None:
        """A node tells no more than it agreed to when it joined."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        moments = {k: v for k, v in request.items() if k in MOMENTS_FIELDS}
        altered = {**moments, "stage": "moments"}
        refuses(nodes, node_id, altered, RefusedError, "probabilities of this epoch are not calib")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"num-registered": 2}, "A registry of 2 clients is too few"),
            ({"num-registered": 8}, "DecryptionError|not the sum it is said to be"),
            ({"num-registered": 10}, "not the sum it is said to be"),
            ({"overall-registry": bytes(128)}, "^moments failed: DecryptionError.$"),
            ({"overall-registry": b""}, "^moments failed: DecryptionError.$"),
        ],
    )
    def test_a_registry_that_does_not_add_up_is_refused(
        self, change: dict[str, Any], match: str
    ) -> None:
        """The registry is checked as it is for participation."""
        nodes, node_id, request = self.asked()
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)

    def test_a_second_registry_is_refused(self) -> None:
        """What was read for the moments is the registry of the epoch."""
        nodes = federation(participation="calibrated")
        nodes.until(Stage.CALIBRATE)
        node_id = nodes.ids[0]
        state = session_state(nodes, node_id)
        told = next(e for e in nodes.exchanges if (e.stage, e.node_id) == ("moments", node_id))
        overall = decrypted(state, "registry", epoch_of(nodes).overall_registry)
        same = encrypted(state, "registry", overall)
        altered = {**told.request, "overall-registry": same, "sequence": 50}
        refuses(nodes, node_id, altered, RefusedError, "one overall registry in an epoch")
        draws = seal(state.epoch, Stage.PARTICIPATE, 50, ParticipateRequest(same, 9, 1, 1, 1))
        refuses(nodes, node_id, draws, RefusedError, "one overall registry in an epoch")

    def test_before_registration_there_is_nothing_to_read(self) -> None:
        """A node without a key refuses."""
        nodes, node_id, request = self.asked()
        state = replace(session_state(nodes, node_id), modulus=b"", secret_key=b"")
        nodes.memories[node_id] = state.to_fields()
        refuses(nodes, node_id, request, RefusedError, "has not registered in that epoch")


MOMENTS_FIELDS = {
    *("epoch", "sequence", "version"),
    *("overall-registry", "num-registered", "candidate"),
}


def _nominal(classes: tuple[int, ...]) -> NDArray[np.int64]:
    counts = np.zeros(4, dtype=np.int64)
    counts[list(classes)] = 1
    return fixed_point_distribution(counts)


class TestCalibrated:
    """The probability of a node is what stands in the slot of its category, once."""

    def asked(self, **overrides: Any) -> tuple[Federation[CoordinatorState], int, Fields]:
        """Return a federation, a node and what that is asked."""
        nodes = federation(participation="calibrated", **overrides)
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        return nodes, node_id, request

    def with_probability(
        self, nodes: Federation[CoordinatorState], node_id: int, request: Fields, own: int
    ) -> Fields:
        """Return the request with a probability in the node's slot and others elsewhere."""
        state = session_state(nodes, node_id)
        table = np.arange(11)
        table[state.slot] = own
        return {**request, "probabilities": encrypted(state, "probabilities", table)}

    @pytest.mark.parametrize("own", [0, 1, SCALE // 3, SCALE])
    def test_the_probability_is_that_of_the_slot(self, own: int) -> None:
        """In units of the fixed point; with 0 a node never draws a yes, with 1 always."""
        nodes, node_id, request = self.asked(rounds_per_draw=8)
        reply = nodes.handle(node_id, self.with_probability(nodes, node_id, request, own))
        state = session_state(nodes, node_id)
        assert state.probability == own / SCALE
        row = nodes.ids.index(node_id)
        draws = np.array([seeded_draws(7, str(row), r, 1, 4) for r in range(1, 9)])
        expected = np.packbits((draws < own / SCALE).ravel()).tobytes()
        assert reply["decisions"] == expected
        if own in {0, SCALE}:
            assert expected == (b"\xff" if own else b"\x00") * 4

    @pytest.mark.parametrize("own", [SCALE + 1, 2 * SCALE])
    def test_no_probability_is_above_one(self, own: int) -> None:
        """What is none does not come out as one."""
        nodes, node_id, request = self.asked()
        altered = self.with_probability(nodes, node_id, request, own)
        refuses(nodes, node_id, altered, RefusedError, "^participate failed: DecryptionError.$")

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda vector, _key: bytes(len(vector)),
            lambda vector, key: secret_prime(key).to_bytes(len(vector), "big"),
            lambda vector, _key: vector[:-1],
            lambda vector, _key: vector * 2,
            lambda vector, _key: vector[:1],
            lambda _vector, _key: generate_secret_key(512).encrypt([1]),
        ],
    )
    def test_what_is_no_ciphertext_is_refused(self, spoil: Any) -> None:
        """Zero, multiples of the primes, foreign ciphertexts and wrong sizes give nothing."""
        nodes, node_id, request = self.asked()
        key = secret_key(session_state(nodes, node_id))
        altered = {**request, "probabilities": spoil(request["probabilities"], key)}
        refuses(nodes, node_id, altered, RefusedError, "^participate failed: DecryptionError.$")

    @pytest.mark.parametrize("again", [True, False])
    def test_a_second_vector_is_refused(self, again: bool) -> None:
        """Neither other probabilities nor eq. 6 can follow the first ones, nor the reverse."""
        nodes = federation(participation="calibrated")
        if not again:
            nodes.alter_reply = lambda stage, _n, reply: None if stage == "moments" else reply
        nodes.play(1)
        node_id, request = next_request(nodes, Stage.PARTICIPATE, 2)
        state = session_state(nodes, node_id)
        for probabilities in (
            b"" if again else encrypted(state, "probabilities", np.full(11, 7)),
            encrypted(state, "probabilities", np.full(11, 8)),
            bytes(128),
        ):
            altered = {**request, "probabilities": probabilities}
            refuses(nodes, node_id, altered, RefusedError, "one probability in an epoch")
        nodes.handle(node_id, request)
        assert session_state(nodes, node_id).probability == state.probability

    def test_not_in_an_epoch_without_calibration(self) -> None:
        """A server cannot set probabilities where nodes agreed to compute their own."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        altered = self.with_probability(nodes, node_id, request, SCALE)
        refuses(nodes, node_id, altered, RefusedError, "probabilities of this epoch are not calib")
        nodes.handle(node_id, request)

    @pytest.mark.parametrize("change", [{"num-registered": 8}, {"overall-registry": bytes(128)}])
    def test_the_registry_is_checked_all_the_same(self, change: dict[str, Any]) -> None:
        """Even where the probability does not depend on it, there is one registry."""
        nodes, node_id, request = self.asked()
        refuses(nodes, node_id, {**request, **change}, RefusedError, "one overall registry")

    @pytest.mark.parametrize("tries", [1, 2, 40])
    def test_more_volunteer_where_groups_are_cut(self, tries: int) -> None:
        """By eq. 6 for as many volunteers as H tries have, at most half of all clients."""
        counts = np.tile(COUNTS, (4, 1))
        nodes = dubhe(
            counts,
            **SETTINGS
            | {"determination": "grouped", "tries": tries, "max_clients": 40}
            | {"max_draws_per_epoch": 400},
        )
        nodes.play(1)
        codebook = epoch_of(nodes).parameters.codebook
        overall, slots = overall_registry(counts, codebook, {1: 0.6, 2: 0.3})
        volunteers = {1: 4, 2: 8, 40: 18}[tries]
        expected = participation_probability(overall, volunteers)[slots]
        found = [session_state(nodes, node_id).probability for node_id in nodes.ids]
        np.testing.assert_array_equal(found, expected)
