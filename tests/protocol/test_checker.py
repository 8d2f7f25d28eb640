"""Tests of a node as checker: it tells which blocks add up, and then decrypts nothing else."""

from typing import Any

import numpy as np
import pytest
from protocol.dishonest import KINDS, forged, make_dishonest
from protocol.federation import (
    Federation,
    dubhe,
    encrypted,
    epoch_of,
    secret_key,
    session_state,
    skewed_counts,
)
from protocol.node import NUM_CLIENTS, federation, next_request, refuses

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he import homomorphic_sum
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage


def asked(**overrides: Any) -> tuple[Federation[CoordinatorState], int, Fields]:
    """Return nodes, the one that is asked to check, and what it is asked."""
    nodes = federation(**{"block_size": 4, **overrides})
    return (nodes, *next_request(nodes, Stage.CHECK))


def split(joined: Any, number: int) -> list[bytes]:
    """Cut the sums of blocks apart."""
    size = len(joined) // number
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def sizes(*num_clients: int) -> dict[str, bytes]:
    """Return the field that says what blocks cover."""
    return {"num-clients": np.array(num_clients, dtype=">i8").tobytes()}


def test_honest_blocks_pass() -> None:
    """All bits are set, and as many bits are sent as there are blocks, filled with zeros."""
    nodes, checker, request = asked()
    assert np.frombuffer(request["num-clients"], dtype=">i8").tolist() == [5, 4]  # type: ignore[arg-type]
    assert nodes.handle(checker, request)["passed"] == b"\xc0"
    assert session_state(nodes, checker).num_sums == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [0, 1])
def test_a_broken_block_does_not_pass(kind: str, block: int) -> None:
    """One registration that is none breaks its block, whatever it is, and no other."""
    nodes, checker, request = asked()
    state = session_state(nodes, checker)
    field, spoil = KINDS[kind]
    sums = {name: split(request[name], 2) for name in ("registries", "distributions")}
    name = {"registry": "registries", "distribution": "distributions"}[field]
    honest = encrypted(state, field, [1, *[0] * 10][: 11 if field == "registry" else 5])
    if field == "distribution":
        honest = encrypted(state, field, [2**20, 0, 0, 0, 2**20])
    key = secret_key(state).public_key
    forgery = forged(state, field, honest, spoil)
    # The block then covers a client more, one that is dishonest.
    for each, addend in (("registries", "registry"), ("distributions", "distribution")):
        own = forgery if each == name else _honest(state, addend)
        sums[each][block] = homomorphic_sum(key, [sums[each][block], own])
    covered = [5, 4]
    covered[block] += 1
    spoilt = {**request, **{n: b"".join(s) for n, s in sums.items()}, **sizes(*covered)}
    assert nodes.handle(checker, spoilt)["passed"] == (b"\x40", b"\x80")[block]


def _honest(state: Any, field: str) -> bytes:
    values = {"registry": [1, *[0] * 10], "distribution": [2**20, 0, 0, 0, 2**20]}
    return encrypted(state, field, values[field])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (sizes(6, 3), "A block of 3 clients is too few"),
        (sizes(9), "The sums are not as many"),
        (sizes(4, 4, 4), "The sums are not as many"),
        ({"registries": b""}, "The sums are not as many"),
        ({"distributions": bytes(128)}, "The sums are not as many"),
        (sizes(4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4), "The sums are not as many"),
    ],
)
def test_unfit_blocks_are_refused(change: dict[str, Any], match: str) -> None:
    """Too small ones, and those that are not as many as they are said to be."""
    nodes, checker, request = asked()
    refuses(nodes, checker, {**request, **change}, RefusedError, match)


def test_not_in_an_epoch_without_blocks() -> None:
    """Nodes were told whether there are any when they joined."""
    _, _, request = asked()
    plain = federation()
    plain.until(Stage.PARTICIPATE)
    state = session_state(plain, plain.ids[0])
    foreign = {**request, "epoch": state.epoch, "sequence": 90}
    refuses(plain, plain.ids[0], foreign, RefusedError, "not checked by blocks")


def test_the_budget_of_sums() -> None:
    """Blocks count as sums, of which a node decrypts no more than were announced."""
    nodes = federation(block_size=4, max_sums_per_epoch=1)
    checker, request = next_request(nodes, Stage.CHECK)
    assert np.frombuffer(request["num-clients"], dtype=">i8").tolist() == [9]  # type: ignore[arg-type]
    key = secret_key(session_state(nodes, checker)).public_key
    doubled = {name: request[name] * 2 for name in ("registries", "distributions")}
    refuses(nodes, checker, {**request, **doubled, **sizes(9, 9)}, RefusedError, "used up")
    assert key.bits == 512
    assert nodes.handle(checker, request)["passed"] == b"\x80"


def test_a_node_checks_once() -> None:
    """Two ways to cut the same nodes would tell their difference."""
    nodes, checker, request = asked()
    nodes.handle(checker, request)
    again = {**request, "sequence": 90}
    refuses(nodes, checker, again, RefusedError, "A node checks blocks once")


