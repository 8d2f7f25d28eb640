"""The committee: what an active server learns with any nodes and two of the three members.

N = 20 nodes of four classes with K = 10 and a pool of 12, so that sigma is 1.
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
from protocol.federation import (
    Federation,
    epoch_of,
    joined,
    node_policies,
    registered,
    skewed_counts,
)
from protocol.nodes import set_policy, signing_key
from protocol.server import alter, asked, lost, stages_of

from dubhe_flwr.core.randomness import gaussian, generator
from dubhe_flwr.errors import ProtocolError, RefusedError, StaleMessageError, UntrustedError
from dubhe_flwr.he import pads
from dubhe_flwr.he.sealing import RecipientKey, prefixed, seal_bytes
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import (
    Batch,
    ClientSession,
    Coordinator,
    Fields,
    NodeFailure,
    Plan,
    Settings,
    Stage,
)
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.node.memory import Ledger
from dubhe_flwr.protocol.node.settle import own_of
from dubhe_flwr.protocol.rules.prices import advanced
from dubhe_flwr.protocol.rules.rule import Population
from dubhe_flwr.protocol.vaults import SumName
from dubhe_flwr.protocol.vaults.committee import (
    CANDIDATES,
    SEALED_GROUP_KEY_BYTES,
    UNPROVEN,
    UNUSABLE_GROUP_KEY,
    Committee,
    Member,
    _factors,
    _nonce,
    _opened_statement,
    _release_key,
)
from dubhe_flwr.protocol.wire.messages import JoinStatus, OpenReply, OpenRequest
from dubhe_flwr.protocol.wire.roster import split
from dubhe_flwr.protocol.wire.terms import REGISTRATION, terms_of
from dubhe_flwr.rules import Paper, Prices, Tries

N, K = 20, 10
Nodes = Federation[CoordinatorState]
KEYS = [signing_key(row) for row in range(N)]
TRUSTED = [key.public_key() for key in KEYS]
KEYS_OF = "roster.public-keys"


def federation(*, pinned: bool = True, number: int = N, **overrides: Any) -> Nodes:
    """Return real nodes and a server; row k's node has the k-th trusted key."""
    options: dict[str, Any] = {
        "num_participants": K, "rule": Prices(), "determination": Tries(1, pool=5),
        "equal_weights": True, "seed": 7, "max_registered": number, "registration_interval": 1,
    }  # fmt: skip
    coordinator = Coordinator(Settings(**options | overrides))
    nodes = Federation(coordinator, node_policies(skewed_counts(number), simulated=False))
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


def bits(flags: Iterable[bool]) -> bytes:
    """Return which nodes a sum covers, as it travels over the wire."""
    return np.packbits(list(flags)).tobytes()


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


@pytest.mark.parametrize("pinned", [True, False])
def test_all_but_the_victim_and_one_member_learn_one_noisy_number(pinned: bool) -> None:
    """Attackers subtract what they know from a sum; the rest contains the honest member's noise."""
    nodes = federation(pinned=pinned)
    batch = nodes.until(Stage.OPEN)
    honest, *others = reversed(members_of(nodes))
    victim = next(n for n in nodes.ids if n not in members_of(nodes))
    label, vault = SumName(REGISTRATION), vault_of(nodes)
    requests: Any = batch.requests
    outcome: Any = nodes.step(nodes.deliver(batch))
    own, keys = joined(nodes, others[0]), registered(nodes, others[0]).keys
    request: Any = outcome.requests[others[0]]
    left = vault.read(keys, label, request.sums + request.proofs, N).astype(np.float64)
    population = Population(own.terms.frame, N, K, own.announced.num_volunteers(N), 3)
    deviations = own.terms.rule.deviations(population, 0)
    assert deviations is not None
    for node_id in nodes.ids:
        place = joined(nodes, node_id)
        told = own_of(nodes.policies[node_id], place, registered(nodes, node_id), N, 0)
        left -= place.terms.rule.contribution(told, population)
    for node_id in others:
        left -= vault.own_noise(member_of(nodes, node_id), requests[node_id], deviations)
    # Besides the victim's own numbers, noise of sigma is left, as if nobody colluded.
    assert 0.3 < float(np.sqrt(np.mean((left / deviations) ** 2))) < 2.5
    noise = vault.own_noise(member_of(nodes, honest), requests[honest], deviations)
    assert left == pytest.approx(noise)
    # The server lacks one pad of the victim's own message, which could be any number.
    row, number = nodes.ids.index(victim), vault.fields[REGISTRATION].number + 1
    sent: Any = [e.reply for e in nodes.exchanges if e.stage == Stage.REGISTER]
    vector = pads.read(sent[row]["registration"], number)
    label_name, slots = prefixed(REGISTRATION.encode(), bytes(8)), (number - 1).to_bytes(8)
    name = prefixed(label_name, slots, sha256(group_key_of(nodes, others[0])).digest())
    for node_id in others:
        key = list(split(member_of(nodes, node_id).pad_keys, pads.KEY_BYTES))[row]
        vector = pads.difference(vector, pads.pad(key, name, number))
    assert int(np.median(vector)) > 2**50


