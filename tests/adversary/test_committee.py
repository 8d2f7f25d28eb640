"""The committee: what an active server learns with any nodes and two of the three members.

N = 20 nodes of four classes with K = 10 and V = 12, so that sigma is 1.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray
from protocol.federation import Federation, dubhe, epoch_of, joined, registered, skewed_counts
from protocol.nodes import set_policy, signing_key
from protocol.server import alter, altered, lost, report_of, without
from vectors.reference import bits, fields_of

from dubhe_flwr.core.randomness import gaussian, generator
from dubhe_flwr.errors import (
    ProtocolError,
    QuorumError,
    RefusedError,
    StaleMessageError,
    UntrustedError,
)
from dubhe_flwr.he import pads
from dubhe_flwr.he.sealing import seal
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import Batch, Fields, NodeFailure, Plan, Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.node.memory import REMEMBERED_EPOCHS, Ledger, Memory
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.node.settle import _simulated_noise, own_of
from dubhe_flwr.protocol.rules.rule import Population
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.vaults import SumName
from dubhe_flwr.protocol.vaults.committee import (
    CANDIDATES,
    UNPROVEN,
    Committee,
    _factors,
    _nonce,
    _opened_statement,
    _pad_name,
    _release_key,
)
from dubhe_flwr.protocol.vaults.keyed import UNUSABLE_KEY
from dubhe_flwr.protocol.vaults.vault import Member
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES, JoinStatus
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import (
    OpenReply,
    OpenRequest,
    ParticipateRequest,
    RuleSum,
    SettleRequest,
)
from dubhe_flwr.protocol.wire.roster import DIGEST_BYTES, split
from dubhe_flwr.protocol.wire.terms import REGISTRATION
from dubhe_flwr.rules import Paper, Prices, Tries

N, K = 20, 10
Nodes = Federation[CoordinatorState]
KEYS = [signing_key(row) for row in range(N)]
TRUSTED = [key.public_key() for key in KEYS]
STRANGER = signing_key(99)
OTHERS = [STRANGER.public_key()]
KEYS_OF = "roster.public-keys"


def federation(*, pinned: bool = True, number: int = N, **overrides: Any) -> Nodes:
    """Return real nodes and a server; row k's node has the k-th trusted key."""
    usual: dict[str, Any] = {
        "num_participants": K, "rule": Prices(), "determination": Tries(1),
        "max_registered": number, "registration_interval": 1,
        "trusted_keys": TRUSTED if pinned else None,
    }  # fmt: skip
    nodes = dubhe(skewed_counts(number), {"simulated": False}, **usual | overrides)
    for node_id, key in zip(nodes.ids, KEYS, strict=number == N):
        if pinned:
            set_policy(nodes, node_id, pinned=PinnedKeys(key, TRUSTED))
    return nodes


def vault_of(nodes: Nodes) -> Committee:
    """Return the vault of the epoch."""
    vault = joined(nodes, nodes.ids[0]).terms.vault
    assert isinstance(vault, Committee)
    return vault


def members_of(nodes: Nodes) -> list[int]:
    """Return the members of the committee, in order."""
    places = {m.place: n for n in nodes.ids if (m := joined(nodes, n).member) is not None}
    return [places[place] for place in sorted(places)]


def member_of(nodes: Nodes, node_id: int) -> Member:
    """Return a member's state."""
    found = joined(nodes, node_id).member
    assert found is not None
    return found


def asked_to_open(nodes: Nodes) -> tuple[Batch, int, OpenRequest]:
    """Play up to the first sum; return the batch, a member, and what it is asked."""
    batch = nodes.until(Stage.OPEN)
    node_id, request = next(iter(batch.requests.items()))
    assert isinstance(request, OpenRequest)
    return batch, node_id, request


def flipped(value: bytes) -> bytes:
    """Return bytes of which the first one is changed."""
    return bytes([value[0] ^ 1]) + value[1:]


def joins_in(*plans: Plan) -> int:
    """Return how often nodes had to register."""
    return [report.stage for plan in plans for report in plan.stages].count(Stage.JOIN)


def group_key_of(nodes: Nodes, node_id: int) -> bytes:
    """Return the group key, as a registered node has it."""
    return registered(nodes, node_id).keys[: pads.KEY_BYTES]


def open_with(nodes: Nodes, batch: Batch, node_id: int, **changes: Any) -> Fields:
    """Ask a member to open another sum instead of the batch's."""
    return nodes.handle(node_id, {**batch.fields[node_id], **changes})


def population_of(nodes: Nodes, node_id: int) -> Population:
    """Return what a node's rule knows about all nodes that registered."""
    return joined(nodes, node_id).terms.population(N, N)


