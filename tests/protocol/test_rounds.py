"""Tests of the rounds of an epoch: draws, agents, requests and replacements."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import decrypted, dubhe, epoch_of, session_state, skewed_counts

from dubhe_flwr.core import fixed_point_distribution, generator, tries_of_round, with_square
from dubhe_flwr.protocol import SessionState
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import ParticipateReply, ParticipateRequest
from dubhe_flwr.protocol.parameters import EpochParameters
from dubhe_flwr.protocol.rounds import (
    DrawnRound,
    choose_agents,
    determine_requests,
    drawn_rounds,
    has_choice,
    is_selection,
    participants,
)

NUM_CLIENTS = 9
COUNTS = skewed_counts(NUM_CLIENTS)
FIXED = np.array([with_square(fixed_point_distribution(row)) for row in COUNTS])
ALL = np.ones(NUM_CLIENTS, dtype=bool)


@pytest.fixture(scope="module")
def insider() -> tuple[Epoch, SessionState]:
    """Return an epoch of nine clients from round 3 on, and what one of them keeps."""
    options: dict[str, Any] = {"reference_set": (1, 4), "thresholds": {1: 0.6}, "tries": 1}
    nodes = dubhe(COUNTS, num_participants=3, **options)
    nodes.play(3)
    return epoch_of(nodes), session_state(nodes, nodes.ids[0])


@pytest.fixture(scope="module")
def epoch(insider: tuple[Epoch, SessionState]) -> Epoch:
    """Return an epoch of nine clients that began in round 3."""
    return insider[0]


def draw(num_tries: int, seed: int = 0, available: NDArray[np.bool_] = ALL) -> DrawnRound:
    """Return a round of random draws."""
    decisions = generator(seed, "draw").random((NUM_CLIENTS, num_tries)) < 0.4
    return DrawnRound(decisions, available)


def selecting(epoch: Epoch, num_participants: int, **announced: Any) -> Epoch:
    """Return the epoch of an operator who wants so many clients."""
    announced |= {"num_participants": num_participants}
    parameters = EpochParameters(replace(epoch.parameters.announced, **announced))
    return replace(epoch, parameters=parameters)


def without(*indices: int) -> NDArray[np.bool_]:
    """Return all nodes but some."""
    available = ALL.copy()
    available[list(indices)] = False
    return available


class TestDrawnRounds:
    """Bits become tables."""

    def test_bits_are_read_round_by_round(self, epoch: Epoch) -> None:
        """Decisions stand round by round, try by try, from the highest bit."""
        request = ParticipateRequest(b"", NUM_CLIENTS, 5, 2, 5)
        first, second, *_ = epoch.registered
        replies = {
            first: ParticipateReply(bytes([0b10110_011, 0b01_111111]), bytes([0b01_111111])),
            second: ParticipateReply(bytes([0b00000_000, 0b00_000000]), bytes([0b10_000000])),
        }
        drawn = drawn_rounds(epoch, request, replies)
        assert list(drawn) == [5, 6]
        assert drawn[5].decisions.shape == (NUM_CLIENTS, 5)
        assert drawn[5].decisions[0].tolist() == [True, False, True, True, False]
        assert drawn[6].decisions[0].tolist() == [False, True, True, False, True]
        assert not drawn[5].decisions[1:].any()
        assert not drawn[6].decisions[1:].any()
        assert np.flatnonzero(drawn[5].available).tolist() == [0]
        assert np.flatnonzero(drawn[6].available).tolist() == [1]
        assert (drawn[5].agent, drawn[5].chosen) == (None, None)


class TestHasChoice:
    """There must be several selections, and more than K nodes beside the agent."""

    @pytest.mark.parametrize(("num_available", "choice"), [(4, False), (5, True), (9, True)])
    def test_the_agent_is_not_counted(
        self, epoch: Epoch, num_available: int, *, choice: bool
    ) -> None:
        """With K = 3 and an agent, a fifth node makes the difference."""
        available = without(*range(num_available, NUM_CLIENTS))
        assert has_choice(epoch, draw(4, available=available)) == choice

    def test_one_try_is_no_choice(self, epoch: Epoch) -> None:
        """Nobody is asked which of one is best."""
        assert not has_choice(epoch, draw(1))
        assert has_choice(epoch, draw(2))


class TestChooseAgents:
    """A node a round in a random order; its own data is in none of its tries."""

    def test_agents_take_turns(self, epoch: Epoch) -> None:
        """In nine rounds each of nine nodes is the agent once, in the order of the seed."""
        rounds = {r: draw(4, seed=r) for r in range(3, 12)}
        prepared = choose_agents(epoch, rounds, seed=7)
        order = generator(7, "agents", 3).permutation(NUM_CLIENTS)
        assert [prepared[r].agent for r in rounds] == order.tolist()
        for server_round, drawn in prepared.items():
            eligible = without(int(order[server_round - 3]))
            expected = tries_of_round(drawn.decisions, eligible, 3, 7, server_round)
            assert [t.tolist() for t in drawn.selections] == [t.tolist() for t in expected]
            assert drawn.chosen is None

    def test_a_round_does_not_depend_on_the_others(self, epoch: Epoch) -> None:
        """Asked alone or together, a round gets the same agent and tries."""
        rounds = {r: draw(4, seed=r) for r in range(3, 12)}
        together = choose_agents(epoch, rounds, seed=7)
        for server_round, drawn in rounds.items():
            alone = choose_agents(epoch, {server_round: drawn}, seed=7)[server_round]
            assert alone.agent == together[server_round].agent
            assert str(alone.selections) == str(together[server_round].selections)

    def test_who_is_away_or_failed_or_spent_is_passed_over(self, epoch: Epoch) -> None:
        """The next in the order takes the place."""
        order = generator(7, "agents", 3).permutation(NUM_CLIENTS).tolist()
        spent = replace(epoch, num_sums={epoch.registered[order[2]]: 1})
        drawn = {3: draw(4, available=without(order[0]))}
        chosen = choose_agents(spent, drawn, 7, failed=frozenset({order[1]}))
        assert chosen[3].agent == order[3]
        barely = replace(epoch, num_sums={epoch.registered[order[2]]: 1})
        chosen = choose_agents(barely, {3: draw(3)}, 7, failed=frozenset(order[:2]))
        assert chosen[3].agent == order[2]

    def test_sums_of_one_request_add_up(self, epoch: Epoch) -> None:
        """An agent with four sums to spend gets no two rounds of three tries."""
        only = 4
        rounds = {r: draw(3, available=ALL) for r in (3, 4)}
        failed = frozenset(range(NUM_CLIENTS)) - {only}
        prepared = choose_agents(epoch, rounds, 7, failed)
        assert (prepared[3].agent, prepared[4].agent) == (only, None)
        assert (prepared[3].chosen, prepared[4].chosen) == (None, (0,))

    def test_without_an_agent_nobody_is_excluded(self, epoch: Epoch) -> None:
        """Where all have failed, the first try is taken from all that are available."""
        drawn = draw(4)
        chosen = choose_agents(selecting(epoch, 8), {3: drawn}, 7, frozenset(range(NUM_CLIENTS)))[3]
        expected = tries_of_round(drawn.decisions, ALL, 8, 7, 3)
        assert (chosen.agent, chosen.chosen) == (None, (0,))
        assert str(chosen.selections) == str(tuple(expected))

    @pytest.mark.parametrize(
        ("available", "num_participants", "num_tries", "asked"),
        [
            (ALL, 7, 4, True),
            (ALL, 8, 4, False),
            (ALL, 9, 4, False),
            (without(1, 2), 5, 4, True),
            (without(1, 2), 6, 4, False),
            (without(1, 2), 8, 4, False),
            (ALL, 3, 1, False),
            (ALL, 3, 5, False),
        ],
    )
    def test_where_there_is_nothing_to_choose_nobody_is_asked(
        self,
        epoch: Epoch,
        available: NDArray[np.bool_],
        num_participants: int,
        num_tries: int,
        asked: bool,
    ) -> None:
        """One try, one possible set, or more sums than any agent decrypts."""
        drawn = {3: draw(num_tries, available=available)}
        chosen = choose_agents(selecting(epoch, num_participants), drawn, 7)[3]
        assert (chosen.agent is not None) == asked
        assert chosen.chosen == (None if asked else (0,))
        assert all(len(t) == min(num_participants, available.sum()) for t in chosen.selections)

    @settings(max_examples=200)
    @given(data=st.data())
    def test_agents_keep_out_of_their_own_sums(self, epoch: Epoch, data: st.DataObject) -> None:
        """Whoever is there, failed or spent: no agent is in its tries, or beyond its budget."""
        num_tries = data.draw(st.integers(1, 5))
        num_participants = data.draw(st.integers(3, 9))
        flags = st.lists(st.booleans(), min_size=NUM_CLIENTS, max_size=NUM_CLIENTS)
        rounds = {
            server_round: draw(num_tries, server_round, np.array(data.draw(flags)))
            for server_round in data.draw(st.sets(st.integers(1, 40), min_size=1, max_size=6))
        }
        spent = data.draw(st.lists(st.integers(0, 5), min_size=9, max_size=9))
        failed = frozenset(np.flatnonzero(data.draw(flags)).tolist())
        changed = selecting(epoch, num_participants)
        changed = replace(changed, num_sums=dict(zip(epoch.registered, spent, strict=True)))
        prepared = choose_agents(changed, rounds, 7, failed)
        given_sums = np.array(spent)
        for server_round, drawn in prepared.items():
            free = rounds[server_round].available
            for members in drawn.selections:
                assert len(members) == min(num_participants, free.sum())
                assert free[members].all()
            if drawn.agent is None:
                assert drawn.chosen == (0,)
            else:
                assert drawn.agent not in failed
                assert free[drawn.agent]
                assert all(drawn.agent not in members for members in drawn.selections)
                given_sums[drawn.agent] += num_tries
                assert given_sums[drawn.agent] <= 4


@pytest.fixture(scope="module")
def large(epoch: Epoch) -> Epoch:
    """Return an epoch of thirty clients, of which eight are wanted in two groups."""
    aliases = {1000 + row: str(row) for row in range(30)}
    changed = replace(epoch, aliases=aliases)
    return selecting(changed, 8, group_size=3, volunteer_tries=5)


class TestGroups:
    """Where groups are determined, an agent gets small disjoint ones."""

    @given(
        rate=st.floats(0, 1),
        away=st.sets(st.integers(0, 29)),
        failed=st.frozensets(st.integers(0, 29)),
        spent_and_seed=st.tuples(st.integers(0, 14), st.integers(0, 2**32)),
    )
    def test_groups_are_disjoint_and_lack_their_agent(
        self,
        large: Epoch,
        rate: float,
        away: set[int],
        failed: frozenset[int],
        spent_and_seed: tuple[int, int],
    ) -> None:
        """Whoever draws, is away or failed: the first groups make up K, and so does any answer."""
        spent, seed = spent_and_seed
        decisions = generator(seed, "draw").random((30, 1)) < rate
        available = np.array([row not in away for row in range(30)])
        epoch = replace(large, num_sums=dict.fromkeys(large.registered, spent))
        rounds = {3: DrawnRound(decisions, available), 4: DrawnRound(decisions, available)}
        for drawn in choose_agents(epoch, rounds, seed, failed).values():
            members = np.concatenate(drawn.selections)
            assert len(set(members.tolist())) == members.size
            assert available[members].all()
            if drawn.agent is None:
                assert (drawn.chosen, drawn.fallback, len(drawn.selections)) == ((0,), (0,), 1)
                assert members.size == min(8, 30 - len(away))
                none_left = not any(available[row] for row in set(range(30)) - failed)
                assert none_left or spent + 5 > 14 or available.sum() <= 9
                continue
            assert available[drawn.agent]
            assert drawn.agent not in failed
            assert drawn.agent not in members
            assert (drawn.chosen, drawn.fallback) == (None, (0, 1))
            assert all(len(group) == 4 for group in drawn.selections)
            assert 2 <= len(drawn.selections) <= epoch.groups_per_round == 5

    def test_other_rounds_have_other_groups(self, large: Epoch) -> None:
        """The round is part of the randomness."""
        everyone = np.ones(30, dtype=bool)
        rounds = {r: DrawnRound(everyone[:, None], everyone) for r in range(3, 9)}
        prepared = choose_agents(large, rounds, 7)
        assert len({str(drawn.selections) for drawn in prepared.values()}) == 6

    @pytest.mark.parametrize(
        ("chosen", "fits"),
        [
            ((0, 2), True),
            ((2, 0), True),
            ((1, 2), True),
            ((0, 1), False),
            ((2, 3), False),
            ((0, 0), False),
            ((2, 2), False),
            ((0, 4), False),
            ((0, -1), False),
            ((0,), False),
            ((0, 1, 2), False),
            ((), False),
        ],
    )
    def test_what_is_a_selection(self, chosen: tuple[int, ...], fits: bool) -> None:
        """Distinct groups that are there and make up as many clients as the first ones."""
        sizes = (3, 3, 4, 4)
        ends = np.cumsum(sizes)[:-1]
        groups = tuple(np.split(np.arange(14), ends))
        drawn = replace(draw(1), selections=groups, fallback=(0, 2))
        assert is_selection(drawn, chosen) == fits

    def test_no_group_counts_twice(self) -> None:
        """Even where all groups are of one size."""
        groups = tuple(np.split(np.arange(12), 4))
        drawn = replace(draw(1), selections=groups, fallback=(0, 1))
        assert is_selection(drawn, (3, 2))
        assert not is_selection(drawn, (2, 2))

    def test_the_chosen_groups_train(self, epoch: Epoch) -> None:
        """Their union, in the order of the aliases, with the vanished replaced by others."""
        groups = (np.array([0, 8]), np.array([2, 3]), np.array([1, 7]))
        drawn = replace(draw(1, available=without(6)), selections=groups, chosen=(2, 0))
        chosen = participants(epoch, drawn, epoch.registered, 7, 3)
        assert [epoch.aliases[node_id] for node_id in chosen] == ["0", "1", "7", "8"]
        present = [i for row, i in enumerate(epoch.registered) if row not in {0, 7}]
        replaced = set()
        for seed in range(40):
            chosen = participants(epoch, drawn, present, seed, 3)
            rows = {int(epoch.aliases[node_id]) for node_id in chosen}
            assert len(rows) == 4
            assert {1, 8} <= rows <= {1, 2, 3, 4, 5, 8}
            replaced |= rows
        assert replaced == {1, 2, 3, 4, 5, 8}


class TestDetermineRequests:
    """Sums of ciphertexts, try by try and round by round."""

    def test_sums_decrypt_to_the_sums_of_the_tries(
        self, insider: tuple[Epoch, SessionState]
    ) -> None:
        """Each agent gets the sums of its own rounds, in order."""
        epoch, state = insider
        rounds = choose_agents(epoch, {r: draw(2, seed=r) for r in (5, 4, 3)}, seed=7)
        shared = rounds[3].agent
        rounds[5] = replace(rounds[5], agent=shared)
        requests, asked = determine_requests(epoch, rounds)
        assert shared is not None
        agent = epoch.registered[shared]
        assert asked[agent] == [3, 5]
        assert sorted(r for server_rounds in asked.values() for r in server_rounds) == [3, 4, 5]
        for node_id, request in requests.items():
            members = [t for r in asked[node_id] for t in rounds[r].selections]
            sums = [
                decrypted(state, "distribution", request.sums[start : start + 128])
                for start in range(0, len(request.sums), 128)
            ]
            np.testing.assert_array_equal(sums, [FIXED[t].sum(axis=0) for t in members])
            assert request.num_sums == (2,) * len(asked[node_id])
            assert request.num_clients == (3,) * len(members)

    def test_a_round_without_an_agent_is_not_asked_about(self, epoch: Epoch) -> None:
        """Nothing is summed where nobody decrypts."""
        rounds = choose_agents(epoch, {3: draw(1)}, seed=7)
        assert determine_requests(epoch, rounds) == ({}, {})


class TestParticipants:
    """The chosen try, with the vanished replaced."""

    def drawn(self, available: NDArray[np.bool_] = ALL) -> DrawnRound:
        """Return a round whose second try, of nodes 1, 4 and 7, was chosen."""
        tries = (np.array([0, 2, 3]), np.array([1, 4, 7]))
        return replace(draw(2, available=available), selections=tries, chosen=(1,))

    def test_all_are_there(self, epoch: Epoch) -> None:
        """Then the chosen try trains, in the order of the aliases."""
        chosen = participants(epoch, self.drawn(), epoch.registered, 7, 3)
        assert [epoch.aliases[node_id] for node_id in chosen] == ["1", "4", "7"]

    def test_the_vanished_are_replaced_by_others(self, epoch: Epoch) -> None:
        """Replacements are registered, willing, there, and drawn uniformly by the seed."""
        present = [i for row, i in enumerate(epoch.registered) if row not in {4, 7, 8}]
        drawn = self.drawn(without(0))
        seen = set()
        for seed in range(60):
            chosen = participants(epoch, drawn, present, seed, 3)
            assert chosen == participants(epoch, drawn, reversed(present), seed, 3)
            rows = tuple(int(epoch.aliases[node_id]) for node_id in chosen)
            assert rows == tuple(sorted(set(rows)))
            assert 1 in rows
            assert len(rows) == 3
            assert set(rows) <= {1, 2, 3, 5, 6}
            seen.add(rows)
        assert len(seen) == 6

    def test_replacements_of_rounds_are_independent(self, epoch: Epoch) -> None:
        """The round is part of the randomness."""
        present = [i for row, i in enumerate(epoch.registered) if row != 1]
        assert len({participants(epoch, self.drawn(), present, 7, r) for r in range(30)}) > 3

    def test_too_few_are_left(self, epoch: Epoch) -> None:
        """Then all of them train."""
        present = [i for row, i in enumerate(epoch.registered) if row in {1, 2}]
        chosen = participants(epoch, self.drawn(), present, 7, 3)
        assert [epoch.aliases[node_id] for node_id in chosen] == ["1", "2"]
        assert participants(epoch, self.drawn(), [], 7, 3) == ()

    def test_neighbouring_large_ids_are_told_apart(self, epoch: Epoch) -> None:
        """Ids have 64 unsigned bits, of which a floating-point number keeps 53."""
        ids = [5, *(2**63 + 2 * number for number in range(8))]
        aliases = {node_id: str(row) for row, node_id in enumerate(ids)}
        changed = replace(epoch, aliases=aliases)
        present = [5, *(2**63 + 2 * number + 1 for number in range(8)), ids[4]]
        assert participants(changed, self.drawn(), present, 7, 3) == (5, ids[4])