class TestAMember:
    """A member opens only what it should, whatever the server asks."""

    def test_it_opens_one_sum_of_each_exchange(self) -> None:
        """A second total or set is refused; the same request gets the same bytes."""
        nodes = federation()
        batch, node_id, request = asked_to_open(nodes)
        first = open_with(nodes, batch, node_id)
        again = open_with(nodes, batch, node_id, sequence=100)
        assert {**again, "sequence": 0} == {**first, "sequence": 0}
        fewer = bytes([request.covered[0] & 0x7F]) + request.covered[1:]
        for change in ({"covered": fewer}, {"total": flipped(request.total)}):
            with pytest.raises(RefusedError, match="different sum"):
                open_with(nodes, batch, node_id, sequence=101, **change)

    @pytest.mark.parametrize(
        ("exchange", "rows", "reason"),
        [
            (0, range(9), "9 of 20"),
            (1, range(N), "the previous sum"),
            (9, range(N), "needs no further sum"),
        ],
    )
    def test_what_it_refuses(self, exchange: int, rows: range, reason: str) -> None:
        """A member refuses a sum over too few nodes, out of turn, or after the last one."""
        nodes = federation()
        batch, node_id, _ = asked_to_open(nodes)
        total = bytes(vault_of(nodes).vector_bytes("settlement" if exchange else REGISTRATION))
        asked: Any = {"exchange": exchange, "covered": bits(row in rows for row in range(N))}
        with pytest.raises(RefusedError, match=reason):
            open_with(nodes, batch, node_id, total=total, **asked)

    def test_it_repeats_no_answer_without_end(self) -> None:
        """Opening a sum again takes as much work, and counts as an epoch."""
        nodes = federation()
        batch, node_id, _ = asked_to_open(nodes)
        set_policy(nodes, node_id, max_epochs_per_day=3)
        for sequence in (100, 101, 102):
            open_with(nodes, batch, node_id, sequence=sequence)
        with pytest.raises(RefusedError, match="has reached its owner's max_epochs_per_day"):
            open_with(nodes, batch, node_id, sequence=103)

    @pytest.mark.parametrize("state_dir", [True, False])
    def test_a_lost_context(self, *, state_dir: bool) -> None:
        """Without state_dir, a member that forgot its answer opens another total, with new noise.

        Flower sends a reply before it stores the Context, so a process may die in between.
        """
        nodes = federation()
        batch, node_id, request = asked_to_open(nodes)
        before = nodes.session(node_id).memory
        open_with(nodes, batch, node_id)
        if state_dir:
            before = before.with_ledger(nodes.session(node_id).memory.ledger_after(Ledger()))
        other = {**batch.fields[node_id], "total": flipped(request.total), "sequence": 100}
        session = ClientSession(nodes.policies[node_id], before)
        if state_dir:
            with pytest.raises(RefusedError, match="did not join this epoch"):
                session.handle(other)
        else:
            assert session.handle(other)

    def test_a_set_never_grows(self) -> None:
        """A node missing from one sum is in no later sum."""
        nodes = federation()
        batch, node_id, request = asked_to_open(nodes)
        most = bits(row > 0 for row in range(N))
        total = bytes(vault_of(nodes).vector_bytes("settlement"))
        open_with(nodes, batch, node_id, covered=most)
        more = {"sequence": 100, "exchange": 1, "total": total}
        with pytest.raises(RefusedError, match="not in the previous one"):
            open_with(nodes, batch, node_id, covered=request.covered, **more)
        open_with(nodes, batch, node_id, covered=most, **more)

    def test_who_is_no_member_opens_nothing(self) -> None:
        """A node outside the committee refuses every request to open a sum."""
        nodes = federation()
        batch = nodes.until(Stage.OPEN)
        other = next(n for n in nodes.ids if n not in batch.requests)
        with pytest.raises(RefusedError, match="not a member"):
            nodes.handle(other, next(iter(batch.fields.values())))


