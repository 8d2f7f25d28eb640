"""Dubhe under encryption chooses exactly what the same computation on plain numbers chooses."""

from dataclasses import dataclass, replace
from functools import partial
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import Exchange, decrypted, dubhe, epoch_of, session_state
from protocol.plain import PlainRound, plain_round

from dubhe_flwr.core import MAX_REGISTRY_LENGTH, generator
from dubhe_flwr.protocol import Coordinator, SessionState, Settings, Stage

NUM_ROUNDS = 3
MOST_MOMENTS = 1000
"""Slots of the moments of a client, which are many ciphertexts under a small key."""


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
    participation: Any = "paper"
    determination: Any = "tries"
    group_size: int = 3
    coverage: float = 1.0
    floor: float = 0.1
    local_skew: float = 0.0

    def settings(self) -> dict[str, Any]:
        """Return what an operator would set."""
        names = Settings.__dataclass_fields__
        return {name: value for name, value in vars(self).items() if name in names}

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


def check(case: Case) -> None:
    """Play rounds under encryption beside the same ones in plain numbers."""
    federation = dubhe(case.label_counts(0), max_clients=case.num_clients, **case.settings())
    assert isinstance(federation.selector, Coordinator)
    for server_round in range(1, NUM_ROUNDS + 1):
        epoch, turn = divmod(server_round - 1, case.registration_interval)
        labels = case.label_counts(epoch)
        for node_id, row in zip(federation.ids, labels, strict=True):
            federation.policies[node_id] = replace(
                federation.policies[node_id], label_counts=partial(np.array, row)
            )
        federation.exchanges.clear()
        plan = federation.play(server_round)
        plain = plain_round(federation.selector.settings, labels, server_round, server_round - turn)
        assert list(map(int, plan.aliases)) == plain.chosen
        assert plan.participants == tuple(federation.ids[row] for row in plain.chosen)
        assert len(set(plan.participants)) == case.num_participants
        assert (plan.chosen, plan.num_selections) == (plain.best, len(plain.selections))
        assert plan.notes == ()
        insider = session_state(federation, federation.ids[0])
        encrypted_registry = epoch_of(federation).overall_registry
        overall = decrypted(insider, "registry", encrypted_registry)
        np.testing.assert_array_equal(overall, plain.overall)
        probability = [session_state(federation, i).probability for i in federation.ids]
        np.testing.assert_array_equal(probability, plain.probability)
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
    np.testing.assert_array_equal(sums, plain.sums)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw any selection with a registry that is not too long."""
    participation = draw(st.sampled_from(["paper", "calibrated"]))
    calibrated = participation == "calibrated"
    num_classes = draw(st.integers(2, 20 if calibrated else 62))
    longest = MOST_MOMENTS // (num_classes + 1) if calibrated else MAX_REGISTRY_LENGTH
    sizes, length = {num_classes}, 1
    for size in draw(st.lists(st.integers(1, num_classes - 1), unique=True, max_size=5)):
        if length + comb(num_classes, size) <= longest:
            sizes.add(size)
            length += comb(num_classes, size)
    reference_set = tuple(sorted(sizes))
    num_clients = draw(st.integers(3, 24))
    num_participants = draw(st.integers(3, draw(st.integers(3, num_clients))))
    return Case(
        reference_set=reference_set,
        thresholds={size: draw(st.floats(0.0, 1.0)) for size in reference_set[:-1]},
        num_clients=num_clients,
        num_participants=num_participants,
        tries=draw(st.integers(1, 8)),
        seed=draw(st.integers(0, 2**63 - 1)),
        registration_interval=draw(st.integers(1, NUM_ROUNDS)),
        rounds_per_draw=draw(st.integers(1, NUM_ROUNDS)),
        style=draw(st.integers(0, 2)),
        participation=participation,
        determination=draw(st.sampled_from(["tries", "grouped", "grouped", "one-off"])),
        group_size=draw(st.integers(3, num_participants)),
        coverage=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0, 1e6])),
        floor=draw(st.sampled_from([0.0, 0.1, 0.9, 1.0])),
        local_skew=draw(st.sampled_from([0.0, 0.05, 1000.0])),
    )


@settings(max_examples=60)
@given(case=cases())
def test_encryption_changes_nothing(case: Case) -> None:
    """Registry, probabilities, selections, the best and participants agree, bit for bit."""
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 2, 10), {1: 0.7, 2: 0.1}, 2000, 50, 10, 1, registration_interval=3, style=1),
        Case((1, 62), {1: 0.5}, 400, 20, 5, seed=2, style=1),
        Case((1, 2, 3, 28), {1: 0.5, 2: 0.25, 3: 0.125}, 60, 20, 5, seed=3, style=0),
        Case((2, 62), {2: 0.5}, 40, 39, 8, seed=4, style=2),
        Case((2,), {}, 100, 10, 100, seed=5, style=0),
        Case((1, 2, 10), {1: 0.7, 2: 0.1}, 300, 50, 10, seed=6, style=1, determination="grouped"),
    ],
    ids=lambda case: f"N={case.num_clients}",
)
def test_encryption_changes_nothing_in_larger_federations(case: Case) -> None:
    """The same holds for thousands of clients and thousands of categories."""
    check(case)


@pytest.mark.parametrize("rounds_per_draw", [1, 3])
@pytest.mark.parametrize("participation", ["paper", "calibrated"])
@pytest.mark.parametrize("determination", ["tries", "grouped"])
def test_in_all_combinations(rounds_per_draw: int, participation: str, determination: str) -> None:
    """A hundred clients with a choice of many groups: the same sets, however they are found."""
    case = Case((1, 2, 5), {1: 0.6, 2: 0.3}, 100, 13, 6, seed=9, style=1)
    check(
        replace(
            case,
            registration_interval=3,
            rounds_per_draw=rounds_per_draw,
            participation=participation,
            determination=determination,
            local_skew=0.1,
        )
    )
