"""Tests of what members and nodes of a committee refuse; `adversary` has whole attacks."""

from functools import partial
from typing import Any

import pytest
from adversary.test_committee import Nodes, federation, flipped, vault_of
from protocol.federation import registered
from protocol.server import alter

from dubhe_flwr.errors import InvalidCiphertextError, ProtocolError, RefusedError
from dubhe_flwr.he import pads
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.vaults import SumName
from dubhe_flwr.protocol.vaults.committee import Committee, _opened_statement
from dubhe_flwr.protocol.vaults.keyed import UNUSABLE_KEY
from dubhe_flwr.protocol.wire.terms import REGISTRATION


def asked(nodes: Nodes, stage: Stage, row: int) -> tuple[int, Any]:
    """Play up to a stage; return a node and its request."""
    return nodes.ids[row], nodes.until(stage).fields[nodes.ids[row]]


@pytest.mark.parametrize(
    ("pinned", "change", "reason"),
    [
        (False, {"public": bytes(32)}, "not the one that was announced"),
        (False, {"opener-keys": bytes(96)}, "3 different openers"),
        (True, {"signatures": None}, "have not all signed"),
        (True, {"opener-keys": b""}, "3 different openers"),
    ],
)
def test_a_committee_that_cannot_work_is_refused(
    pinned: bool, change: dict[str, bytes | None], reason: str
) -> None:
    """A node registers only with a committee, and notices most mistakes without pinned keys."""
    nodes = federation(pinned=pinned)
    node_id, request = asked(nodes, Stage.REGISTER, 12)
    spoilt = request | change
    with pytest.raises(ProtocolError, match=reason):
        nodes.handle(node_id, {name: value for name, value in spoilt.items() if value is not None})


def test_a_key_other_than_the_announced_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first member seals it under a statement that is right."""
    monkeypatch.setattr(Committee, "make_key", lambda *_: (bytes(32), bytes(pads.KEY_BYTES)))
    nodes = federation(pinned=False)
    node_id, request = asked(nodes, Stage.REGISTER, 12)
    with pytest.raises(RefusedError, match=UNUSABLE_KEY):
        nodes.handle(node_id, request)


@pytest.mark.parametrize(
    ("field", "spoil", "refused"),
    [
        ("rule-sum.sums", lambda sums: sums[1:], r"^The sum is not valid\.$"),
        ("rule-sum.sums", lambda sums: sums[:-1] + flipped(sums[-1:]), "^Member 3 of the commit"),
        ("proofs", flipped, "^Member 1 of the committee has not proved"),
    ],
)
def test_an_altered_part_opens_no_sum(field: str, spoil: Any, refused: str) -> None:
    """A node names the member whose proof does not fit its part."""
    nodes = federation(pinned=False)
    node_id, request = asked(nodes, Stage.SETTLE, 12)
    with pytest.raises(RefusedError, match=refused):
        nodes.handle(node_id, {**request, field: spoil(request[field])})


def test_a_member_proves_a_part_that_does_not_open() -> None:
    """A part can be garbage although its member stands by it."""
    nodes = federation(pinned=False)
    node_id, request = asked(nodes, Stage.SETTLE, 12)
    sums: Any = request["rule-sum.sums"]
    proofs: Any = request["proofs"]
    size = vault_of(nodes).vector_bytes(REGISTRATION)
    garbage, secret = bytes(size + 16), registered(nodes, node_id).keys[-pads.KEY_BYTES :]
    covered, total = sums[size : size + 32], sums[:size]
    statement = _opened_statement(SumName(REGISTRATION), covered, 20, total, garbage)
    spoilt = sums[: -len(garbage)] + garbage
    proven = proofs[:-16] + pads.proof(secret, statement)
    with pytest.raises(RefusedError, match=r"^The sum is not valid\.$"):
        nodes.handle(node_id, {**request, "rule-sum.sums": spoilt, "proofs": proven})


def test_the_server_finds_vectors_that_cannot_be_added() -> None:
    """Such vectors have the wrong length, or a number that is not below the prime."""
    nodes = federation()
    nodes.until(Stage.REGISTER)
    add_up = partial(vault_of(nodes).add_up, b"", [REGISTRATION])
    good = bytes(vault_of(nodes).vector_bytes(REGISTRATION))
    assert add_up([good, good]) == good
    for bad in (good[1:], pads.PRIME.to_bytes(8, "big") + good[8:]):
        with pytest.raises(InvalidCiphertextError):
            add_up([good, bad])


def test_an_unusable_public_key_drops_its_owner_alone() -> None:
    """No member can agree on pads with the node, which cannot open the group key either."""
    nodes = federation(pinned=False)
    other = nodes.ids[13]  # not in the committee
    alter(nodes, Stage.JOIN, lambda reply: {**reply, "public-key": bytes(32)}, [other])
    plan = nodes.play(1)
    assert (plan.num_registered, plan.fallback) == (19, False)
    assert not any("committee failed" in note for note in plan.notes)
