"""Dubhe under encryption chooses exactly what the same computation on plain numbers chooses."""

from dataclasses import dataclass, replace
from functools import partial
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import Exchange, decrypted, dubhe, epoch_of, session_state

from dubhe_flwr.core import (
    MAX_REGISTRY_LENGTH,
    Codebook,
    best_try,
    fixed_point_distribution,
    generator,
    overall_registry,
    participation_probability,
    seeded_draws,
    tries_of_round,
)
from dubhe_flwr.protocol import SessionState, Stage

NUM_ROUNDS = 3


@dataclass(frozen=True)
class Case:
    """One selection: the operator's settings, and the clients' labels in each epoch."""

    reference_set: tuple[int, ...]
    thresholds: dict[int, float]
    num_clients: int
    num_participants: int
    tries: int
    seed: int
    registration_interval: int = 2
    rounds_per_draw: int = 1
    style: int = 0

    def label_counts(self, epoch: int) -> NDArray[np.int64]:
        """Return the clients' labels, which change from epoch to epoch."""
        rng = generator(self.seed, "labels", epoch)
        num_classes = self.reference_set[-1]
        shape = self.num_clients, num_classes
        if self.style == 0:  # few samples: many ties, and shares that meet thresholds exactly
            counts = rng.integers(0, 3, shape)
        elif self.style == 1:  # many samples, few classes
            shares = rng.dirichlet(np.full(num_classes, 0.2), size=self.num_clients)
            counts = rng.multinomial(rng.integers(1, 2**40), shares)
        else:  # one class each
            counts = np.eye(num_classes, dtype=np.int64)[rng.integers(num_classes, size=shape[0])]
        counts[counts.sum(axis=1) == 0, 0] = 1
        return np.asarray(counts, dtype=np.int64)


@dataclass(frozen=True)
class PlainRound:
    """What a round is in plain numbers."""

    overall: NDArray[np.int64]
    sums: NDArray[np.int64] | None
    best: int
    chosen: list[int]


def plain_round(case: Case, server_round: int) -> PlainRound:
    """Choose as the paper says, by the functions of the core, with nothing encrypted."""
    epoch, turn = divmod(server_round - 1, case.registration_interval)
    first_round = server_round - turn
    num_clients, num_participants = case.num_clients, case.num_participants
    counts = case.label_counts(epoch)
    overall, slots = overall_registry(counts, Codebook(case.reference_set), case.thresholds)
    probability = participation_probability(overall, num_participants)[slots]
    # An agent decrypts fewer sums than half the clients.
    tries = max(1, min(case.tries, (num_clients - 1) // 2))
    draws = [seeded_draws(case.seed, str(k), server_round, tries) for k in range(num_clients)]
    decisions = np.array(draws) < probability[:, np.newaxis]
    eligible = np.ones(num_clients, dtype=bool)
    something_to_choose = tries > 1 and num_clients - 1 > num_participants
    if something_to_choose:
        order = generator(case.seed, "agents", first_round).permutation(num_clients)
        eligible[order[turn]] = False
    chosen = tries_of_round(decisions, eligible, num_participants, case.seed, server_round)
    if not something_to_choose:
        return PlainRound(overall, None, 0, chosen[0].tolist())
    fixed = np.array([fixed_point_distribution(row) for row in counts])
    sums = np.array([fixed[members].sum(axis=0) for members in chosen])
    best = best_try(sums)
    return PlainRound(overall, sums, best, chosen[best].tolist())


def check(case: Case) -> None:
    """Play rounds under encryption beside the same ones in plain numbers."""
    federation = dubhe(
        case.label_counts(0),
        reference_set=case.reference_set,
        thresholds=case.thresholds,
        num_participants=case.num_participants,
        tries=case.tries,
        registration_interval=case.registration_interval,
        rounds_per_draw=case.rounds_per_draw,
        max_clients=case.num_clients,
        seed=case.seed,
    )
    for server_round in range(1, NUM_ROUNDS + 1):
        labels = case.label_counts((server_round - 1) // case.registration_interval)
        for node_id, row in zip(federation.ids, labels, strict=True):
            federation.policies[node_id] = replace(
                federation.policies[node_id], label_counts=partial(np.array, row)
            )
        federation.exchanges.clear()
        plan = federation.play(server_round)
        plain = plain_round(case, server_round)
        assert list(map(int, plan.aliases)) == plain.chosen
        assert plan.participants == tuple(federation.ids[row] for row in plain.chosen)
        assert plan.chosen == (plain.best,)
        assert plan.notes == ()
        insider = session_state(federation, federation.ids[0])
        encrypted_registry = epoch_of(federation).overall_registry
        overall = decrypted(insider, "registry", encrypted_registry)
        np.testing.assert_array_equal(overall, plain.overall)
        if case.rounds_per_draw == 1:
            check_sums(federation.exchanges, insider, plain)


def check_sums(exchanges: list[Exchange], insider: SessionState, plain: PlainRound) -> None:
    """Compare what the agent was asked with the plain sums."""
    asked = [exchange for exchange in exchanges if exchange.stage == Stage.DETERMINE]
    if plain.sums is None:
        assert not asked
        return
    (exchange,) = asked
    joined = exchange.request["sums"]
    assert isinstance(joined, bytes)
    size = len(joined) // len(plain.sums)
    sums = [
        decrypted(insider, "distribution", joined[start : start + size])
        for start in range(0, len(joined), size)
    ]
    np.testing.assert_array_equal([own[:-1] for own in sums], plain.sums)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw any selection with a registry that is not too long."""
    num_classes = draw(st.integers(2, 62))
    sizes, length = {num_classes}, 1
    for size in draw(st.lists(st.integers(1, num_classes - 1), unique=True, max_size=5)):
        if length + comb(num_classes, size) <= MAX_REGISTRY_LENGTH:
            sizes.add(size)
            length += comb(num_classes, size)
    reference_set = tuple(sorted(sizes))
    num_clients = draw(st.integers(3, 16))
    return Case(
        reference_set=reference_set,
        thresholds={size: draw(st.floats(0.0, 1.0)) for size in reference_set[:-1]},
        num_clients=num_clients,
        num_participants=draw(st.integers(3, num_clients)),
        tries=draw(st.integers(1, 8)),
        seed=draw(st.integers(0, 2**63 - 1)),
        registration_interval=draw(st.integers(1, NUM_ROUNDS)),
        rounds_per_draw=draw(st.integers(1, NUM_ROUNDS)),
        style=draw(st.integers(0, 2)),
    )


@settings(max_examples=60)
@given(case=cases())
def test_encryption_changes_nothing(case: Case) -> None:
    """Registry, tries, best try and participants agree with plain numbers, bit for bit."""
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 2, 10), {1: 0.7, 2: 0.1}, 2000, 50, 10, 1, registration_interval=3, style=1),
        Case((1, 62), {1: 0.5}, 400, 20, 5, seed=2, style=1),
        Case((1, 2, 3, 28), {1: 0.5, 2: 0.25, 3: 0.125}, 60, 20, 5, seed=3, style=0),
        Case((2, 62), {2: 0.5}, 40, 39, 8, seed=4, style=2),
        Case((2,), {}, 100, 10, 100, seed=5, style=0),
    ],
    ids=lambda case: f"N={case.num_clients}",
)
def test_encryption_changes_nothing_in_larger_federations(case: Case) -> None:
    """The same holds for thousands of clients and thousands of categories."""
    check(case)
