"""The server always receives the same number and sizes of messages, all of them unreadable."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from disclosure import HEADER, encodings, label_secrets
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    dubhe,
    epoch_of,
    fingerprint,
    joined,
    reading_of,
    secret_key,
    skewed_counts,
)

from dubhe_flwr.core.distribution import (
    distance_to_uniform,
    fixed_point_distribution,
)
from dubhe_flwr.core.registration import participation_probability
from dubhe_flwr.core.search import search_contribution
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.rules import Paper
from dubhe_lab.data.measures import overall_registry

NUM_CLIENTS = 12
COUNTS = skewed_counts(NUM_CLIENTS, num_classes=10)
TRIES: dict[str, Any] = {
    "num_participants": 4, "reference_set": (1, 2, 10), "thresholds": {1: 0.6, 2: 0.3}, "tries": 5,
    "registration_interval": 3, "rounds_per_draw": 2,
}  # fmt: skip
SEARCH: dict[str, Any] = {"thresholds": "search", "reference_set": (1, 10)}
KINDS = {
    "tries": TRIES,
    "search": TRIES | SEARCH,
    "prices": {"num_participants": 4, "registration_interval": 3},
}
REPLIED = {
    *("status", "alias", "num-classes", "public-key", "modulus", "sealed-keys", "registration"),
    *("distribution", "contribution", "finding", "decisions", "unwilling", "chosen"),
    *("draws.decisions", "draws.unwilling"),
}
"""Names, keys, ciphertexts, bits, an index, and findings that all nodes share."""
OTHER_LABELS = {
    "one sample": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    "one class": [0, 0, 0, 0, 0, 0, 0, 0, 0, 10**9],
    "two classes": [0, 7, 0, 0, 0, 0, 7, 0, 0, 0],
    "uniform": [2**38] * 10,
    "prime shares": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
}
Nodes = Federation[CoordinatorState]


def run(counts: NDArray[np.int64] = COUNTS, simulated: bool = True, **settings: Any) -> Nodes:
    """Play six rounds with two registrations."""
    nodes = dubhe(counts, policy={"simulated": simulated}, **settings)
    for server_round in range(1, 7):
        nodes.play(server_round)
    return nodes


def replies_of(nodes: Nodes, *stages: str) -> list[Any]:
    """Return what nodes replied."""
    return [e.reply for e in nodes.exchanges if e.stage in stages]


def shapes(nodes: Nodes) -> list[Any]:
    """Return stage, node, names, types and sizes."""

    def shape(fields: Any) -> list[Any]:
        return [
            (name, type(value), len(value) if isinstance(value, bytes | str) else 8)
            for name, value in fields.items()
        ]

    return [(e.stage, e.node_id, shape(e.request), shape(e.reply)) for e in nodes.exchanges]


@cache
def usual_shapes(kind: str, simulated: bool) -> list[Any]:
    """Return the shapes of a run in which no client's labels are changed."""
    counts = skewed_counts(40) if kind == "prices" else COUNTS
    return shapes(run(counts, simulated, **KINDS[kind]))


@pytest.mark.parametrize("labels", OTHER_LABELS.values(), ids=OTHER_LABELS)
@pytest.mark.parametrize(
    ("kind", "simulated"),
    [("tries", True), ("tries", False), ("search", False)],
)
def test_labels_change_no_message_and_no_size(
    kind: str, simulated: bool, labels: list[int]
) -> None:
    """One client's labels change neither the messages, nor their sizes, nor their recipients."""
    changed = COUNTS.copy()
    changed[3] = labels
    one = usual_shapes(kind, simulated)
    assert one == shapes(run(changed, simulated, **KINDS[kind]))
    assert len(one) > 6 * NUM_CLIENTS


@pytest.mark.parametrize("labels", [[1, 0, 0, 0], [2**38] * 4])
def test_with_prices_labels_change_no_size(labels: list[int]) -> None:
    """Each node gets the same messages; only how often all are asked to settle may change."""
    counts = skewed_counts(40)
    counts[3] = labels
    usual = usual_shapes("prices", simulated=True)
    assert set(map(repr, usual)) == set(map(repr, shapes(run(counts, **KINDS["prices"]))))
    assert any(stage == "settle" for stage, *_ in usual)


def ways_to_write(number: int, size: int) -> set[bytes]:
    """Return the obvious encodings of a large number."""
    texts = {str(number).encode(), f"{number:x}".encode(), f"{number:X}".encode()}
    return texts | {number.to_bytes(size, "big"), number.to_bytes(size, "little")}