@pytest.mark.parametrize("seed", range(3))
def test_no_order_of_requests_uses_a_pad_twice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sends old, changed and misdirected requests; each label has one vector, one sum."""
    rng, nodes = generator(seed, "order"), federation(num_participants=12)
    answer, hide, release = nodes.handle, Committee.hide, Committee.release
    hidden, opened = defaultdict[Any, set[bytes]](set), defaultdict[Any, set[bytes]](set)

    def handle(node_id: int, request: Any) -> Fields:
        latest = nodes.session(node_id).memory.sequence
        reply = answer(node_id, {**request, "sequence": latest + 1})
        return {**reply, "sequence": request["sequence"]}

    def noted_hide(vault: Committee, keys: bytes, sum_name: SumName, values: Any) -> bytes:
        hidden[keys, sum_name].add(values.tobytes())
        return hide(vault, keys, sum_name, values)

    def noted_release(vault: Committee, member: Any, *rest: Any) -> OpenReply:
        reply = release(vault, member, *rest)
        request: Any = rest[2]
        opened[member.pad_keys, rest[1]].add(request.covered + request.total + reply.sealed)
        return reply

    nodes.handle = handle  # type: ignore[method-assign]
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

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            (lambda r: {"members": numbers(0, 1, 6)}, UntrustedError),
            (lambda r: {"members": numbers(2, 1, 0)}, UntrustedError),
            (lambda r: {"members": numbers(0, 1, 1)}, RefusedError),
            (lambda r: {"members": numbers(0, 1, 20)}, RefusedError),
            (lambda r: {KEYS_OF: r[KEYS_OF][:64] * 2}, RefusedError),
            (lambda r: {KEYS_OF: r[KEYS_OF] + bytes(32)}, RefusedError),
            (lambda r: {KEYS_OF: r[KEYS_OF][:-32] + bytes(32)}, UntrustedError),
            (lambda r: {"roster.signatures": r["roster.signatures"][:96] * 20}, UntrustedError),
        ],
        ids=["beyond the first six", "out of order", "one twice", "nobody", "keys twice",
             "more than allowed", "a key of the server", "a signature of another"],
    )  # fmt: skip
    def test_what_a_member_refuses(
        self, change: Callable[[Any], Fields], error: type[ProtocolError]
    ) -> None:
        """A committee that is not the key file's, and keys that no trusted node signed."""
        nodes = federation()
        batch = nodes.until(Stage.APPOINT)
        request = next(iter(batch.fields.values()))
        try:
            reply = nodes.handle(nodes.ids[0], {**request, **change(request)})
        except error:
            return
        assert error is UntrustedError
        ranks = reply["ranks"]
        assert isinstance(ranks, bytes)
        assert len(ranks) == 8 * N
        assert not any(reply[name] for name in ("group-digest", "sealed-keys"))
        assert joined(nodes, nodes.ids[0]).member is None

    @pytest.mark.parametrize("members", [(0, 1, 2), (0, 1, 6), (0, 0, 0)])
    def test_a_server_that_asks_again_and_again(self, members: tuple[int, ...]) -> None:
        """Every request after the first counts as an epoch, whatever its outcome."""
        nodes = federation()
        asked, batch = nodes.ids[0], nodes.until(Stage.APPOINT)
        set_policy(nodes, asked, max_epochs_per_day=3)
        for sequence in (10, 11, 12):
            with suppress(RefusedError):
                request = {**batch.fields[asked], "members": numbers(*members)}
                nodes.handle(asked, {**request, "sequence": sequence})
        assert nodes.session(asked).memory.allowance.num_epochs == 3
        with pytest.raises(RefusedError, match="has reached its owner's max_epochs_per_day"):
            nodes.handle(asked, {**batch.fields[asked], "sequence": 13})

    def test_what_a_node_refuses(self) -> None:
        """A Sybil's group key, another roster or number of nodes, another epoch's signatures."""
        nodes = federation()
        old = nodes.until(Stage.REGISTER)
        nodes.finish(nodes.step(nodes.deliver(old)))
        batch = nodes.until(Stage.REGISTER, server_round=2)
        victim = nodes.ids[12]
        request: Any = batch.fields[victim]
        before: Any = old.fields[victim]
        of_before = {name: before[name] for name in before if name.startswith("committee.")}
        sybil = seal_bytes(bytes(32), request["committee.member-keys"][:32], b"")
        for change in (
            of_before,
            {"committee.roster": bytes(32)},
            {"committee.group-digest": bytes(32)},
            {"committee.sealed-key": sybil},
            {"committee.member-keys": before["committee.member-keys"]},
            {"committee.signatures": bytes(288)},
            {"num-joined": N - 1},
        ):
            with pytest.raises((UntrustedError, RefusedError)):
                nodes.session(victim).handle({**request, **change})
        assert nodes.handle(victim, request)

    def test_another_order_of_keys_is_noticed(self) -> None:
        """A node whose file lists the members after the first six keys registers with nobody."""
        nodes = federation()
        moved = PinnedKeys(KEYS[12], TRUSTED[CANDIDATES:] + TRUSTED[:CANDIDATES])
        set_policy(nodes, nodes.ids[12], pinned=moved)
        batch = nodes.until(Stage.REGISTER)
        with pytest.raises(UntrustedError, match="first 6 trusted keys"):
            nodes.handle(nodes.ids[12], batch.fields[nodes.ids[12]])


@pytest.mark.parametrize("seed", range(4))
def test_the_first_keys_are_in_every_sample(seed: int) -> None:
    """If the first sample lacks them, all nodes are asked once; members accept no larger roster."""
    nodes = federation(max_registered=12, seed=seed)
    for server_round in (1, 2, 3):
        nodes.exchanges.clear()
        plan = nodes.play(server_round)
        assert plan.num_registered == 12
        registering = set(asked(nodes, Stage.REGISTER))
        assert len(registering) == 12
        assert len(registering.intersection(nodes.ids[:CANDIDATES])) >= 3
        assert joins_in(plan) <= (2 if server_round == 1 else 1)


