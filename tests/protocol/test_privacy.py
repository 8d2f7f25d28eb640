"""The server always receives the same number and sizes of messages, all of them unreadable."""

import json
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    dubhe,
    epoch_of,
    joined,
    registered,
    secret_key,
    skewed_counts,
)

from dubhe_flwr.core.distribution import distance_to_uniform, fixed_point_distribution
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
SEARCH: dict[str, Any] = TRIES | {"thresholds": "search", "reference_set": (1, 10)}
PRICES: dict[str, Any] = {"num_participants": 4, "registration_interval": 3}
HEADER = {"version", "epoch", "stage", "sequence"}
"""Fields of every message."""
REPLIED = {
    *("status", "alias", "num-classes", "public-key", "public", "sealed-keys", "registration"),
    *("distribution", "contribution", "finding", "decisions", "unwilling", "chosen"),
    *("draws.decisions", "draws.unwilling"),
}
"""Names, keys, ciphertexts, bits, an index, and findings that all nodes share."""
OTHER_LABELS = [
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 10**9],
    [0, 7, 0, 0, 0, 0, 7, 0, 0, 0],
    [2**38] * 10,
    [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
]
"""One sample, one class, two classes, uniform labels, and shares without a common divisor."""
Nodes = Federation[CoordinatorState]


def run(counts: NDArray[np.int64], *, simulated: bool = True, **settings: Any) -> Nodes:
    """Play six rounds with two registrations."""
    nodes = dubhe(counts, policy={"simulated": simulated}, **settings)
    nodes.rounds(1, 6)
    return nodes


def shapes(nodes: Nodes) -> list[Any]:
    """Return stage, node, names, types and sizes."""

    def shape(fields: Any) -> list[Any]:
        return [
            (name, type(value), len(value) if isinstance(value, bytes | str) else 8)
            for name, value in fields.items()
        ]

    return [(e.stage, e.node_id, shape(e.request), shape(e.reply)) for e in nodes.exchanges]


@pytest.mark.parametrize(
    ("settings", "simulated"), [(TRIES, True), (TRIES, False), (SEARCH, False), (PRICES, True)]
)
def test_labels_change_no_message_and_no_size(settings: dict[str, Any], simulated: bool) -> None:
    """Labels change neither the messages, nor their sizes, nor their recipients.

    With prices, they may change how often all nodes are asked to settle.
    """
    usual = skewed_counts(40, num_classes=10) if settings is PRICES else COUNTS
    changed = usual.copy()
    changed[3:8] = OTHER_LABELS
    one, other = (
        shapes(run(counts, simulated=simulated, **settings)) for counts in (usual, changed)
    )
    assert len(one) > 6 * NUM_CLIENTS
    if settings is PRICES:
        assert any(stage == "settle" for stage, *_ in one)
        assert set(map(repr, one)) == set(map(repr, other))
    else:
        assert one == other


def encodings(vector: Any) -> set[bytes]:
    """Return the obvious ways to write down a vector of numbers."""
    array = np.asarray(vector)
    integers = (">i8", "<i8", ">i4", "<i4", ">i2", "<i2", ">u1")
    floats = (">f8", "<f8", ">f4", "<f4")
    fitting = [k for k in integers if array.dtype.kind != "f" and (array.astype(k) == array).all()]
    binary = {array.astype(kind).tobytes() for kind in (*fitting, *floats)}
    listed = array.tolist()
    texts = {json.dumps(listed), json.dumps(listed, separators=(",", ":"))}
    texts |= {joiner.join(map(str, listed)) for joiner in (",", " ", ";", "\n", "")}
    found = binary | {text.encode() for text in texts}
    # Shorter ones would now and then be found in ciphertexts by chance.
    return {encoding for encoding in found if len(encoding) >= 8}


def label_secrets(rule: Paper, candidate: Mapping[int, float]) -> set[bytes]:
    """Return the ways to write down R_A, P, and each node's labels, p_l and registry."""
    overall, slots = overall_registry(COUNTS, rule.codebook, candidate)
    secrets = encodings(overall) | encodings(participation_probability(overall, 4))
    for counts, slot in zip(COUNTS, slots, strict=True):
        registry = np.eye(rule.codebook.length, dtype=np.int64)[slot]
        for own in (fixed_point_distribution(counts), counts, counts / counts.sum(), registry):
            secrets |= encodings(own)
    return secrets


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


@pytest.mark.parametrize("settings", [TRIES, SEARCH], ids=["tries", "search"])
def test_nothing_is_in_the_clear(settings: dict[str, Any]) -> None:
    """No registry, R_A, p_l, P, p_o, EMD or key, however written, nor a field for more.

    No key is in the state that the server keeps, either.
    """
    nodes = dubhe(COUNTS, policy={"simulated": False}, **settings)
    secrets: set[bytes] = set()
    keys: set[bytes] = set()
    shares = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    for server_round in range(1, 7):
        plan = nodes.play(server_round)
        members = [nodes.ids.index(node_id) for node_id in plan.participants]
        population = shares[members].mean(axis=0)
        fixed = sum(fixed_point_distribution(COUNTS[row]) for row in members)
        secrets |= encodings(population) | encodings(fixed)
        secrets |= encodings([distance_to_uniform(population)])
        for node_id in nodes.ids:
            own = joined(nodes, node_id)
            key = secret_key(own)
            p = int.from_bytes(key.to_bytes(), "big")
            for number in (p, key.public_key.n // p, int.from_bytes(own.delivery_key, "big")):
                keys |= ways_to_write(number, 32)
            secrets |= encodings([registered(nodes, node_id).probability])
        state = pickle.dumps(nodes.state)
        assert key.public_key.to_bytes() in state
        assert not any(written in state for written in keys)
    rule = joined(nodes, nodes.ids[0]).terms.rule
    assert isinstance(rule, Paper)
    for candidate in rule.candidates:
        secrets |= label_secrets(rule, candidate)
    if len(rule.candidates) > 1:
        secrets |= secrets_of_search(rule)
    replies: list[Any] = [exchange.reply for exchange in nodes.exchanges]
    new = {name for reply in replies for name in reply} - HEADER - REPLIED
    assert not new, f"new fields of replies: {new}; add to REPLIED what cannot depend on labels"
    values = [value for reply in replies for value in reply.values()]
    assert {type(value) for value in values} <= {bytes, str, int}
    findings = {reply["finding"] for reply in replies if "finding" in reply}
    assert len(findings) == (2 if settings is SEARCH else 1)  # none yet, and what all find alike
    received = b"\x00|".join(v if isinstance(v, bytes) else repr(v).encode() for v in values)
    assert len(secrets | keys) > 700
    assert [secret for secret in secrets | keys if secret in received] == []
    # The search itself does find labels.
    assert key.public_key.to_bytes() in received
    assert epoch_of(nodes).registration.distributions[nodes.ids[0]] in received


def test_equal_labels_have_different_ciphertexts() -> None:
    """Ciphertexts of the same data differ between nodes, and between epochs."""
    nodes = run(np.tile(COUNTS[0], (NUM_CLIENTS, 1)), **SEARCH)
    told: list[Any] = [e.reply for e in nodes.exchanges if e.stage in {"register", "settle"}]
    for field in ("registration", "distribution", "contribution"):
        vectors = [reply[field] for reply in told if field in reply]
        assert len(set(vectors)) == len(vectors) == 2 * NUM_CLIENTS