def contribution_of(nodes: Nodes, node_id: int) -> NDArray[np.int64]:
    """Return the numbers that a node registers, without pads."""
    place = joined(nodes, node_id)
    told = own_of(nodes.policies[node_id], place, registered(nodes, node_id), 0)
    return place.terms.rule.contribution(told, population_of(nodes, node_id))


def without_pads(sent: bytes, keys: Iterable[bytes], group: bytes) -> pads.Residues:
    """Return a registration and its tag, less the pads of these keys."""
    size = len(sent) // pads.NUMBER_BYTES
    vector = pads.read(sent, size)
    for key in keys:
        name = _pad_name(group, SumName(REGISTRATION), size - 1)
        vector = pads.difference(vector, pads.pad(key, name, size))
    return vector


def shifted(nodes: Nodes, total: bytes) -> bytes:
    """Return a total with more of the first class; any node knows the factors of its tag."""
    number = vault_of(nodes).fields[REGISTRATION].number
    factors = _factors(group_key_of(nodes, nodes.ids[15]), SumName(REGISTRATION), number)
    shift = pads.tagged([2**18, *[0] * (number - 1)], factors)
    return pads.written(pads.total([pads.read(total, number + 1), shift]))


def test_all_but_the_victim_and_one_member_learn_one_noisy_number() -> None:
    """Attackers subtract what they know from a sum; the rest contains the honest member's noise."""
    nodes = federation()
    batch = nodes.until(Stage.OPEN)
    honest, *others = reversed(members_of(nodes))
    victim = next(n for n in nodes.ids if n not in members_of(nodes))
    vault = vault_of(nodes)
    requests: Any = batch.requests
    outcome: Any = nodes.step(nodes.deliver(batch))
    keys, request = registered(nodes, others[0]).keys, outcome.requests[others[0]]
    sums = vault.read(keys, SumName(REGISTRATION), request.rule_sum.sums + request.proofs, N)
    left = sums - sum(contribution_of(nodes, node_id) for node_id in nodes.ids)
    rule = joined(nodes, victim).terms.rule
    deviations: Any = rule.deviations(population_of(nodes, victim), 0)
    for node_id in others:
        left -= vault.own_noise(member_of(nodes, node_id), requests[node_id], deviations)
    # Besides the victim's own numbers, noise of sigma is left, as if nobody colluded.
    asked, member = requests[honest], member_of(nodes, honest)
    assert left == pytest.approx(vault.own_noise(member, asked, deviations))
    others_asked = [replace(asked, total=bytes([n]) + asked.total[1:]) for n in range(200)]
    noise = [vault.own_noise(member, each, deviations) / deviations for each in others_asked]
    assert np.std(noise, axis=0) == pytest.approx(np.ones(deviations.size), abs=0.3)
    # The server lacks one pad of the victim's own message, which could be any number.
    row = nodes.ids.index(victim)
    sent: Any = [e.reply for e in nodes.exchanges if e.stage == Stage.REGISTER]
    pad_keys = [list(split(member_of(nodes, n).pad_keys, pads.KEY_BYTES))[row] for n in others]
    group = group_key_of(nodes, others[0])
    vector = without_pads(sent[row]["registration"], pad_keys, group)
    assert int(np.median(vector)) > 2**50


def test_nodes_that_know_the_servers_seed_become_the_committee() -> None:
    """Without pinned keys, it is drawn by alias, and each node names itself."""
    nodes = federation(pinned=False, seed=7)

    def lot(alias: str) -> float:
        return generator(7, "committee", 1, alias).random()

    liars = nodes.ids[12:15]
    for node_id, alias in zip(liars, sorted(map(str, range(20, 2000)), key=lot), strict=False):
        set_policy(nodes, node_id, alias=alias)
    nodes.play(1)
    assert set(members_of(nodes)) == set(liars)


