"""Under encryption, Dubhe selects exactly the same clients as with plain numbers."""

from functools import partial
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import dubhe, joined, registered
from protocol.nodes import set_policy
from vectors import reference

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.core.registration import MAX_REGISTRY_LENGTH
from dubhe_flwr.protocol.wire.codec import encode

NUM_ROUNDS = 3


def label_counts(style: str, shape: tuple[int, int], *path: int) -> NDArray[np.int64]:
    """Return the clients' labels in an epoch."""
    rng = generator(0, "labels", *path)
    if style == "ties":  # few samples: many ties, and shares that meet thresholds exactly
        counts = rng.integers(0, 3, shape)
    elif style == "skewed":  # many samples, few classes
        shares = rng.dirichlet(np.full(shape[1], 0.2), size=shape[0])
        counts = rng.multinomial(rng.integers(1, 2**40), shares)
    else:  # one class each
        counts = np.eye(shape[1], dtype=np.int64)[rng.integers(shape[1], size=shape[0])]
    counts[counts.sum(axis=1) == 0, 0] = 1
    return np.asarray(counts, dtype=np.int64)


def check(style: str, num_clients: int, seed: int, **given_: Any) -> None:
    """Play rounds under encryption and in the clear, and compare them with plain numbers.

    The labels change from epoch to epoch.
    """
    usual: dict[str, Any] = {"registration_interval": 2, "rounds_per_draw": 1, "seed": seed}
    options = usual | given_ | {"max_registered": num_clients}
    interval, shape = options["registration_interval"], (num_clients, given_["reference_set"][-1])
    labels = label_counts(style, shape, seed, 0)
    federations = [dubhe(labels, simulation=kind, **options) for kind in ("encrypted", "plain")]
    for server_round in range(1, NUM_ROUNDS + 1):
        epoch, turn = divmod(server_round - 1, interval)
        labels = label_counts(style, shape, seed, epoch)
        plans = []
        for nodes in federations:
            for node_id, row in zip(nodes.ids, labels, strict=True):
                set_policy(nodes, node_id, label_counts=partial(np.array, row))
            nodes.exchanges.clear()
            plans.append(nodes.play(server_round))
        announced, rows = encode(joined(nodes, nodes.ids[0]).announced), labels.tolist()
        overall = reference.overall_registry(announced, rows)
        probabilities = reference.all_probabilities(announced, rows, overall)
        rounds = {"seed": seed, "server_round": server_round, "first_round": server_round - turn}
        plain = reference.plain_round(announced, rows, probabilities, given_["tries"], **rounds)
        for nodes, plan in zip(federations, plans, strict=True):
            assert plan.participants == tuple(nodes.ids[row] for row in plain.chosen)
            assert list(map(int, plan.aliases)) == plain.chosen
            assert (plan.chosen, plan.num_tries) == (plain.best, len(plain.tries))
            assert len(set(plan.participants)) == given_["num_participants"]
            assert plan.notes == ()
            found = [registered(nodes, node_id).probability for node_id in nodes.ids]
            assert found == probabilities


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
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
    given_ones = {size: draw(st.floats(0.0, 1.0)) for size in reference_set[:-1]}
    return {
        "style": draw(st.sampled_from(["ties", "skewed", "one class"])),
        "num_clients": num_clients,
        "seed": draw(st.integers(0, 2**63 - 1)),
        "reference_set": reference_set,
        "thresholds": "search" if is_search else given_ones,
        "num_participants": draw(st.integers(3, draw(st.integers(3, num_clients)))),
        "tries": draw(st.integers(1, 8)),
        "registration_interval": draw(st.integers(1, NUM_ROUNDS)),
        "rounds_per_draw": draw(st.integers(1, NUM_ROUNDS)),
        "equal_weights": draw(st.booleans()),
    }


@pytest.mark.parametrize("num_cases", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_encryption_changes_nothing(num_cases: int) -> None:
    """Probabilities, selections, sums, the best and participants agree, bit for bit."""
    settings(max_examples=num_cases)(given(case=cases())(lambda case: check(**case)))()
