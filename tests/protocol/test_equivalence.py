"""Under encryption, Dubhe selects exactly the same clients as with plain numbers."""

from dataclasses import dataclass, replace
from functools import partial
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import Federation, decrypted, dubhe, joined, registered
from vectors import reference

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.core.registration import MAX_REGISTRY_LENGTH
from dubhe_flwr.protocol import Settings, Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.wire.codec import encode

NUM_ROUNDS = 3


@dataclass(frozen=True)
class Case:
    """One selection: the operator's settings, and the clients' labels in each epoch."""

    reference_set: tuple[int, ...]
    thresholds: Any
    num_clients: int
    num_participants: int
    tries: int
    seed: int
    registration_interval: int = 2
    rounds_per_draw: int = 1
    style: int = 0
    pool: int = 1
    equal_weights: bool = True

    def federation(self, simulation: str) -> Federation[CoordinatorState]:
        """Return nodes and a server."""
        names = {*Settings.__dataclass_fields__, "reference_set", "thresholds", "tries", "pool"}
        chosen: dict[str, Any] = {name: v for name, v in vars(self).items() if name in names}
        return dubhe(
            self.label_counts(0), simulation=simulation, max_registered=self.num_clients, **chosen
        )

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
    """Play rounds under encryption and in the clear, and compare them with plain numbers."""
    federations = [case.federation(simulation) for simulation in ("encrypted", "plain")]
    for server_round in range(1, NUM_ROUNDS + 1):
        epoch, turn = divmod(server_round - 1, case.registration_interval)
        labels = case.label_counts(epoch)
        played = []
        for nodes in federations:
            for node_id, row in zip(nodes.ids, labels, strict=True):
                policy = replace(nodes.policies[node_id], label_counts=partial(np.array, row))
                nodes.policies[node_id] = policy
            nodes.exchanges.clear()
            played.append((nodes, nodes.play(server_round)))
        announced, rows = encode(joined(nodes, nodes.ids[0]).announced), labels.tolist()
        overall = reference.overall_registry(announced, rows)
        probabilities = reference.all_probabilities(announced, rows, overall)
        plain = reference.plain_round(
            announced,
            rows,
            probabilities,
            case.tries,
            seed=case.seed,
            server_round=server_round,
            first_round=server_round - turn,
        )
        for nodes, plan in played:
            assert list(map(int, plan.aliases)) == plain.chosen
            assert plan.participants == tuple(nodes.ids[row] for row in plain.chosen)
            assert len(set(plan.participants)) == case.num_participants
            assert plan.chosen == plain.best
            assert plan.num_tries == len(plain.tries)
            assert plan.notes == ()
            check_nodes(nodes, overall, probabilities)
            if case.rounds_per_draw == 1:
                check_sums(nodes, plain)


def check_nodes(
    nodes: Federation[CoordinatorState], overall: list[int], probabilities: list[float]
) -> None:
    """Compare what the nodes read and found with the plain numbers."""
    first: Any = next((e.request for e in nodes.exchanges if e.request.get("exchange") == 0), None)
    if first is not None:
        insider = joined(nodes, nodes.ids[0])
        assert decrypted(insider, "registration", first["sums"]).tolist() == overall
    readings = [registered(nodes, node_id).reading for node_id in nodes.ids]
    assert [None if r is None else r.probability for r in readings] == probabilities


def check_sums(nodes: Federation[CoordinatorState], plain: reference.Round) -> None:
    """Compare what the agent was asked with the plain sums."""
    asked = [exchange.request for exchange in nodes.exchanges if exchange.stage == Stage.DETERMINE]
    assert len(asked) == bool(plain.sums)
    for request in asked:
        joint: Any = request["sums"]
        size = len(joint) // len(plain.sums)
        vectors = [joint[start : start + size] for start in range(0, len(joint), size)]
        insider = joined(nodes, nodes.ids[0])
        found = [decrypted(insider, "distribution", vector).tolist() for vector in vectors]
        assert found == plain.sums


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw any selection with a registry that is not too long."""
    is_search = draw(st.booleans())
    num_classes = draw(st.integers(2, 20 if is_search else 62))
    sizes, length = {num_classes}, 1
    longest = 300 if is_search else MAX_REGISTRY_LENGTH
    for size in draw(st.lists(st.integers(1, num_classes - 1), unique=True, max_size=5)):
        if length + comb(num_classes, size) <= longest and len(sizes) <= (2 if is_search else 5):
            sizes.add(size)
            length += comb(num_classes, size)
    reference_set = tuple(sorted(sizes))
    num_clients = draw(st.integers(3, 24))
    num_participants = draw(st.integers(3, draw(st.integers(3, num_clients))))
    given_ones = {size: draw(st.floats(0.0, 1.0)) for size in reference_set[:-1]}
    return Case(
        reference_set=reference_set,
        thresholds="search" if is_search else given_ones,
        num_clients=num_clients,
        num_participants=num_participants,
        tries=draw(st.integers(1, 8)),
        seed=draw(st.integers(0, 2**63 - 1)),
        registration_interval=draw(st.integers(1, NUM_ROUNDS)),
        rounds_per_draw=draw(st.integers(1, NUM_ROUNDS)),
        style=draw(st.integers(0, 2)),
        pool=draw(st.integers(1, 4)),
        equal_weights=draw(st.booleans()),
    )


@pytest.mark.parametrize("num_cases", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_encryption_changes_nothing(num_cases: int) -> None:
    """Registry, probabilities, selections, the best and participants agree, bit for bit."""
    settings(max_examples=num_cases)(given(case=cases())(check))()


PAPER: Any = {"reference_set": (1, 2, 10), "thresholds": {1: 0.7, 2: 0.1}}
FORTY = Case((1, 2, 5), {1: 0.6, 2: 0.3}, 40, 13, 6, seed=9, style=1)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Case(**PAPER, num_clients=300, num_participants=30, tries=10, seed=1, style=1),
            marks=pytest.mark.slow,
            id="N=300",
        ),
        pytest.param(
            Case((1, 2, 10), "search", 45, 10, 4, seed=7, style=1),
            marks=pytest.mark.slow,
            id="N=45",
        ),
        Case((1, 2, 3, 28), {1: 0.5, 2: 0.25, 3: 0.125}, 40, 14, 5, seed=3, style=0),
        Case((2, 62), {2: 0.5}, 40, 39, 8, seed=4, style=2),
        Case((2,), {}, 60, 10, 60, seed=5, style=0),
        Case((2,), {}, 12, 5, 2, 0, 1, pool=2, equal_weights=False),
        Case((2,), {}, 5, 3, 2, seed=0, style=0),  # a sum over all but two is refused
        replace(FORTY, registration_interval=3, rounds_per_draw=3, equal_weights=False),
        replace(FORTY, registration_interval=3, pool=3, thresholds="search"),
        replace(FORTY, rounds_per_draw=3, pool=3, equal_weights=False),
    ],
    ids=lambda case: f"N={case.num_clients}",
)
def test_encryption_changes_nothing_in_larger_federations(case: Case) -> None:
    """The same holds for dozens of clients and thousands of categories."""
    check(case)