class TestAMember:
    """A member opens only what it should, whatever the server asks."""

    def test_it_opens_one_sum_under_each_number(self) -> None:
        """Sums are over half of the nodes or more, and a node missing from one is in no other."""
        nodes = federation()
        batch, member, request = asked_to_open(nodes)
        outsider = next(n for n in nodes.ids if n not in batch.requests)
        later = bytes(vault_of(nodes).vector_bytes("settlement"))
        few, most = bits(row < 9 for row in range(N)), bits(row > 0 for row in range(N))

        def refuses(node_id: int, reason: str, **changes: Any) -> None:
            with pytest.raises(RefusedError, match=reason):
                nodes.session(node_id).handle({**batch.fields[member], **changes})

        refuses(outsider, "not a member")
        refuses(member, "9 of 20", covered=few)
        refuses(member, "each sum once, in order", number=1, total=later)
        refuses(member, "needs no further sum", number=9, total=later)
        refuses(member, "wrong size", total=b"")
        refuses(member, "wrong size", covered=b"\xff\xff")
        refuses(member, "covers nodes that did not join", covered=b"\xff\xff\xff")
        open_with(nodes, batch, member, covered=most)
        for change in ({"covered": most}, {}, {"covered": most, "total": flipped(request.total)}):
            refuses(member, "each sum once, in order", sequence=101, **change)
        then = {"sequence": 102, "number": 1, "total": later}
        refuses(member, "not in the previous one", **then)
        open_with(nodes, batch, member, covered=most, **then)

    def test_a_lost_context(self) -> None:
        """Without state_dir, a member that forgot its answer opens another total, with new noise.

        Flower sends a reply before it stores the Context, so a process may die in between. The same
        total gets the same answer again.
        """
        nodes = federation()
        batch, node_id, request = asked_to_open(nodes)
        policy, before = nodes.policies[node_id], nodes.session(node_id).memory
        first = open_with(nodes, batch, node_id)
        assert ClientSession(policy, before).handle(batch.fields[node_id]) == first
        other = {**batch.fields[node_id], "total": flipped(request.total), "sequence": 100}
        assert ClientSession(policy, before).handle(other)
        ledger = nodes.session(node_id).memory.ledger_after(Ledger())
        for number in range(REMEMBERED_EPOCHS):  # a server can make the ledger forget the epoch
            with pytest.raises(RefusedError, match="did not join this registration period"):
                ClientSession(policy, before.with_ledger(ledger)).handle(other)
            ledger = Memory(1, number.to_bytes(EPOCH_ID_BYTES)).ledger_after(ledger)
        assert before.epoch not in ledger.last_answered()
        with pytest.raises(RefusedError, match="did not join this registration period"):
            ClientSession(policy, before.with_ledger(ledger)).handle(other)


def test_nobody_else_can_compute_what_a_member_makes() -> None:
    """Each time it is appointed, it makes a new noise key, and the first member a new group key."""
    nodes = federation()
    for place, (node_id, request) in enumerate(nodes.until(Stage.APPOINT).fields.items()):
        noise_keys, group_keys = set(), set()
        for session in (nodes.session(node_id), nodes.session(node_id)):
            group_keys.add(session.handle(request)["public"])
            assert session.memory.joined is not None
            assert session.memory.joined.member is not None
            noise_keys.add(session.memory.joined.member.noise_key)
        assert (len(noise_keys), len(group_keys)) == (2, 1 if place else 2)


def take_any_sequence(nodes: Nodes) -> None:
    """Give each request the sequence number that its node expects, as a lying server would."""
    answer = nodes.handle

    def handle(node_id: int, request: Any) -> Fields:
        latest = nodes.session(node_id).memory.sequence
        reply = answer(node_id, {**request, "sequence": latest + 1})
        return {**reply, "sequence": request["sequence"]}

    nodes.handle = handle  # type: ignore[method-assign]


def test_a_member_opens_sums_only_in_the_committee_under_which_it_registers() -> None:
    """From the same place in several committees, members would encrypt their parts with one nonce.

    The server would then learn the differences of these parts.
    """
    nodes = federation(pinned=False)
    batch = nodes.until(Stage.APPOINT)
    replies = nodes.deliver(replace(batch, requests=dict(list(batch.requests.items())[:1])))
    _, *others = batch.fields
    for number, node_id in enumerate(others, start=1):
        request: Any = batch.requests[node_id]
        places = np.roll(request.openers, -number)
        asked = {**batch.fields[node_id], **fields_of({"openers": [*places]})}
        reply = nodes.handle(node_id, asked)
        assert member_of(nodes, node_id).place == 0
        replies[node_id] = {**reply, "public": b"", "sealed-keys": b""}
        with pytest.raises(StaleMessageError):
            nodes.handle(node_id, batch.fields[node_id])
        with pytest.raises(RefusedError, match="already asked"):
            nodes.session(node_id).handle({**batch.fields[node_id], "sequence": 99})
    outcome: Any = nodes.step(replies)
    while outcome.header.stage != Stage.OPEN:
        outcome = nodes.step(nodes.deliver(outcome))
    for node_id in others:
        with pytest.raises(RefusedError, match="not a member of a committee"):
            nodes.handle(node_id, outcome.fields[node_id])


