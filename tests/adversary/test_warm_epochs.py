"""Epochs that start from the last prices: what they cost, and what a lying sealer achieves."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from adversary.test_committee import federation as real_nodes
from protocol.federation import Federation, counts_with_rare_classes, dubhe, epoch_of, joined
from protocol.nodes import set_policy
from protocol.server import altered, lost, without

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import QuorumError, RefusedError
from dubhe_flwr.he.sealing import RecipientKey, seal
from dubhe_flwr.protocol import Plan, Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.rules import prices
from dubhe_flwr.protocol.vaults.committee import _bound
from dubhe_flwr.protocol.vaults.keyed import UNUSABLE_KEY
from dubhe_flwr.protocol.vaults.vault import Seat
from dubhe_flwr.protocol.wire.envelope import read_request
from dubhe_flwr.rules import Prices, Tries

NUM_CLIENTS, NUM_NEW, NUM_EPOCHS = 30, 2, 6
COMMITTEE, PAILLIER = Tries(1), Tries(3)
VAULTS = pytest.mark.parametrize("determination", [COMMITTEE, PAILLIER], ids=["committee", "agent"])

Nodes = Federation[CoordinatorState]


def federation(determination: Tries) -> Nodes:
    """Return nodes of which some take part in a round."""
    return dubhe(
        counts_with_rare_classes(NUM_CLIENTS + NUM_NEW * NUM_EPOCHS),
        rule=Prices(),
        determination=determination,
        num_participants=8,
        registration_interval=1,
    )


def play(nodes: Nodes, server_round: int) -> Plan:
    """Play a round in which two nodes have taken the place of two others."""
    first = NUM_NEW * (server_round - 1)
    return nodes.play(server_round, present=nodes.ids[first : first + NUM_CLIENTS])


def is_warm(nodes: Nodes) -> bool:
    """Return whether the epoch goes on from another one."""
    return epoch_of(nodes).announced.continues is not None


@VAULTS
def test_a_warm_epoch_takes_one_sum(determination: Tries) -> None:
    """The median is one, and each sum counts in the budget of each node that is there."""
    nodes, sums = federation(determination), []
    for server_round in range(1, NUM_EPOCHS + 1):
        assert play(nodes, server_round).notes == ()
        assert is_warm(nodes) == (server_round > 1)
        sums.append(epoch_of(nodes).registration.last_sum.number + 1)
    assert np.median(sums[1:]) == 1
    assert sums[0] > 1
    of_sums = [sums[0] / 9, *(number / 36 for number in sums[1:])]  # shares of the budget
    for row, first in ((20, 0), (33, 2)):  # the second one is new in the third epoch
        budget = joined(nodes, nodes.ids[row]).budget
        assert budget.spent == pytest.approx(sum(of_sums[first:]))


def test_a_node_that_missed_the_end_of_an_epoch_joins_the_next() -> None:
    """It knows none of the last prices, rather than those that followed from its last sum."""
    nodes = federation(COMMITTEE)
    late, sums = nodes.ids[20], list[int]()

    def loses_the_second(stage: str, node_id: int, request: Any) -> Any:
        if (stage, node_id) == (Stage.SETTLE, late):
            sums.append(len(sums))
        return None if sums == [0, 1] and node_id == late else request

    nodes.alter_request = loses_the_second
    play(nodes, 1)
    assert late not in epoch_of(nodes).registered
    nodes.alter_request = lambda _stage, _node_id, request: request
    play(nodes, 2)
    assert is_warm(nodes)
    assert late in epoch_of(nodes).registered


def garbage(reply: dict[str, Any]) -> dict[str, Any]:
    """Return another sealed state of the same length, if one was sealed."""
    if "state" not in reply:
        return reply
    return reply | {"state": generator(0, "garbage").bytes(len(reply["state"]))}


def change_prices(nodes: Nodes) -> None:
    """Change the last prices in the memory of the next node that is appointed."""

    def change(stage: str, node_id: int, request: Any) -> Any:
        if stage == Stage.APPOINT:
            nodes.alter_request = lambda _stage, _node_id, request: request
            place, memory = joined(nodes, node_id), nodes.session(node_id).memory
            earlier = (*place.earlier[:-1], place.earlier[-1] + 1e-6)
            memory = replace(memory, joined=replace(place, earlier=earlier))
            nodes.memories[node_id] = memory.to_fields()
        return request

    nodes.alter_request = change


@VAULTS
@pytest.mark.parametrize("lie", [garbage, without("state"), None])
def test_a_lying_sealer_costs_an_epoch(lie: Any, determination: Tries) -> None:
    """All nodes start afresh with another committee or agent; the log says so."""
    nodes = federation(determination)
    play(nodes, 1)
    if lie is None:
        change_prices(nodes)
    with altered(nodes, Stage.APPOINT, lie or dict):
        plan = play(nodes, 2)
    assert not plan.fallback
    assert not is_warm(nodes)
    assert any("No sum can be opened because of node" in note for note in plan.notes)
    assert not play(nodes, 3).notes
    assert is_warm(nodes)


@pytest.mark.parametrize("names", ["an unknown epoch", "another target"])
def test_members_vouch_for_the_last_prices(names: str) -> None:
    """A lying first member cannot invent the prices of an epoch that no member knows.

    A server that changes the target after an epoch has to start the next one afresh.
    """
    nodes = real_nodes(pinned=False)
    nodes.play(1)
    changes: dict[str, Any] = {"rule-settings": Prices(target="own").to_json()}
    if names == "an unknown epoch":
        changes = {"continues": bytes(16)}
    nodes.alter_request = lambda stage, _node, request: (
        {**request, **changes} if stage == Stage.JOIN else request
    )
    batch = nodes.until(Stage.APPOINT, 2)
    assert len(batch.requests) == 3
    for node_id, request in batch.fields.items():
        with pytest.raises(RefusedError, match="did not settle in the last registration period"):
            nodes.handle(node_id, request)


def test_no_state_is_too_long_to_store() -> None:
    """Or a node that accepts one could not read its memory again, and would forget its budget."""
    nodes = real_nodes(pinned=False)
    nodes.play(1)
    victim = nodes.ids[12]
    del nodes.memories[victim]  # so it does not know the last prices
    request = nodes.until(Stage.REGISTER, 2).fields[victim]
    place, made = joined(nodes, victim), bytes(32)
    vault: Any = place.terms.vault
    key = RecipientKey.from_bytes(place.delivery_key).public_bytes
    state = np.ones(13 + 6000 * 11, ">f8").tobytes()  # an opening, a point, and thousands of sums
    seat = Seat(place.epoch, place.delivery_key, None, state)
    public, sealed = sha256(_bound(made, state)).digest(), vault.sealed_state(seat, made)
    told: Any = read_request(request)[1]
    told = replace(told, public=public, state=sealed)
    sealed_key = seal(made, key, vault.statement(place.epoch, told, key, 0))
    forged = {**request, "public": public, "state": sealed, "sealed-key": sealed_key}
    with pytest.raises(RefusedError, match="saved state does not belong to these prices"):
        nodes.handle(victim, forged)


def test_no_probability_is_free() -> None:
    """A node that is told of too few nodes for prices, and so would register free, does not."""
    nodes = federation(COMMITTEE)
    play(nodes, 1)
    new = nodes.ids[NUM_CLIENTS]
    nodes.alter_request = lambda stage, node_id, request: (
        {**request, "num-joined": 19} if (stage, node_id) == (Stage.REGISTER, new) else request
    )
    play(nodes, 2)
    assert is_warm(nodes)
    assert joined(nodes, new).registered is None
    assert list(map(str, nodes.errors)) == [UNUSABLE_KEY]


@pytest.mark.parametrize(
    ("away", "noted"),
    [
        ((1, 2, 4, 5), ["No node passed on the state of the last registration period"]),
        (range(6, 14), []),
    ],
    ids=["too few candidates know the last prices", "too few nodes were left to find any"],
)
def test_an_epoch_whose_prices_too_few_know_is_not_continued(
    away: Sequence[int], noted: list[str]
) -> None:
    """Nodes were lost as it settled; the next epoch starts afresh, in the same round."""
    nodes = real_nodes()
    with altered(nodes, Stage.SETTLE, lost, [nodes.ids[row] for row in away]):
        nodes.play(1)
    assert len(epoch_of(nodes).registered) == 20 - len(away)
    plan = nodes.play(2)
    assert not plan.fallback
    assert [note[: len(said)] for note, said in zip(plan.notes, noted, strict=True)] == noted
    assert not is_warm(nodes)
    assert not nodes.errors
    assert not nodes.play(3).notes
    assert is_warm(nodes)


def test_an_outage_when_a_registration_is_due_costs_no_prices() -> None:
    """With too few nodes connected, none is asked to leave the last epoch."""
    nodes = federation(COMMITTEE)
    play(nodes, 1)
    with pytest.raises(QuorumError, match="2 nodes are connected, fewer than quorum=3"):
        nodes.play(2, present=nodes.ids[:2])
    play(nodes, 3)
    assert is_warm(nodes)


@pytest.mark.parametrize("given", [{}, {"determination": PAILLIER, "key_bits": 512}])
def test_real_nodes_with_pinned_keys_go_on(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes accept the signed prices, even after their budgets are used up."""
    monkeypatch.setattr(prices, "_WARM_FACTOR", 1.0)  # or it would take many epochs
    nodes = real_nodes(rule=Prices(noise=1.0), **given)
    for node_id in nodes.ids:
        set_policy(nodes, node_id, exact_sums=True)
    for server_round in range(1, 6):
        assert not nodes.play(server_round).notes
        assert is_warm(nodes) == (server_round > 1)
    assert all(joined(nodes, node_id).budget.spent == 1.0 for node_id in nodes.ids)