def secrets_of_search(rule: Paper) -> set[bytes]:
    """Return the encodings of nodes' expectations under each candidate and all of them."""
    rows = [overall_registry(COUNTS, rule.codebook, candidate) for candidate in rule.candidates]
    likely = np.array([participation_probability(overall, 4)[slots] for overall, slots in rows])
    tables: list[Any] = [
        search_contribution(fixed_point_distribution(counts), likely[:, index])
        for index, counts in enumerate(COUNTS)
    ]
    whole = {way for table in [*tables, sum(tables)] for way in encodings(table.ravel())}
    lines = np.concatenate([*tables, sum(tables)])
    return whole.union(*(encodings(row) | encodings(row / 2**20) for row in lines))


@pytest.mark.parametrize("kind", ["tries", "search"])
def test_messages_hold_nothing_in_the_clear(kind: str) -> None:
    """No registry, R_A, p_l, P, p_o, EMD or key, however written, nor a field for more."""
    settings = KINDS[kind]
    nodes = dubhe(COUNTS, policy={"simulated": False}, **settings)
    secrets: set[bytes] = set()
    shares = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    rows = {node_id: row for row, node_id in enumerate(nodes.ids)}
    for server_round in range(1, 7):
        plan = nodes.play(server_round)
        members = [rows[node_id] for node_id in plan.participants]
        population = shares[members].mean(axis=0)
        fixed = sum(fixed_point_distribution(COUNTS[row]) for row in members)
        secrets |= encodings(population) | encodings(fixed)
        secrets |= encodings([distance_to_uniform(population)])
        for node_id in nodes.ids:
            own = joined(nodes, node_id)
            key = secret_key(own)
            p = int.from_bytes(key.to_bytes(), "big")
            for prime in (p, key.public_key.n // p):
                secrets |= ways_to_write(prime, 32)
            secrets |= ways_to_write(int.from_bytes(own.delivery_key, "big"), 32)
            secrets |= encodings([reading_of(nodes, node_id).probability])
    rule = joined(nodes, nodes.ids[0]).terms.rule
    assert isinstance(rule, Paper)
    for candidate in rule.candidates:
        secrets |= label_secrets(COUNTS, rule.codebook.reference_set, candidate)
        overall, _ = overall_registry(COUNTS, rule.codebook, candidate)
        secrets |= encodings(participation_probability(overall, 4))
    if len(rule.candidates) > 1:
        secrets |= secrets_of_search(rule)
    replies: list[Any] = [exchange.reply for exchange in nodes.exchanges]
    received = b"\x00|".join(
        value if isinstance(value, bytes) else repr(value).encode()
        for reply in replies
        for value in reply.values()
    )
    new = {name for reply in replies for name in reply} - HEADER - REPLIED
    assert not new, f"new fields of replies: {new}; add to REPLIED what cannot depend on labels"
    assert {type(value) for reply in replies for value in reply.values()} <= {bytes, str, int}
    findings = {reply["finding"] for reply in replies_of(nodes, "settle")}
    assert len(findings) == (2 if kind == "search" else 0)  # none yet, and what all find alike
    assert len(secrets) > 700
    assert [secret for secret in secrets if secret in received] == []
    # The search itself does find labels.
    assert key.public_key.to_bytes() in received
    assert epoch_of(nodes).distributions[0] in received


def test_the_servers_state_holds_no_key() -> None:
    """What the server keeps or stores can decrypt nothing, and opens no sealed key."""
    nodes = run(**KINDS["search"])
    own = joined(nodes, nodes.ids[0])
    key = secret_key(own)
    written = repr(fingerprint(nodes.state)).encode()
    p = int.from_bytes(key.to_bytes(), "big")
    for secret in (p, key.public_key.n // p, int.from_bytes(own.delivery_key, "big")):
        for way in ways_to_write(secret, 32):
            assert repr(way)[2:-1].encode() not in written
    assert repr(key.public_key.to_bytes())[2:-1].encode() in written


def test_equal_labels_have_different_ciphertexts() -> None:
    """Ciphertexts of the same data differ between nodes, and between epochs."""
    nodes = run(np.tile(COUNTS[0], (NUM_CLIENTS, 1)), **KINDS["search"])
    told = replies_of(nodes, "register", "settle")
    for field in ("registration", "distribution", "contribution"):
        vectors = [reply[field] for reply in told if field in reply]
        assert len(set(vectors)) == len(vectors) == 2 * NUM_CLIENTS