def test_nobody_is_pushed_out_by_an_alias() -> None:
    """If two nodes sign the same alias, the second one gets part of its key as a suffix."""
    nodes = federation()
    thief, victim = nodes.ids[3], nodes.ids[5]
    set_policy(nodes, thief, alias="5")
    assert [plan.num_registered for plan in nodes.rounds(1, 2)] == [N, N]
    names = epoch_of(nodes).aliases
    own = {row: KEYS[row].public_key().public_bytes_raw()[:4].hex() for row in (3, 5)}
    found = names[thief], names[victim]
    assert found in {("5", f"5 ({own[5]})"), (f"5 ({own[3]})", "5")}


class TestALie:
    """A lying server, member or node costs an epoch, never the run."""

    @pytest.mark.parametrize("trusted_keys", [None, TRUSTED])
    @pytest.mark.parametrize(
        "lie",
        [{"rank": 0}, {"signature": None}, {"signature": bytes(96)}, {}, {"alias": "5"},
         {"num-examples": 2**40}],
        ids=["rank", "no signature", "garbage", "stranger", "alias", "samples"],
    )  # fmt: skip
    def test_a_node_that_lies_when_it_joins_stays_alone(
        self, lie: dict[str, Any], trusted_keys: Any
    ) -> None:
        """A node with a false place, signature or key is left out; the rest register at once."""
        equal = "num-examples" not in lie
        nodes = federation(trusted_keys=trusted_keys, num_participants=12, equal_weights=equal)
        liar, own = nodes.ids[12], signing_key(99)
        if not lie:
            strangers = PinnedKeys(own, [own.public_key(), *TRUSTED])
            set_policy(nodes, liar, pinned=strangers)
        told = {name: what for name, what in lie.items() if what is not None}
        alter(
            nodes,
            Stage.JOIN,
            lambda reply: {k: v for k, v in reply.items() if k not in lie} | told,
            [liar],
        )
        for server_round in (1, 2):
            plan = nodes.play(server_round)
            assert (plan.fallback, joins_in(plan)) == (False, 1)
            aliases = epoch_of(nodes).aliases
            assert (liar in aliases) == ("rank" in lie and trusted_keys is None)
            assert len(aliases) >= N - 1

    @pytest.mark.parametrize(("place", "field"), [(0, "sealed-keys"), (1, "signature")])
    def test_a_member_that_lies_costs_one_registration_in_all(self, place: int, field: str) -> None:
        """Later committees leave that member out."""
        nodes = federation()
        lie: Any = lambda reply: {**reply, field: reply[field] and flipped(reply[field])}  # noqa: E731
        alter(nodes, Stage.APPOINT, lie, [nodes.ids[place]])
        plans = nodes.rounds(1, 3)
        assert joins_in(*plans) == 4
        assert not any(plan.fallback for plan in plans)

    @pytest.mark.parametrize(
        ("victims", "num_registered", "committee"),
        [((3, 8, 12, 17), [16, 20, 20], (1, 2, 4)), ((8, 12), [18, 18, 18], (0, 1, 2))],
        ids=["a fifth of the nodes", "two"],
    )
    def test_a_first_member_that_leaves_nodes_out(
        self, victims: tuple[int, ...], num_registered: list[int], committee: tuple[int, ...]
    ) -> None:
        """The member seals garbage for some nodes: three get it replaced, two only logged."""
        nodes = federation()
        seal_garbage(nodes, nodes.ids[0], lambda _members: victims)
        plans = nodes.rounds(1, 3)
        assert [plan.num_registered for plan in plans] == num_registered
        names = ", ".join(map(str, victims))
        said = f"0 sealed no usable group key for {names}: either"
        for plan, number in zip(plans, num_registered, strict=True):
            assert any(said in note for note in plan.notes) == (number < N)
        assert tuple(map(nodes.ids.index, members_of(nodes))) == committee

    @pytest.mark.parametrize("absent", [(), (4, 5)], ids=["six candidates", "four"])
    @pytest.mark.parametrize(
        "whom",
        [lambda members: members[1:], lambda _members: (1, 2), lambda members: members[2:]],
        ids=["the others", "the same two", "one of them"],
    )
    def test_a_first_member_that_leaves_other_members_out(
        self, whom: Callable[[list[int]], Iterable[int]], absent: tuple[int, ...]
    ) -> None:
        """The other members cannot open sums, so all register again with another first member."""
        nodes = federation()
        present = [node_id for row, node_id in enumerate(nodes.ids) if row not in absent]
        seal_garbage(nodes, nodes.ids[0], whom)
        first, *later = (joins_in(nodes.play(number, present)) for number in (1, 2, 3))
        assert first <= 3
        assert later == [1, 1]
        assert nodes.ids[0] not in epoch_of(nodes).committee

    def test_nodes_that_lie_about_their_key_are_believed_once(self) -> None:
        """These nodes stay out and put one member behind the others, but never a second one."""
        nodes, committees = federation(), []
        liars = [nodes.ids[row] for row in (6, 8, 12, 17)]
        alter(nodes, Stage.REGISTER, lambda _reply: NodeFailure(UNUSABLE_GROUP_KEY), liars)
        for server_round in range(1, 5):
            plan = nodes.play(server_round)
            assert plan.num_registered == N - len(liars)
            assert any("usable group key for 6, 8, 12, 17:" in note for note in plan.notes)
            committees.append(tuple(map(nodes.ids.index, members_of(nodes))))
        assert committees == [(0, 1, 2), (1, 2, 3), (1, 2, 3), (1, 2, 3)]

    def test_one_of_four_nodes_cannot_stop_the_rest(self) -> None:
        """The node says in every epoch that its key does not open; the others go on without it."""
        nodes = federation(number=4, num_participants=3, determination=None, max_registered=20)
        complaint = NodeFailure(UNUSABLE_GROUP_KEY)
        alter(nodes, Stage.REGISTER, lambda _reply: complaint, nodes.ids[3:])
        assert [plan.num_registered for plan in nodes.rounds(1, 3)] == [3, 3, 3]

    def test_three_nodes_have_room_for_the_members_noise(self) -> None:
        """All of 25 epochs succeed, although the noise is large for so few nodes."""
        nodes = federation(number=3, num_participants=3, max_registered=3)
        plans = nodes.rounds(1, 25)
        assert {plan.num_registered for plan in plans} == {3}
        assert all(note.startswith("A pool of ") for plan in plans for note in plan.notes)

    def test_a_total_that_the_server_changes_is_noticed(self) -> None:
        """The server does not know the factors of the tag, and no node reads such a sum."""
        nodes = federation()
        batch, _, request = asked_to_open(nodes)
        first = int.from_bytes(request.total[:8], "big") + 1
        total = first.to_bytes(8, "big") + request.total[8:]
        opened = opened_instead(nodes, batch, total)
        with pytest.raises(RefusedError, match="The sum is not valid"):
            settle_with(nodes, *opened)

    def test_a_server_with_one_node_shifts_a_total_unnoticed(self) -> None:
        """The node knows the factors of the tag, so it can be changed along with the numbers."""
        nodes = federation()
        batch, _, request = asked_to_open(nodes)
        number = vault_of(nodes).fields[REGISTRATION].number
        name = prefixed(b"tag", prefixed(REGISTRATION.encode(), bytes(8)))
        factors = pads.pad(group_key_of(nodes, nodes.ids[15]), name, number)
        shift = pads.tagged([2**18, *[0] * (number - 1)], factors)
        total = pads.written(pads.total([pads.read(request.total, number + 1), shift]))
        settle_with(nodes, *opened_instead(nodes, batch, total))

    def test_members_who_were_shown_different_sums_open_none(self) -> None:
        """The server tells two members of one node fewer than the third."""
        nodes = federation()
        batch, _, request = asked_to_open(nodes)
        told = [bits(place == 2 or row > 0 for row in range(N)) for place in range(3)]
        opened = opened_instead(nodes, batch, request.total, told)
        with pytest.raises(RefusedError, match="Member 1 of the committee has not proved"):
            settle_with(nodes, *opened)

    @pytest.mark.parametrize("pinned", [True, False])
    def test_nobody_opens_a_sum_in_place_of_one_member(self, pinned: bool) -> None:
        """The attackers know the group key and two members' secrets, and change the total."""
        nodes = federation(pinned=pinned)
        batch, _, request = asked_to_open(nodes)
        victim, vault, label = nodes.ids[12], vault_of(nodes), SumName(REGISTRATION)
        replies: list[Any] = [nodes.handle(n, batch.fields[n]) for n in batch.requests]
        told = vault.proofs([OpenReply(reply["sealed"], reply["proofs"]) for reply in replies])[12]
        covered, number = sha256(request.covered).digest(), vault.fields[REGISTRATION].number
        group = group_key_of(nodes, nodes.ids[15])
        shift = pads.tagged([2**18, *[0] * (number - 1)], _factors(group, label, number))
        total = pads.written(pads.total([pads.read(request.total, number + 1), shift]))
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

    @pytest.mark.parametrize(
        ("victims", "numbers_left", "committee"),
        [
            (range(10, N), [10, 20, 20], (1, 2, 3)),
            ((3, 8, 12, 17), [16, 20, 20], (1, 2, 4)),
            ((8, 12), [18, 18, 18], (0, 1, 2)),
            ((1, 2), [18, 20, 20], (3, 4, 5)),
            ((2,), [19, 20, 20], (1, 3, 4)),
        ],
        ids=["half of the nodes", "a fifth", "two", "the others", "one of them"],
    )
    def test_a_member_that_proves_nothing_to_some_nodes(
        self, victims: Sequence[int], numbers_left: list[int], committee: tuple[int, ...]
    ) -> None:
        """Four nodes that miss an epoch get the member replaced, and so does another member.

        Two other nodes are only logged. If more than a fifth complain, nobody suspects them later.
        """
        nodes = federation()

        def lie(reply: Any) -> Fields:
            proofs = list(split(reply["proofs"], pads.PROOF_BYTES))
            for place in victims:
                proofs[place] = bytes(pads.PROOF_BYTES)
            return {**reply, "proofs": b"".join(proofs)}

        alter(nodes, Stage.OPEN, lie, [nodes.ids[0]])
        names = ", ".join(map(str, victims))
        said = f"0 has not proved the sum to {names}: either this member"
        for server_round, number in enumerate(numbers_left, start=1):
            plan = nodes.play(server_round)
            assert len(epoch_of(nodes).aliases) == number
            assert any(said in note for note in plan.notes) == (number < N)
            assert joins_in(plan) == 1
        assert tuple(map(nodes.ids.index, members_of(nodes))) == committee
        are_many = len(victims) > N / 5
        failures = nodes.state.run.failures
        assert all((nodes.ids[row] not in failures) == are_many for row in victims)

    def test_a_node_complains_once_in_an_epoch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With a rule of one sum, liars that complain at each draw count only at the first."""
        monkeypatch.setattr(Prices, "num_sums", lambda *_: 1)
        nodes = federation(registration_interval=9, rounds_per_draw=1)
        liars = [nodes.ids[row] for row in (6, 8, 12)]
        alter(nodes, Stage.PARTICIPATE, lambda _reply: NodeFailure(UNPROVEN[0]), liars)
        first, *later = nodes.rounds(1, 3)
        assert any("0 has not proved the sum to 6, 8, 12:" in note for note in first.notes)
        assert not any(plan.notes for plan in later)
        assert nodes.state.run.failures == dict.fromkeys([*liars, nodes.ids[0]], 1)

    def test_a_lost_member_is_replaced(self) -> None:
        """The member is asked once more; then all nodes register again, with another committee."""
        nodes = federation()
        alter(nodes, Stage.OPEN, lost, [nodes.ids[1]])
        plan = nodes.play(1)
        assert not plan.fallback
        assert [note for note in plan.notes if "failed because of 1;" in note]
        stages = stages_of(plan)
        assert joins_in(plan) == 2
        assert stages[: stages.index(Stage.OPEN) + 2].count(Stage.OPEN) == 2

    @pytest.mark.parametrize("absent", [(), (4, 5)], ids=["six candidates", "four"])
    @pytest.mark.parametrize(
        ("liar", "stage", "field"),
        [
            (0, Stage.OPEN, "sealed"),
            (0, Stage.OPEN, "proofs"),
            (0, Stage.APPOINT, "ranks"),
            (0, Stage.REGISTER, "registration"),
            (3, Stage.REGISTER, "registration"),
            (15, Stage.REGISTER, "registration"),
        ],
    )
    def test_garbage_without_end_ends_no_run(
        self, liar: int, stage: Stage, field: str, absent: tuple[int, ...]
    ) -> None:
        """A member, candidate or other node always sends garbage; some epoch does without it."""
        nodes = federation(num_participants=9, determination=Tries(1, pool=6))
        present = [n for row, n in enumerate(nodes.ids) if row not in absent]
        objection = objecting(range(len(present)))
        lie: Any = lambda reply: {**reply, field: flipped(reply[field])}  # noqa: E731
        alter(nodes, stage, objection if stage == Stage.APPOINT else lie, [nodes.ids[liar]])
        for server_round in (1, 2):
            plan = nodes.play(server_round, present)
            assert not plan.fallback
            assert joins_in(plan) <= 5

    def test_garbage_spends_the_budgets_of_all(self) -> None:
        """Each registration that it spoils is a first one, which costs a ninth of the budget."""
        nodes = federation()
        lie: Any = lambda reply: {**reply, "registration": flipped(reply["registration"])}  # noqa: E731
        alter(nodes, Stage.REGISTER, lie, [nodes.ids[15]])
        for server_round in (1, 2, 3):
            nodes.play(server_round)
            spent = [nodes.session(n).memory.budget.spent for n in nodes.ids if n != nodes.ids[15]]
            assert spent == pytest.approx([server_round / 9] * (N - 1))

    def test_two_strangers_in_a_committee_push_nobody_out(self) -> None:
        """Strangers that claim the first places and trust nobody else cost one epoch."""
        nodes = federation()
        liars = nodes.ids[12:14]
        for row, liar in enumerate(liars, start=12):
            own = signing_key(row + 90)
            set_policy(nodes, liar, pinned=PinnedKeys(own, [own.public_key(), *TRUSTED]))
        lies: dict[str, Callable[[Any], Fields]] = {
            Stage.JOIN: lambda reply: {**reply, "rank": 0},
            Stage.APPOINT: objecting(0 if node_id in liars else -1 for node_id in nodes.ids),
        }
        nodes.alter_reply = lambda stage, node_id, reply: (
            lies[stage](reply) if node_id in liars and stage in lies else reply
        )
        plans = nodes.rounds(1, 2)
        assert [plan.num_registered for plan in plans] == [N - 2] * 2
        assert joins_in(*plans) == 3

    def test_two_members_push_nobody_out(self) -> None:
        """Two members that do not trust half of the nodes, unlike the third, cost one epoch."""
        nodes = federation()
        ranks = (row if row < 10 else -1 for row in range(N))
        alter(nodes, Stage.APPOINT, objecting(ranks), nodes.ids[:2])
        plans = nodes.rounds(1, 2)
        assert [plan.num_registered for plan in plans] == [N, N]
        assert joins_in(*plans) == 3


def objecting(ranks: Iterable[int]) -> Callable[[Any], Fields]:
    """Return how a member objects that tells the server these places of the nodes it trusts."""
    objection = {"group-digest": b"", "sealed-keys": b"", "ranks": numbers(*ranks)}
    return lambda reply: {**reply, **objection}


def seal_garbage(nodes: Nodes, liar: int, victims: Callable[[list[int]], Iterable[int]]) -> None:
    """Let a first member seal garbage for some places of the roster, given the members' places."""
    members: list[int] = []

    def note(stage: str, _node_id: int, request: Any) -> Any:
        if stage == Stage.APPOINT:
            members[:] = np.frombuffer(request["members"], ">i8").tolist()
        return request

    def lie(stage: str, node_id: int, reply: Any) -> Any:
        if (stage, node_id) != (Stage.APPOINT, liar) or not reply["sealed-keys"]:
            return reply
        sealed = list(split(reply["sealed-keys"], SEALED_GROUP_KEY_BYTES))
        for place in victims(members):
            sealed[place] = bytes(SEALED_GROUP_KEY_BYTES)
        return {**reply, "sealed-keys": b"".join(sealed)}

    nodes.alter_request, nodes.alter_reply = note, lie


