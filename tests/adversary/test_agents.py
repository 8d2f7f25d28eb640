"""Agents: what an honest one sees, what it refuses, and what a dishonest one can do."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from protocol.federation import decrypted, dubhe, encrypted, joined, skewed_counts
from protocol.nodes import SCALE, next_request, refuses, seal, set_policy
from protocol.server import SETTINGS, agents_in_turn, alter, asked, federation, stages_of

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import QuorumError, RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.announced import sums_per_agent
from dubhe_flwr.protocol.wire.messages import DetermineRequest
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION


@pytest.mark.parametrize("covered", [(3, 3), (5, 5), (0, 0), (0, 3)])
def test_one_sentence_whatever_does_not_add_up(covered: tuple[int, int]) -> None:
    """Sums over fewer or more than K = 4 clients, or no sums; the refusal does not say which."""
    nodes = federation()
    agent, request = next_request(nodes, Stage.SETTLE)
    nodes.handle(agent, request)
    own = joined(nodes, agent)
    sums = [encrypted(own, DISTRIBUTION, [SCALE * k, 0, 0, 0, SCALE * k]) for k in covered]
    sums = [each if k else bytes(len(each)) for k, each in zip(covered, sums, strict=True)]
    told = seal(own.epoch, Stage.DETERMINE, 50, DetermineRequest(b"".join(sums), (2,)))
    refuses(nodes, agent, told, RefusedError, r"^The sum is not valid\.$")


def test_no_two_tries_that_tell_of_fewer_clients_than_a_sum() -> None:
    """With K = 9 of twelve clients, two tries are equal or differ by at least three clients."""
    options = {"num_participants": 9, "tries": 5, "reference_set": (1, 12), "thresholds": {1: 0.6}}
    nodes = dubhe(9 * np.eye(12, dtype=int), **SETTINGS | options)
    agent, request = next_request(nodes, Stage.DETERMINE)
    sums: Any = request["sums"]
    size, node = len(sums) // 5, joined(nodes, agent)
    each_sum = (decrypted(node, DISTRIBUTION, sums[size * h :][:size]) for h in range(5))
    tries = [found[:12] > 0 for found in each_sum]
    assert {each.sum() for each in tries} == {9}
    apart = [int((each ^ other).sum()) for each, other in combinations(tries, 2)]
    assert min(apart) == 0 < max(apart)
    assert not {1, 2}.intersection(apart)


def test_no_node_is_agent_again_while_others_are_left() -> None:
    """The first node in turn is unwilling; the next one does not take two turns instead."""
    nodes = federation(20, num_participants=6)
    first, *others = agents_in_turn(nodes)
    set_policy(nodes, first, willing=lambda server_round: server_round != 1)
    nodes.rounds(1, 3)
    assert asked(nodes, "determine") == others[:3]
    assert len({e.request["epoch"] for e in nodes.exchanges}) == 1


@pytest.mark.parametrize(("num_tries", "share"), [(20, 0.97), (sums_per_agent(400), 0.68)])
def test_what_an_honest_agent_sees_of_a_client(num_tries: int, share: float) -> None:
    """If it knows who is in each try, it guesses p_l 3 % better after one round, 32 % after ten."""
    counts = skewed_counts(400, 10)
    shares = counts / counts.sum(axis=1, keepdims=True)
    rng, mean = generator(0, "tries"), shares.mean(axis=0)
    tries = np.zeros((num_tries, 400))
    for row in tries:
        row[rng.choice(400, 20, replace=False)] = 1.0
    nearest, *_ = np.linalg.lstsq(tries, tries @ (shares - mean))
    guesses = np.clip(mean + nearest, 0.0, 1.0), mean
    errors = [np.abs(guess - shares).sum(axis=1).mean() for guess in guesses]
    assert errors[0] / errors[1] == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("num_opening", [0, 3, 9])
def test_an_agent_that_gives_most_nodes_no_key(num_opening: int) -> None:
    """If an agent seals the key for only a few of twelve nodes, all register with another one."""
    nodes = federation()
    first, second, *_ = agents_in_turn(nodes, purpose="keygen")

    def garble(reply: Any) -> Any:
        sealed = reply["sealed-keys"]
        return {**reply, "sealed-keys": sealed[: 80 * num_opening].ljust(len(sealed), b"\0")}

    alter(nodes, "appoint", garble, [first])
    plan = nodes.play(1)
    assert asked(nodes, "appoint") == [first, second]
    assert (plan.num_registered, len(plan.participants)) == (12, 4)
    name = nodes.ids.index(first)
    complaining = ", ".join(map(str, range(num_opening, 12)))
    lied = "sealed no usable key for them: either it or they are lying."
    assert plan.notes == (
        f"According to nodes {complaining}, node {name} {lied}",
        f"No sum can be opened because of node {name}; all nodes register again.",
    )
    assert stages_of(plan).count("register") == 2
    nodes = federation()
    alter(nodes, "appoint", garble)
    if num_opening:  # if all agents do it, the run goes on with these nodes
        assert nodes.play(1).num_registered == num_opening
        return
    with pytest.raises(QuorumError, match="0 nodes are registered"):
        nodes.play(1)