@pytest.mark.parametrize("participation", ["paper", "calibrated"])
def test_a_node_that_knows_a_sum_does_not_check(participation: str) -> None:
    """Blocks are checked before the overall registry is known to anyone."""
    nodes, checker, request = asked(participation=participation)
    other = next(node_id for node_id in nodes.ids if node_id != checker)
    outcome: Any = nodes.state.batch
    while outcome.header.stage != Stage.DETERMINE:
        outcome = nodes.step(nodes.deliver(outcome))
    refuses(nodes, other, {**request, "sequence": 90}, RefusedError, "A node checks blocks once")


def test_a_checker_is_agent_for_nothing_else() -> None:
    """A try may be a whole block but for one client: it decrypts neither tries nor moments."""
    nodes = federation(block_size=4, participation="calibrated")
    nodes.play(1)
    (checker,) = epoch_of(nodes).checkers
    requests = {e.stage: e.request for e in nodes.exchanges}
    for stage in (Stage.DETERMINE, Stage.CALIBRATE):
        request = {**requests[stage], "sequence": 90}
        refuses(nodes, checker, request, RefusedError, "its agent no more")


def test_the_server_spares_checkers() -> None:
    """It asks another node to calibrate and to determine, in every round of the epoch."""
    nodes = dubhe(
        skewed_counts(12),
        num_participants=3,
        reference_set=(1, 2, 4),
        thresholds={1: 0.6, 2: 0.3},
        participation="calibrated",
        tries=4,
        registration_interval=30,
        block_size=4,
    )
    for server_round in range(1, 20):
        plan = nodes.play(server_round)
        assert plan.notes == ()
    tasks = {
        stage: {(e.request["epoch"], e.node_id) for e in nodes.exchanges if e.stage == stage}
        for stage in (Stage.CHECK, Stage.CALIBRATE, Stage.DETERMINE)
    }
    assert len(tasks[Stage.CHECK]) == len(tasks[Stage.CALIBRATE]) == 2
    assert len(tasks[Stage.DETERMINE]) == 19
    assert not tasks[Stage.CHECK] & (tasks[Stage.CALIBRATE] | tasks[Stage.DETERMINE])
    assert nodes.errors == []


def test_a_checker_reads_no_other_registry_than_the_sum_of_its_blocks() -> None:
    """A server that adds or leaves out a client is found out by whoever saw the blocks."""
    nodes, checker, request = asked()
    make_dishonest(nodes, {})
    outcome: Any = nodes.step({checker: nodes.handle(checker, request)})
    honest = dict(outcome.fields())[checker]
    vector = honest["overall-registry"]
    state = session_state(nodes, checker)
    moved = forged(state, "registry", vector, _moved)
    refuses(
        nodes, checker, {**honest, "overall-registry": moved}, RefusedError, "blocks that passed"
    )
    nodes.handle(checker, honest)
    other = next(node_id for node_id in nodes.ids if node_id != checker)
    nodes.handle(other, {**honest, "overall-registry": moved})  # cannot know better


def _moved(counts: Any) -> Any:
    """Move one client from the largest category to the next, with the same total."""
    changed = counts.copy()
    largest = int(np.argmax(counts))
    changed[largest] -= 1
    changed[(largest + 1) % len(counts)] += 1
    return changed


def test_a_checker_takes_no_other_key() -> None:
    """Once it has decrypted a sum, a node does not register under a second key."""
    nodes, checker, request = asked()
    register = next(
        e.request for e in nodes.exchanges if e.stage == Stage.REGISTER and e.node_id == checker
    )
    nodes.handle(checker, request)
    again = {**register, "sequence": 90, "modulus": b"\xff" * 64}
    refuses(nodes, checker, again, RefusedError, "registered in that epoch before")


def test_before_registration_there_is_nothing_to_check() -> None:
    """A node without the key says so."""
    nodes = federation(block_size=4)
    node_id, register = next_request(nodes, Stage.REGISTER)
    request = {
        **{name: register[name] for name in ("epoch", "version")},
        "stage": "check",
        "sequence": 90,
        "registries": bytes(128),
        "distributions": bytes(128),
        **sizes(NUM_CLIENTS),
    }
    refuses(nodes, node_id, request, RefusedError, "has not registered")


def test_no_seed_lets_a_checker_calibrate() -> None:
    """Whoever is drawn to check, another node calibrates, also where all but one have checked."""
    for seed in range(12):
        nodes = federation(block_size=4, participation="calibrated", seed=seed, agent_attempts=8)
        asked: list[int] = []

        def lose(stage: str, node_id: int, reply: Fields, asked: list[int] = asked) -> Any:
            if stage == Stage.CHECK:
                asked.append(node_id)
            return None if stage == Stage.CHECK and len(asked) < 8 else reply

        nodes.alter_reply = lose
        nodes.play(1)
        assert len(set(asked)) == 8
        (agent,) = [e.node_id for e in nodes.exchanges if e.stage == Stage.CALIBRATE]
        assert agent not in asked
        assert nodes.errors == []


def test_no_seed_lets_a_checker_search() -> None:
    """Another node names the best thresholds, and a checker refuses to."""
    for seed in range(8):
        nodes = federation(block_size=4, thresholds="search", seed=seed)
        outcome: Any = nodes.until(Stage.SEARCH)
        ((agent, request),) = outcome.fields()
        (checker,) = epoch_of(nodes).checkers
        assert agent != checker
        refuses(nodes, checker, request, RefusedError, "its agent no more")
        nodes.handle(agent, request)