@pytest.mark.parametrize("seed", range(2))
def test_no_order_of_requests_uses_a_pad_twice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sends old, changed and misdirected requests; each label has one vector, one sum."""
    rng, nodes = generator(seed, "order"), federation(num_participants=12)
    hide, release = Committee.hide, Committee.release
    hidden, opened = defaultdict[Any, set[bytes]](set), defaultdict[Any, set[bytes]](set)

    def noted_hide(vault: Committee, keys: bytes, sum_name: SumName, values: Any) -> bytes:
        hidden[keys, sum_name].add(values.tobytes())
        return hide(vault, keys, sum_name, values)

    def noted_release(vault: Committee, member: Any, *rest: Any) -> OpenReply:
        reply = release(vault, member, *rest)
        request: Any = rest[2]
        opened[member.pad_keys, rest[1]].add(request.covered + request.total + reply.sealed)
        return reply

    take_any_sequence(nodes)
    monkeypatch.setattr(Committee, "hide", noted_hide)
    monkeypatch.setattr(Committee, "release", noted_release)
    sent: list[tuple[int, Fields]] = []
    outcome: Any = nodes.begin(1)
    while isinstance(outcome, Batch):
        replies = nodes.deliver(outcome)
        sent += outcome.fields.items()
        for at in rng.integers(max(0, len(sent) - 50), len(sent), 20):
            node_id, request = sent[at]
            asked = nodes.ids[rng.integers(N)] if rng.random() < 0.3 else node_id
            name = rng.choice(sorted(request.keys() - {"epoch", "stage", "version"}))
            value: Any = request[name]
            if isinstance(value, bytes) and value:
                value = flipped(value)
            elif isinstance(value, int):
                value = max(0, value + int(rng.integers(-1, 2)))
            with suppress(ProtocolError):
                nodes.handle(asked, {**request, name: value})
        outcome = nodes.step(replies)
    assert len(hidden) > N
    assert opened
    assert {len(vectors) for vectors in [*hidden.values(), *opened.values()]} == {1}


class TestTheRoster:
    """Members and nodes check who joined and who opens sums."""

    def test_what_a_member_refuses(self) -> None:
        """A committee that is not the key file's, and keys that no trusted node signed.

        A member checks one roster in an epoch, even if it refuses it.
        """
        nodes = federation()
        member = nodes.ids[0]
        request: Any = nodes.until(Stage.APPOINT).fields[member]
        keys, signatures = request[KEYS_OF], request["roster.signatures"]
        for not_trusted in (
            {"openers": [0, 1, 6]},  # beyond the first six
            {"openers": [2, 1, 0]},  # out of order
            {KEYS_OF: keys[:-32] + bytes(32)},  # a key of the server
            {"roster.signatures": signatures[:96] * 20},  # a signature of another
        ):
            session = nodes.session(member)
            with pytest.raises(UntrustedError):
                session.handle({**request, **fields_of(not_trusted)})
            assert session.memory.joined is not None
            assert session.memory.joined.member is None
            with pytest.raises(RefusedError, match="already asked"):
                session.handle({**request, "sequence": 14})
        for impossible, reason in (
            ({"openers": [1, 2, 3]}, "not an opener"),
            ({"openers": [0, 1, 1]}, "3 different openers"),
            ({"openers": [0, 1, 20]}, "not among the nodes that joined"),
            ({"roster.num-examples": [5] * N}, "belong to weighted registrations only"),
            ({KEYS_OF: keys[:64] * 2}, "not distinct"),
            ({KEYS_OF: keys + bytes(32)}, "too few, too many"),  # more than allowed
        ):
            with pytest.raises(RefusedError, match=reason):
                nodes.session(member).handle({**request, **fields_of(impossible)})

    def test_what_a_node_refuses(self) -> None:
        """A Sybil's group key, another roster or number of nodes, another epoch's signatures.

        A node whose file lists the members after the first six keys registers with nobody, either.
        """
        nodes = federation()
        old = nodes.until(Stage.REGISTER)
        nodes.finish(nodes.step(nodes.deliver(old)))
        batch = nodes.until(Stage.REGISTER, server_round=2)
        victim = nodes.ids[12]
        request: Any = batch.fields[victim]
        before: Any = old.fields[victim]
        made = "opener-keys", "roster", "public", "sealed-key", "signatures"
        of_before = {name: before[name] for name in made}
        sybil = seal(bytes(32), request["opener-keys"][:32], b"")
        for change in (
            of_before,
            {"roster": bytes(32)},
            {"public": bytes(32)},
            {"sealed-key": sybil},
            {"opener-keys": before["opener-keys"]},
            {"signatures": bytes(288)},
            {"num-joined": N - 1},
        ):
            with pytest.raises((UntrustedError, RefusedError)):
                nodes.session(victim).handle({**request, **change})
        trusted = nodes.policies[victim]
        moved = PinnedKeys(KEYS[12], TRUSTED[CANDIDATES:] + TRUSTED[:CANDIDATES])
        set_policy(nodes, victim, pinned=moved)
        with pytest.raises(UntrustedError, match="first 6 trusted keys"):
            nodes.handle(victim, request)
        nodes.policies[victim] = trusted
        assert nodes.handle(victim, request)
        with pytest.raises(RefusedError, match="already registered in this registration period"):
            nodes.handle(victim, {**request, "sequence": 50})


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lost, "no reply"),
        (lambda reply: {**reply, "sealed": reply["sealed"][:-1]}, "wrong size of a part"),
    ],
)
def test_samples_continue_from_the_last_prices_after_a_failure(spoil: Any, reason: str) -> None:
    """The committee that took over knows them, so it keeps its turn, and nobody starts afresh."""
    nodes = federation(max_registered=16, num_participants=12)
    with altered(nodes, Stage.OPEN, spoil, [nodes.ids[0]]):
        plan = nodes.play(1)
    assert (joins_in(plan), report_of(plan, "open").dropped) == (2, {reason: 1})
    assert "No sum can be opened because of node 0; all nodes register again." in plan.notes
    for plan in nodes.rounds(2, 5):
        assert (plan.num_registered, joins_in(plan), plan.notes) == (16, 1, ())
        assert members_of(nodes) == nodes.ids[3:6]


def test_refused_epochs_keep_enough_nodes_for_a_committee() -> None:
    """However many epochs are refused in a row, three nodes are left for the next round."""
    small: dict[str, Any] = {"min_cohort": 2, "num_participants": 3, "max_registered": 5}
    nodes = federation(pinned=False, number=8, determination=Tries(1), **small)
    for node_id in nodes.ids:
        set_policy(nodes, node_id, min_cohort=2)
    with (
        altered(nodes, Stage.SETTLE, lambda _reply: NodeFailure("refused")),
        pytest.raises(QuorumError, match="error reply at settle"),
    ):
        nodes.play(1)
    plan = nodes.play(2)
    assert (plan.num_registered, plan.fallback) == (3, False)


class TestALie:
    """A lying server, member or node costs an epoch, never the run."""

    @pytest.mark.parametrize(
        "lie",
        [
            without("signature"),
            lambda reply: {**reply, "signature": bytes(96)},
            lambda reply: {**reply, "signature": PinnedKeys(STRANGER, OTHERS).sign(b"join")},
            lambda reply: {**reply, "alias": "5"},
            lambda reply: {**reply, "num-examples": 2**40},
        ],
        ids=["no signature", "garbage", "stranger", "alias", "samples"],
    )
    def test_a_node_that_lies_when_it_joins_stays_alone(self, lie: Any) -> None:
        """A node with a false signature or key is left out; the rest register at once."""
        nodes = federation(num_participants=12, equal_weights=False)
        liar = nodes.ids[12]
        alter(nodes, Stage.JOIN, lie, [liar])
        for server_round in (1, 2):
            plan = nodes.play(server_round)
            assert (plan.fallback, joins_in(plan)) == (False, 1)
            assert plan.stages[0].dropped == {"join key not signed by a trusted node": 1}
            assert set(epoch_of(nodes).registered) == set(nodes.ids) - {liar}

    @pytest.mark.parametrize(
        ("field", "victims", "num_registered", "joins"),
        [
            ("sealed-keys", (3, 8, 12, 17), 16, 1),
            ("sealed-keys", (3, 8, 12, 16, 17), 20, 2),
            ("sealed-keys", (2,), 20, 2),
            ("proofs", range(16, N), 16, 1),
            ("proofs", range(15, N), 10, 2),
            ("proofs", (2,), 19, 1),
        ],
    )
    def test_a_first_member_that_lies_to_some_nodes(
        self, field: str, victims: Sequence[int], num_registered: int, joins: int
    ) -> None:
        """It seals garbage for some nodes, or proves nothing to them; the log names all of them.

        They sit out, or if they are many, or members, all nodes register again without it. In both
        cases the next epoch has a committee without it, and nobody sits out.
        """
        nodes = federation()
        seals = field == "sealed-keys"
        size = Committee.sealed_key_bytes if seals else pads.PROOF_BYTES

        def lie(reply: Any) -> Fields:
            parts = list(split(reply[field], size))
            for place in victims if parts else ():  # only a first member seals keys
                parts[place] = bytes(size)
            return {**reply, field: b"".join(parts)}

        alter(nodes, Stage.APPOINT if seals else Stage.OPEN, lie, [nodes.ids[0]])
        names = ", ".join(map(str, victims))
        lied = "sealed no usable key for" if seals else "has not proved the sum to"
        plan = nodes.play(1)
        assert (plan.num_registered, joins_in(plan)) == (num_registered, joins)
        told = f" {names}, node 0 {lied} them: either it or they are lying."
        assert any(told in note for note in plan.notes)
        assert (nodes.ids[0] in members_of(nodes)) == (joins == 1)
        plan = nodes.play(2)
        assert (plan.num_registered, joins_in(plan)) == (N, 1)
        assert nodes.ids[0] not in members_of(nodes)

    def test_one_of_four_nodes_cannot_stop_the_rest(self) -> None:
        """The node says in every epoch that its key does not open; the others go on without it."""
        nodes = federation(number=4, num_participants=3, determination=None, max_registered=20)
        complaint = NodeFailure(UNUSABLE_KEY)
        alter(nodes, Stage.REGISTER, lambda _reply: complaint, nodes.ids[3:])
        assert [plan.num_registered for plan in nodes.rounds(1, 3)] == [3, 3, 3]

    def test_three_nodes_have_room_for_the_members_noise(self) -> None:
        """All of 25 epochs succeed, although the noise is large for so few nodes."""
        nodes = federation(number=3, num_participants=3, max_registered=3)
        plans = nodes.rounds(1, 25)
        assert {plan.num_registered for plan in plans} == {3}
        assert all("too few for prices" in note for plan in plans for note in plan.notes)

    def test_a_server_that_changes_a_total(self) -> None:
        """Nodes notice, unless one of them colludes: it knows the factors of the tag.

        Members who were shown different sums, here two that lack a node, open none.
        """
        with pytest.raises(RefusedError, match="The sum is not valid"):
            settle_another(lambda _nodes, total: flipped(total))
        settle_another(shifted)
        told = [bits(place == 2 or row > 0 for row in range(N)) for place in range(3)]
        with pytest.raises(RefusedError, match="Member 1 of the committee has not proved"):
            settle_another(lambda _nodes, total: total, *told)

    def test_nobody_opens_a_sum_in_place_of_one_member(self) -> None:
        """The attackers know the group key and two members' secrets, and change the total."""
        nodes = federation()
        batch, _, request = asked_to_open(nodes)
        victim, vault, label = nodes.ids[12], vault_of(nodes), SumName(REGISTRATION)
        replies: list[Any] = [nodes.handle(n, batch.fields[n]) for n in batch.requests]
        told = vault.proofs([OpenReply(reply["sealed"], reply["proofs"]) for reply in replies])[12]
        covered, total = sha256(request.covered).digest(), shifted(nodes, request.total)
        group = group_key_of(nodes, nodes.ids[15])
        old, new = (AESGCM(_release_key(group, label, covered, t)) for t in (request.total, total))
        secrets = split(registered(nodes, victim).keys[pads.KEY_BYTES :], pads.KEY_BYTES)
        parts, proofs = [], list(split(told, pads.PROOF_BYTES))
        for place, (reply, secret) in enumerate(zip(replies, secrets, strict=True)):
            part = old.decrypt(_nonce(place), reply["sealed"], None)
            parts.append(new.encrypt(_nonce(place), part, None))
            if place != 1:
                statement = _opened_statement(label, covered, N, total, parts[-1])
                proofs[place] = pads.proof(secret, statement)
        with pytest.raises(RefusedError, match="Member 2 of the committee has not proved"):
            settle_with(nodes, b"".join([total, covered, *parts]), b"".join(proofs))

    def test_a_member_that_shows_a_node_another_sum_opens_no_further_one(self) -> None:
        """With the server, it could otherwise choose prices at which only this node volunteers."""
        nodes = federation()
        batch = nodes.until(Stage.SETTLE)
        victim, vault, label = nodes.ids[12], vault_of(nodes), SumName(REGISTRATION)
        request: Any = batch.requests[victim]
        group, size = group_key_of(nodes, nodes.ids[0]), vault.vector_bytes(REGISTRATION)
        sums, start, end = request.rule_sum.sums, size + DIGEST_BYTES, 2 * size + DIGEST_BYTES + 16
        total, covered, part = sums[:size], sums[size:start], sums[start:end]
        cipher, nonce = AESGCM(_release_key(group, label, covered, total)), _nonce(0)
        part = cipher.encrypt(nonce, shifted(nodes, cipher.decrypt(nonce, part, None)), None)
        secret = registered(nodes, victim).keys[pads.KEY_BYTES : 2 * pads.KEY_BYTES]
        proof = pads.proof(secret, _opened_statement(label, covered, N, total, part))
        rule_sum = replace(request.rule_sum, sums=sums[:start] + part + sums[end:])
        proofs = proof + request.proofs[pads.PROOF_BYTES :]
        told = {**batch.requests, victim: replace(request, rule_sum=rule_sum, proofs=proofs)}
        replies = nodes.deliver(replace(batch, requests=told))
        assert not nodes.errors
        plan = nodes.finish(nodes.step(replies))
        assert "20 of 20 nodes refused at settle" in plan.notes[1]

    def test_a_sum_over_too_few_nodes_is_not_the_members_fault(self) -> None:
        """Members would refuse it, so the round is given up."""
        nodes = federation(on_failure="random")
        alter(nodes, Stage.SETTLE, lost, nodes.ids[9:])
        plan = nodes.play(1)
        assert (plan.fallback, joins_in(plan)) == (True, 1)
        assert "9 nodes are in the sum, fewer than the 10 needed" in plan.notes[-1]

    def test_complaints_about_a_sum_are_noted_only_when_it_is_read(self) -> None:
        """A note names no member that nodes complain about at a later draw."""
        nodes = federation(registration_interval=9, rounds_per_draw=1)
        nodes.play(1)
        liars = [nodes.ids[row] for row in (6, 8, 12)]
        alter(nodes, Stage.PARTICIPATE, lambda _reply: NodeFailure(UNPROVEN[0]), liars)
        plan = nodes.play(2)
        assert report_of(plan, "participate").dropped == {"error reply": 3}
        assert plan.notes == ()

    @pytest.mark.parametrize(
        ("stage", "field"),
        [
            (Stage.APPOINT, "sealed-keys"),
            (Stage.APPOINT, "signatures"),
            (Stage.OPEN, "sealed"),
            (Stage.OPEN, "proofs"),
            (Stage.REGISTER, "registration"),
        ],
    )
    @pytest.mark.parametrize("num_candidates", [4, 5, 6])
    def test_garbage_without_end_ends_no_run(
        self, stage: Stage, field: str, num_candidates: int
    ) -> None:
        """Whichever node always sends garbage, one of the first five epochs does without it."""
        absent = range(num_candidates, CANDIDATES)
        for liar in (*range(num_candidates), 6, 13, 19):
            nodes = federation(num_participants=9, determination=Tries(1))
            present = [n for row, n in enumerate(nodes.ids) if row not in absent]
            alter(nodes, stage, garbage(field), [nodes.ids[liar]])
            plan = nodes.play(1, present)
            assert (plan.fallback, joins_in(plan) <= 5) == (False, True)

    @pytest.mark.parametrize(
        ("stage", "field", "num_sums"),
        [(Stage.REGISTER, "registration", 1), (Stage.SETTLE, "contribution", 2)],
    )
    def test_garbage_spends_the_budgets_of_all(
        self, stage: Stage, field: str, num_sums: int
    ) -> None:
        """A spoilt registration costs all that nodes contributed to; in the next there are too few.

        The sums before the garbage were read, but `Plan.privacy` does not count them.
        """
        nodes = federation()
        alter(nodes, stage, garbage(field), [nodes.ids[15]])
        plan = nodes.play(1)
        spent = [nodes.session(node_id).memory.budget.spent for node_id in nodes.ids]
        assert spent == pytest.approx([num_sums / 9] * N)
        assert plan.privacy is None


