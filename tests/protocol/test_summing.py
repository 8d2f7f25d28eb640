"""Tests of sums that are made as replies are read."""

from collections.abc import Mapping
from typing import Any

import pytest

from dubhe_flwr.he import SecretKey, generate_secret_key, homomorphic_sum
from dubhe_flwr.protocol import Batch, Fields, NodeFailure
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import MomentsReply, MomentsRequest
from dubhe_flwr.protocol.summing import sum_replies

HEADER = Envelope(bytes(16), "moments", 3)
IDS = (5, 3, 9, 4)


class Kept:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def clear(self) -> None:
        """Forget."""
        self.taken.clear()

    def take(self, node_id: int, reply: MomentsReply) -> None:
        """Note a node."""
        self.taken.append(node_id)


@pytest.fixture(scope="module")
def key() -> SecretKey:
    """Return a small key."""
    return generate_secret_key(512)


def batch() -> Batch:
    """Return a request to four nodes."""
    return Batch(HEADER, dict.fromkeys(IDS, MomentsRequest(bytes(128), 4, 0)))


def replies(key: SecretKey, **changed: Any) -> dict[int, Any]:
    """Return valid replies, with some changed."""
    vectors = {f"n{node_id}": key.encrypt([node_id, 1]) for node_id in IDS} | changed
    return {
        node_id: vector if isinstance(vector, NodeFailure) else HEADER.seal(MomentsReply(vector))
        for node_id, vector in zip(IDS, vectors.values(), strict=True)
    }


def vector_of(reply: MomentsReply) -> bytes | None:
    """Return the vector if its size fits."""
    return reply.moments if len(reply.moments) == 256 else None


def test_all_that_came_is_summed(key: SecretKey) -> None:
    """Nodes are told in the order of the requests, each once."""
    kept, answers = Kept(), replies(key)
    total, report = sum_replies(batch(), answers, key.public_key, 2, vector_of, kept)
    assert key.decrypt(total.value()) == [sum(IDS), 4]
    vectors = [answers[node_id]["moments"] for node_id in IDS]
    assert total.value() == homomorphic_sum(key.public_key, vectors, 2)
    assert kept.taken == list(IDS)
    assert (report.accepted, report.dropped) == (4, {})


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda key: bytes(256), "invalid ciphertext"),
        (lambda key: key.encrypt([1]) + b"\xff" * 128, "invalid ciphertext"),
        (lambda key: key.encrypt([1]) + (key._p * 99).to_bytes(128, "big"), "invalid ciphertext"),
        (lambda key: key.encrypt([1]), "wrong size of ciphertexts"),
        (lambda key: NodeFailure("no"), "error reply"),
    ],
    ids=["zero", "too large", "no unit", "too short", "failure"],
)
def test_what_is_unfit_is_left_out(key: SecretKey, bad: Any, reason: str) -> None:
    """Even where only the sum tells that something is wrong, the others count once."""
    kept = Kept()
    answers = replies(key, n9=bad(key))
    total, report = sum_replies(batch(), answers, key.public_key, 2, vector_of, kept)
    assert key.decrypt(total.value()) == [sum(IDS) - 9, 3]
    assert (total.num_addends, kept.taken) == (3, [5, 3, 4])
    assert (report.sent, report.accepted, report.dropped) == (4, 3, {reason: 1})


def test_a_reply_that_came_alone_is_looked_at_too(key: SecretKey) -> None:
    """What is no unit is left out, even if no sum is left."""
    no_unit = (key._p * 99).to_bytes(128, "big")
    answers = {5: replies(key, n5=key.encrypt([1]) + no_unit)[5]}
    total, report = sum_replies(batch(), answers, key.public_key, 2, vector_of, kept := Kept())
    assert (total.num_addends, kept.taken, report.accepted) == (0, [], 0)
    assert report.dropped == {"no reply": 3, "invalid ciphertext": 1}


def test_replies_are_read_one_by_one(key: SecretKey) -> None:
    """A mapping that makes each reply when it is asked for is asked once for each."""
    answers = replies(key)
    asked: list[int] = []

    class Lazy(Mapping[int, Fields]):
        def __getitem__(self, node_id: int) -> Fields:
            asked.append(node_id)
            fields: Fields = answers[node_id]
            return fields

        def __iter__(self) -> Any:
            raise AssertionError

        def __len__(self) -> int:
            raise AssertionError

    total, _ = sum_replies(batch(), Lazy(), key.public_key, 2, vector_of)
    assert total.num_addends == 4
    assert asked == list(IDS)


def test_nothing_came(key: SecretKey) -> None:
    """There is then no sum."""
    total, report = sum_replies(batch(), {}, key.public_key, 2, vector_of, Kept())
    assert (total.num_addends, report.dropped) == (0, {"no reply": 4})