def noise_of_members(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list of the deviations of the first number, one each time a member adds noise."""
    added: list[float] = []

    def noise(deviations: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        added.append(deviations[0])
        return gaussian(deviations, uniform)

    for module in ("node.settle", "vaults.committee"):
        monkeypatch.setattr(f"dubhe_flwr.protocol.{module}.gaussian", noise)
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
    added, expected = noise_of_members(monkeypatch), []

    def read(*args: Any) -> Any:
        expected.append((args[2].num_clients, args[2].noise_in_sum))
        return advanced(*args)

    monkeypatch.setattr("dubhe_flwr.protocol.rules.prices.advanced", read)
    nodes.play(1)
    assert added[:3] == pytest.approx([2**18 * Prices.noise / 2 * 30 / 12] * 3)
    assert expected[0] == (24, pytest.approx(3 * (30 / 24) ** 2))
    assert expected[-1] == (24, 3.0)


@pytest.mark.parametrize("num_participants", [13, 19, 20, 10**6])
def test_no_number_of_participants_takes_the_noise_away(
    num_participants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The opening has 5/3 of sigma even if the server asks for more participants than nodes."""
    nodes = federation()
    usual = Settings(num_participants=K, equal_weights=True, max_registered=N).announced(7)
    told = replace(usual, num_participants=num_participants)
    monkeypatch.setattr(Settings, "announced", lambda _self, _seed: told)
    added = noise_of_members(monkeypatch)
    nodes.deliver(nodes.until(Stage.OPEN))
    assert added == pytest.approx([2**18 * Prices.noise / 2 * 5 / 3] * 3)


def test_two_group_keys_or_lengths_share_no_pads() -> None:
    """A first member hands out two; noise tagged under one would cancel in a tag of the other."""
    nodes = federation()
    nodes.until(Stage.OPEN)
    keys, vault = registered(nodes, nodes.ids[12]).keys, vault_of(nodes)
    longer = terms_of(joined(nodes, nodes.ids[12]).announced, 5).vault
    of_another = bytes(pads.KEY_BYTES) + keys[pads.KEY_BYTES :]
    label, sent = SumName(REGISTRATION), []
    for each, own in ((vault, keys), (vault, of_another), (longer, keys)):
        number = each.fields[REGISTRATION].number
        vector = each.hide(own, label, np.zeros(number, np.int64))
        sent.append(pads.read(vector, number + 1)[:5])
    one, *others = sent
    assert all((one != other).all() for other in others)


def test_members_keys_of_an_old_epoch_open_what_a_forgetful_node_sends() -> None:
    """A node cannot see whether the members signed a roster with its own new key.

    Two members collude, and the delivery key of the third leaked after an epoch. With the
    members' old appointment, the server reads the numbers of a node that forgot this epoch.
    """
    nodes = federation()
    nodes.play(1)
    victim, members, vault = nodes.ids[12], members_of(nodes), vault_of(nodes)
    leaked = [RecipientKey.from_bytes(joined(nodes, n).delivery_key) for n in members]
    told: Any = {(e.node_id, e.stage): e.request for e in nodes.exchanges}
    join, old = told[victim, Stage.JOIN], told[victim, Stage.REGISTER]
    scope = vault._scope(join["epoch"], old["committee.roster"])
    own = leaked[1].public_bytes
    sealed = told[members[1], Stage.REGISTER]["committee.sealed-key"]
    made = leaked[1].decrypt(sealed, prefixed(b"group", scope, own))
    nodes.play(2)
    with pytest.raises(StaleMessageError):
        nodes.handle(victim, join)
    del nodes.memories[victim]  # a new run, or a SuperNode that was restarted
    nodes.handle(victim, join)
    new = RecipientKey.from_bytes(joined(nodes, victim).delivery_key).public_bytes
    sealed_anew = seal_bytes(made, new, prefixed(b"group", scope, new))
    reply: Any = nodes.handle(victim, {**old, "committee.sealed-key": sealed_anew})
    number = vault.fields[REGISTRATION].number
    vector = pads.read(reply["registration"], number + 1)
    slots = number.to_bytes(8)
    group = sha256(group_key_of(nodes, victim)).digest()
    name = prefixed(prefixed(REGISTRATION.encode(), bytes(8)), slots, group)
    for key in leaked:
        info = prefixed(b"pads", scope, key.public_bytes, new)
        vector = pads.difference(
            vector, pads.pad(pads.agreed_key(key, new, info), name, number + 1)
        )
    place = joined(nodes, victim)
    own_numbers = own_of(nodes.policies[victim], place, registered(nodes, victim), N, 0)
    population = Population(place.terms.frame, N, K, place.announced.num_volunteers(N), 3)
    expected = place.terms.rule.contribution(own_numbers, population)
    assert vector[:-1].tolist() == expected.tolist()


def test_members_sign_how_much_a_node_weighs() -> None:
    """A server can change neither a node's number of samples nor the mean."""
    nodes = federation(equal_weights=False)
    batch, victim = nodes.until(Stage.APPOINT), nodes.ids[12]
    request = batch.fields[nodes.ids[0]]
    lie = {"roster.num-examples": numbers(*[1] * N), "sequence": batch.header.sequence}
    reply = nodes.session(nodes.ids[0]).handle({**request, **lie})
    assert reply["ranks"] == numbers(*[-1] * N)
    outcome: Any = nodes.step(nodes.deliver(batch))
    with pytest.raises(UntrustedError):
        nodes.handle(victim, {**outcome.fields[victim], "mean-examples": 1.0})
    assert nodes.handle(victim, outcome.fields[victim])


@pytest.mark.parametrize(
    ("size", "entries"), [(100, 1.0), (1150, (1150 / 1007.5) ** 2), (9000, 1.44)]
)
def test_a_heavy_node_spends_more_of_its_budget(size: int, entries: float) -> None:
    """A sum costs the square of a node's weight, so a mean with made-up nodes gains nothing."""
    nodes = federation(pinned=False, equal_weights=False, rule=Prices(noise=2.0))
    victim = nodes.ids[12]
    set_policy(nodes, victim, label_counts=lambda: np.array([size, 0, 0, 0]))
    nodes.deliver(nodes.until(Stage.REGISTER))
    assert 16 * joined(nodes, victim).budget.spent == pytest.approx(entries)


def numbers(*values: int) -> bytes:
    """Return numbers as they travel over the wire."""
    return np.array(values, dtype=">i8").tobytes()


def opened_instead(
    nodes: Nodes, batch: Batch, total: bytes, covered: Sequence[bytes] | None = None
) -> tuple[bytes, bytes]:
    """Return the sum, and one node's proofs, if the server asks members for another sum."""
    _, request = next(iter(batch.requests.items()))
    assert isinstance(request, OpenRequest)
    sets = covered or [request.covered] * len(batch.requests)
    replies: list[Any] = [
        open_with(nodes, batch, node_id, total=total, covered=covered)
        for node_id, covered in zip(batch.requests, sets, strict=True)
    ]
    parts = [OpenReply(reply["sealed"], reply["proofs"]) for reply in replies]
    vault = vault_of(nodes)
    return vault.opened(total, request.covered, parts), vault.proofs(parts)[12]


def settle_with(nodes: Nodes, sums: bytes, proofs: bytes) -> None:
    """Give a sum to the node with these proofs."""
    place = joined(nodes, nodes.ids[12])
    header = {"epoch": place.epoch, "stage": "settle", "sequence": 99, "version": 1}
    told = {"sums": sums, "num-clients": N, "exchange": 0, "proofs": proofs}
    draws = {"first-round": 1, "num-rounds": 1, "num-tries": 1}
    nodes.handle(nodes.ids[12], {**header, **told, **draws})


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": Prices(noise=0.0)},
        {"rule": Prices(target=(0.7, 0.1, 0.1, 0.1))},
        {"rule": Paper((1, 2, 4), {1: 0.6, 2: 0.3})},
        {"determination": Tries(4)},
    ],
    ids=["no noise", "a target", "another vault", "an agent"],
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