def garbage(field: str) -> Callable[[Any], Fields]:
    """Return how a node lies that changes a field, unless it is empty."""
    return lambda reply: {**reply, field: flipped(reply[field])} if reply.get(field) else reply


def noise_of_members(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list of the deviations of the first number, one each time a member adds noise."""
    added: list[float] = []

    def noise(deviations: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        added.append(deviations[0])
        return gaussian(deviations, uniform)

    for module in ("node.settle", "vaults.committee"):
        monkeypatch.setattr(f"dubhe_flwr.protocol.{module}.gaussian", noise)
    _simulated_noise.cache_clear()
    return added


@pytest.mark.parametrize("simulation", ["plain", "encrypted", None])
def test_a_registration_over_fewer_nodes_has_the_noise_of_all(
    simulation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes are charged before anyone knows who is in the sum; readers expect the full noise."""
    options: Any = {"simulation": simulation, "num_participants": 12, "determination": Tries(1)}
    nodes = federation(pinned=False, number=30, **options)
    for node_id in nodes.ids:
        set_policy(nodes, node_id, simulated=simulation is not None)
    alter(nodes, Stage.REGISTER, lost, nodes.ids[24:])
    added, expected, advanced = noise_of_members(monkeypatch), [], Prices.advanced

    def read(*args: Any) -> Any:
        expected.append((args[1].num_clients, args[1].noise_in_sum))
        return advanced(*args)

    monkeypatch.setattr(Prices, "advanced", read)
    nodes.play(1)
    of_all, of_covered = 30 / 14, 24 / 13  # N / V
    assert added[:3] == pytest.approx([2**18 * Prices.noise / 2 * of_all] * 3)
    assert expected[0] == (24, pytest.approx(3 * (of_all / of_covered) ** 2))
    assert expected[-1] == (24, 3.0)


@pytest.mark.parametrize("num_participants", [13, 20, 10**6])
def test_no_number_of_participants_takes_the_noise_away(
    num_participants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The opening has 5/3 of sigma even if the server asks for more participants than nodes."""
    nodes = federation()
    options: dict[str, Any] = {"equal_weights": True, "max_registered": N}
    usual = Settings(num_participants=K, trusted_keys=TRUSTED, **options).announced(7)
    told = replace(usual, num_participants=num_participants)
    monkeypatch.setattr(Settings, "announced", lambda _self, _seed: told)
    added = noise_of_members(monkeypatch)
    nodes.deliver(nodes.until(Stage.OPEN))
    assert added == pytest.approx([2**18 * Prices.noise / 2 * 5 / 3] * 3)


def test_members_check_the_roster_against_their_own_lists_only() -> None:
    """A server that has two federations with common members mixes them: no node notices."""
    nodes = federation()
    victim = nodes.ids[12]
    set_policy(nodes, victim, pinned=PinnedKeys(KEYS[12], TRUSTED[:13]))
    assert nodes.play(1).num_registered == N
    assert registered(nodes, victim).num_clients == N


def test_members_sign_how_much_a_node_weighs() -> None:
    """A server can change neither a node's number of samples nor the mean."""
    nodes = federation(equal_weights=False)
    batch, victim = nodes.until(Stage.APPOINT), nodes.ids[12]
    request = batch.fields[nodes.ids[0]]
    lie = fields_of({"roster.num-examples": [1] * N, "sequence": batch.header.sequence})
    with pytest.raises(UntrustedError):
        nodes.session(nodes.ids[0]).handle({**request, **lie})
    without = {name: value for name, value in request.items() if name != "roster.num-examples"}
    with pytest.raises(RefusedError, match="belong to weighted registrations only"):
        nodes.session(nodes.ids[0]).handle(without)
    outcome: Any = nodes.step(nodes.deliver(batch))
    with pytest.raises(UntrustedError):
        nodes.handle(victim, {**outcome.fields[victim], "mean-examples": 1.0})
    assert nodes.handle(victim, outcome.fields[victim])


@pytest.mark.parametrize(("size", "entries"), [(100, 1.0), (1150, 1.15**2), (9000, 1.44)])
def test_a_heavy_node_spends_more_of_its_budget(size: int, entries: float) -> None:
    """A sum costs the square of a node's weight, so a mean with made-up nodes gains nothing."""
    nodes = federation(pinned=False, equal_weights=False, rule=Prices(noise=2.0))
    victim = nodes.ids[12]
    set_policy(nodes, victim, label_counts=lambda: np.array([size, 0, 0, 0]))
    nodes.deliver(nodes.until(Stage.REGISTER))
    assert 16 * joined(nodes, victim).budget.spent == pytest.approx(entries)


def settle_another(change: Callable[[Nodes, bytes], bytes], *told: bytes) -> None:
    """Let members open a changed total, perhaps over different nodes, and give it to a node."""
    nodes = federation()
    batch, _, request = asked_to_open(nodes)
    total, sets = change(nodes, request.total), told or [request.covered] * 3
    replies: list[Any] = [
        open_with(nodes, batch, node_id, total=total, covered=covered)
        for node_id, covered in zip(batch.requests, sets, strict=True)
    ]
    parts = [OpenReply(reply["sealed"], reply["proofs"]) for reply in replies]
    vault = vault_of(nodes)
    settle_with(nodes, vault.opened(total, request.covered, parts), vault.proofs(parts)[12])


def settle_with(nodes: Nodes, sums: bytes, proofs: bytes) -> None:
    """Give a sum to the node with these proofs."""
    place = joined(nodes, nodes.ids[12])
    request = SettleRequest(RuleSum(sums, N, 0), ParticipateRequest(1, 1, 1), proofs)
    nodes.handle(nodes.ids[12], Envelope(place.epoch, "settle", 99).seal(request))


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": Prices(noise=0.0)},
        {"rule": Prices(noise=1.0)},
        {"rule": Prices(noise=3.0)},
        {"rule": Prices(target=(0.7, 0.1, 0.1, 0.1))},
        {"rule": Paper((1, 2, 4), {1: 0.6, 2: 0.3})},
        {"determination": Tries(4)},
    ],
    ids=["no noise", "less noise", "more noise", "a target", "another vault", "an agent"],
)
def test_a_node_with_pinned_keys_refuses_exact_sums(settings: dict[str, Any]) -> None:
    """Nodes with pinned keys stay out unless the owner allows exact sums; other nodes join."""
    for pinned, exact_sums, joins in (
        (True, False, False),
        (True, True, True),
        (False, False, True),
    ):
        nodes = federation(pinned=pinned, **settings)
        node_id = nodes.ids[12]
        set_policy(nodes, node_id, exact_sums=exact_sums)
        reply = nodes.handle(node_id, nodes.until(Stage.JOIN).fields[node_id])
        assert (reply["status"] == JoinStatus.JOINS) == joins
