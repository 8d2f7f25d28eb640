"""What the server receives: always the same number and sizes of messages, and nothing in clear."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from disclosure import encodings
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    dubhe,
    epoch_of,
    fingerprint,
    secret_key,
    session_state,
    skewed_counts,
)
from protocol.plain import plain_probability

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    distance_to_uniform,
    fixed_point_distribution,
    moments,
    overall_registry,
    participation_probability,
    population_distribution,
    registry,
    search_contribution,
)
from dubhe_flwr.protocol import CoordinatorState, NodeFailure, Settings

NUM_CLIENTS = 12
NUM_ROUNDS = 6
COUNTS = skewed_counts(NUM_CLIENTS, num_classes=10)
SETTINGS: dict[str, Any] = {
    "num_participants": 4,
    "reference_set": (1, 2, 10),
    "thresholds": {1: 0.6, 2: 0.3},
    "tries": 5,
    "registration_interval": 3,
    "rounds_per_draw": 2,
}
OTHER_LABELS = {
    "one sample": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    "one class": [0, 0, 0, 0, 0, 0, 0, 0, 0, 10**9],
    "two classes": [0, 7, 0, 0, 0, 0, 7, 0, 0, 0],
    "uniform": [2**38] * 10,
    "prime shares": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
}


BEYOND: dict[str, Any] = SETTINGS | {
    "participation": "calibrated",
    "determination": "grouped",
    "num_participants": 3,
    "group_size": 3,
    "block_size": 4,
}

SEARCH: dict[str, Any] = {"thresholds": "search", "reference_set": (1, 10)}
"""Three candidates, so that twelve clients leave an agent a try of each."""


def run(
    counts: NDArray[np.int64] = COUNTS,
    settings: dict[str, Any] = SETTINGS,
    *,
    seeded_draws: bool = True,
) -> Federation[CoordinatorState]:
    """Play some rounds with two registrations."""
    nodes = dubhe(counts, policy={"seeded_draws": seeded_draws}, **settings)
    for server_round in range(1, NUM_ROUNDS + 1):
        nodes.play(server_round)
    return nodes


def shapes(nodes: Federation[CoordinatorState]) -> list[Any]:
    """Return stage, node, and names, types and sizes of all fields, message by message.

    How many groups an agent is asked about follows from the decisions, which the server sees.
    """
    grouped = epoch_of(nodes).groups_per_round > 0

    def shape(fields: Any, *, of_groups: bool = False) -> list[Any]:
        return [
            (name, type(value), len(value) if isinstance(value, bytes | str) else 8)
            for name, value in fields.items()
            if not (of_groups and name in {"sums", "num-sums", "num-clients"})
        ]

    return [
        (
            *(e.stage, e.node_id),
            shape(e.request, of_groups=grouped and e.stage == "determine"),
            shape(e.reply),
        )
        for e in nodes.exchanges
    ]


@pytest.mark.parametrize("seeded_draws", [True, False])
@pytest.mark.parametrize("labels", OTHER_LABELS.values(), ids=OTHER_LABELS)
@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        SETTINGS | {"participation": "calibrated"},
        BEYOND | {"participation": "paper"},
        BEYOND,
        SETTINGS | SEARCH,
        BEYOND | SEARCH | {"thresholds": "search-tries"},
    ],
    ids=["paper", "calibrated", "grouped", "both", "search", "search by tries"],
)
def test_labels_change_no_number_and_no_size(
    settings: dict[str, Any], labels: list[int], seeded_draws: bool
) -> None:
    """Whatever one client holds, the same messages of the same sizes go to the same nodes."""
    changed = COUNTS.copy()
    changed[3] = labels
    one = run(COUNTS, settings, seeded_draws=seeded_draws)
    other = run(changed, settings, seeded_draws=seeded_draws)
    assert shapes(one) == shapes(other)
    assert len(shapes(one)) > 6 * NUM_CLIENTS


@pytest.mark.parametrize("seeded_draws", [True, False])
@pytest.mark.parametrize("labels", OTHER_LABELS.values(), ids=OTHER_LABELS)
def test_labels_that_move_change_no_number_and_no_size(
    labels: list[int], seeded_draws: bool
) -> None:
    """Whether they moved is a bit that each node sends in any case, also if it begins a byte."""
    settings = SETTINGS | {"rounds_per_draw": 8, "registration_interval": 8}
    runs = []
    for when_drawing in (COUNTS[3], labels):
        policy = {"seeded_draws": seeded_draws, "max_label_shift": 0.05}
        nodes = dubhe(COUNTS, policy=policy, **settings)
        node_id = nodes.ids[3]
        read = cycle([COUNTS[3], when_drawing]).__next__  # at the join, and at the draw after it
        nodes.policies[node_id] = replace(nodes.policies[node_id], label_counts=read)
        for server_round in range(1, 17):
            nodes.play(server_round)
            moved = {node_id} if when_drawing is labels else set()
            assert epoch_of(nodes).moved == moved
        runs.append(nodes)
    one, other = map(shapes, runs)
    assert one == other
    assert len(one) > 6 * NUM_CLIENTS


def test_a_reply_has_no_room_for_anything_else() -> None:
    """Replies hold names, keys, ciphertexts, bits and an index, and never a float."""
    nodes, beyond = run(), run(settings=BEYOND | SEARCH)
    header = {"epoch", "stage", "sequence", "version"}
    expected = {
        "join": {"status", "alias", "public-key", "signature"},
        "keygen": {"modulus", "sealed-keys", "signature"},
        "register": {"registry", "distribution"},
        "check": {"passed"},
        "expect": {"expectations", "decisions"},
        "search": {"candidate"},
        "moments": {"moments"},
        "calibrate": {"probabilities"},
        "participate": {"decisions", "unwilling"},
        "determine": {"chosen"},
    }
    assert {exchange.stage for exchange in beyond.exchanges} == set(expected)
    for exchange in [*nodes.exchanges, *beyond.exchanges]:
        assert isinstance(exchange.reply, dict)
        assert set(exchange.reply) - header == expected[exchange.stage]
        assert not any(isinstance(value, float) for value in exchange.reply.values())


def ways_to_write(number: int, size: int) -> set[bytes]:
    """Return the obvious ways to write down a large number."""
    return {
        number.to_bytes(size, "big"),
        number.to_bytes(size, "little"),
        str(number).encode(),
        f"{number:x}".encode(),
        f"{number:X}".encode(),
    }


@pytest.mark.parametrize("settings", [SETTINGS, BEYOND], ids=["paper", "both"])
def test_a_transcript_holds_nothing_in_the_clear(settings: dict[str, Any]) -> None:
    """No registry, R_A, p_l, P, moments, p_o, EMD or secret key, however it may be written."""
    nodes = dubhe(COUNTS, policy={"seeded_draws": False}, **settings)
    secrets: set[bytes] = set()
    shares = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    for server_round in range(1, NUM_ROUNDS + 1):
        nodes.play(server_round)
        for members in nodes.state.rounds[server_round].selections:
            population = population_distribution(shares[members])
            fixed = sum(fixed_point_distribution(COUNTS[row]) for row in members)
            secrets |= encodings(population) | encodings(fixed)
            secrets |= encodings([distance_to_uniform(population)])
        for node_id in nodes.ids:
            state = session_state(nodes, node_id)
            p = int.from_bytes(state.secret_key, "big")
            for prime in (p, int.from_bytes(state.modulus, "big") // p):
                secrets |= ways_to_write(prime, 32)
            secrets |= ways_to_write(int.from_bytes(state.recipient_key, "big"), 32)
            secrets.add(np.float64(state.probability).tobytes())
            secrets.add(np.float64(state.probability).byteswap().tobytes())
    codebook = epoch_of(nodes).parameters.codebook
    overall, slots = overall_registry(COUNTS, codebook, SETTINGS["thresholds"])
    secrets |= encodings(overall) | encodings(participation_probability(overall, 4))
    calibrated = plain_probability(Settings(key_bits=512, **BEYOND), COUNTS)
    by_category = np.zeros(codebook.length)
    by_category[slots] = calibrated
    secrets |= encodings(calibrated) | encodings(by_category)
    secrets |= encodings(np.rint(by_category * FIXED_POINT_SCALE).astype(np.int64))
    tables = [
        moments(fixed_point_distribution(row), int(slot), overall, codebook, 3)
        for row, slot in zip(COUNTS, slots, strict=True)
    ]
    for table in [*tables, sum(tables, np.zeros_like(tables[0]))]:
        secrets |= encodings(table.ravel())
        secrets |= {way for row in table if row.any() for way in encodings(row)}
    for row, slot in enumerate(slots.tolist()):
        fixed_row = fixed_point_distribution(COUNTS[row])
        secrets |= encodings(registry(codebook.unrank(slot), codebook))
        secrets |= encodings(COUNTS[row]) | encodings(shares[row]) | encodings(fixed_row)
        for share in fixed_row[fixed_row > 2**16].tolist():
            secrets |= {np.array(share, dtype=kind).tobytes() for kind in (">i8", "<i8", ">f8")}
    received = b"\x00|".join(
        value if isinstance(value, bytes) else repr(value).encode()
        for exchange in nodes.exchanges
        if exchange.reply is not None and not isinstance(exchange.reply, NodeFailure)
        for value in exchange.reply.values()
    )
    assert len(secrets) > 1000
    assert [secret for secret in secrets if secret in received] == []
    # The search itself finds what is there.
    assert epoch_of(nodes).public_key.to_bytes() in received
    assert epoch_of(nodes).distributions[0] in received


def test_a_search_tells_an_index_only() -> None:
    """Neither what a node expects nor the sum over all of them, however it may be written."""
    nodes = dubhe(COUNTS, policy={"seeded_draws": False}, **SETTINGS | SEARCH)
    nodes.play(1)
    parameters = epoch_of(nodes).parameters
    registered = [overall_registry(COUNTS, parameters.codebook, c) for c in parameters.candidates]
    tables = [
        search_contribution(
            fixed_point_distribution(row),
            [slots[index] for _, slots in registered],
            [overall for overall, _ in registered],
            4,
        )
        for index, row in enumerate(COUNTS)
    ]
    secrets: set[bytes] = set()
    for table in [*tables, sum(tables, np.zeros_like(tables[0]))]:
        secrets |= encodings(table.ravel())
        secrets |= {way for row in table for way in encodings(row) | encodings(row / 2**20)}
    replies: list[Any] = [e.reply for e in nodes.exchanges if e.stage in {"expect", "search"}]
    received = b"|".join(v for r in replies for v in r.values() if isinstance(v, bytes))
    assert len(secrets) > 500
    assert [secret for secret in secrets if secret in received] == []
    *told, found = replies
    assert len({reply["expectations"] for reply in told}) == NUM_CLIENTS
    assert found["candidate"] == epoch_of(nodes).candidate


def test_the_servers_state_holds_no_key() -> None:
    """What the server keeps or stores can decrypt nothing."""
    nodes = run(settings=BEYOND)
    key = secret_key(session_state(nodes, nodes.ids[0]))
    written = repr(fingerprint(nodes.state)).encode()
    p = int.from_bytes(key.to_bytes(), "big")
    for prime in (p, key.public_key.n // p):
        for way in ways_to_write(prime, 32):
            assert repr(way)[2:-1].encode() not in written
    assert str(key.public_key.n).encode() in written


def test_equal_labels_look_different() -> None:
    """Ciphertexts of the same data differ between nodes, and between epochs."""
    counts = np.tile(COUNTS[0], (NUM_CLIENTS, 1))
    nodes = run(counts, BEYOND)
    replies: list[Any] = [e.reply for e in nodes.exchanges if e.stage == "register"]
    assert len(replies) == 2 * NUM_CLIENTS
    for field in ("registry", "distribution"):
        assert len({reply[field] for reply in replies}) == 2 * NUM_CLIENTS
    told: list[Any] = [e.reply for e in nodes.exchanges if e.stage == "moments"]
    size = epoch_of(nodes).public_key.ciphertext_bytes
    vectors = [reply["moments"] for reply in told]
    ciphertexts = [v[start : start + size] for v in vectors for start in range(0, len(v), size)]
    assert len(set(ciphertexts)) == len(ciphertexts) > 10 * NUM_CLIENTS


def test_agents_decrypt_few_sums_of_many_clients() -> None:
    """Every sum covers K clients, and no agent gets half as many sums as there are clients."""
    nodes = dubhe(COUNTS, **SETTINGS | {"registration_interval": 30})
    for server_round in range(1, 31):
        nodes.play(server_round)
        assert epoch_of(nodes).first_round in {1, 13, 25}
    requests = [e.request for e in nodes.exchanges if e.stage == "determine"]
    assert {request["num-clients"] for request in requests} == {
        np.full(5, 4, dtype=">i8").tobytes()
    }
    for node_id in nodes.ids:
        assert session_state(nodes, node_id).num_sums < NUM_CLIENTS / 2


def test_agents_decrypt_sums_of_few_groups() -> None:
    """Groups have a cohort each, and no agent gets half as many as there are clients."""
    counts = skewed_counts(30, num_classes=10)
    nodes = dubhe(counts, **BEYOND | {"num_participants": 7, "registration_interval": 12})
    for server_round in range(1, 13):
        nodes.play(server_round)
    requests = [e.request for e in nodes.exchanges if e.stage == "determine"]
    sizes = [request["num-clients"] for request in requests]
    covered = [np.frombuffer(size, dtype=">i8") for size in sizes if isinstance(size, bytes)]
    assert set(np.concatenate(covered).tolist()) == {3, 4}
    sums = [session_state(nodes, node_id).num_sums for node_id in nodes.ids]
    assert sum(sums) == sum(map(len, covered)) + 30 // 4  # one node checked the blocks
    assert max(sums) < 15


def test_the_owner_may_change_the_policy_between_epochs() -> None:
    """A node that stays out of the second epoch leaves no trace in it."""
    nodes = dubhe(COUNTS, **SETTINGS)
    nodes.play(1)
    leaver = nodes.ids[4]
    nodes.policies[leaver] = replace(nodes.policies[leaver], willing=lambda _r: False)
    nodes.play(4)
    assert leaver not in epoch_of(nodes).registered
    assert len(epoch_of(nodes).distributions) == len(COUNTS) - 1
    assert session_state(nodes, leaver).distribution == ()
