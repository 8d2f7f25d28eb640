"""Tests of FLIPS: clusters of clients with similar labels, and turns among the clusters."""

from collections import Counter

import numpy as np
import pytest
from protocol.federation import Federation, node_policies

from dubhe_flwr.core.randomness import generator
from dubhe_lab.baselines.flips import FlipsSelector, label_clusters, take_turns
from dubhe_lab.baselines.roll_call import Past


def groups(sizes: list[int], num_classes: int = 4) -> tuple[np.ndarray, list[int]]:
    """Return label counts of clients with one dominant class each, and that class."""
    group_of = [group for group, size in enumerate(sizes) for _ in range(size)]
    rng = generator(0, "groups")
    return 90 * np.eye(num_classes)[group_of] + rng.integers(0, 3, (sum(sizes), 4)), group_of


def as_partition(clusters: np.ndarray) -> set[frozenset[int]]:
    """Return the sets of clients that share a cluster."""
    return {frozenset(np.flatnonzero(clusters == c).tolist()) for c in set(clusters.tolist())}


def test_a_worked_example_of_the_index() -> None:
    """Two clusters have the Davies-Bouldin index 1/6, three have 0.268."""
    # All lie on a line between two classes. Two clusters: mean distance 1/15, centres 0.8 apart.
    # Three clusters, the third client alone: the largest ratios are 1/3, 1/3 and 0.137.
    counts = [[10, 0], [9, 1], [8, 2], [2, 8], [1, 9], [0, 10]]
    assert as_partition(label_clusters(counts)) == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_groups_with_similar_labels_are_found(number: int) -> None:
    """Each group of clients becomes one cluster, whatever the clients' sizes."""
    counts, group_of = groups([12, 7, 9, 15][:number])
    counts *= generator(0, "sizes").integers(1, 9, (len(counts), 1))
    assert as_partition(label_clusters(counts)) == as_partition(np.array(group_of))


def test_few_or_identical_clients_are_one_cluster() -> None:
    """Identical clients, or too few clients, form a single cluster."""
    assert label_clusters([[3, 1]]).tolist() == [0]
    assert label_clusters([[3, 1], [1, 3], [0, 4]]).tolist() == [0, 0, 0]
    assert label_clusters([[3, 1], [6, 2], [9, 3]]).tolist() == [0, 0, 0]


def test_a_worked_example_of_turns() -> None:
    """Clusters take turns from `first` on, and each sends its least-picked clients first."""
    clusters = [0, 0, 0, 1, 2, 2]
    times = [5, 3, 4, 9, 1, 0]
    assert take_turns(clusters, times, 5, first=1).tolist() == [3, 5, 1, 4, 2]
    assert take_turns(clusters, times, 6, first=3).tolist() == [1, 3, 5, 2, 4, 0]


def test_empty_clusters_are_skipped() -> None:
    """If no client of cluster 2 is connected, its turn goes to the next cluster, 4."""
    assert take_turns([0, 0, 4], [0, 1, 0], 2, first=2).tolist() == [2, 0]


def test_turns_continue_in_the_next_round() -> None:
    """With three groups of four and K = 5, after twelve rounds every client trained five times."""
    counts, group_of = groups([4, 4, 4])
    nodes = Federation(FlipsSelector(5, counts, seed=7), node_policies(counts))
    of_group: Counter[int] = Counter()
    for server_round in range(1, 13):
        of_group.update(group_of[int(a)] for a in nodes.play(server_round).aliases)
        assert max(of_group.values()) - min(of_group[group] for group in range(3)) <= 1
    assert set(nodes.state.past.times.values()) == {5}


def test_small_clusters_train_more_often() -> None:
    """Every cluster gets the same number of participants, however few clients it has."""
    counts, _ = groups([2, 10])
    nodes = Federation(FlipsSelector(4, counts, seed=7), node_policies(counts))
    for server_round in range(1, 11):
        nodes.play(server_round)
    times = nodes.state.past.times_of([str(row) for row in range(12)]).tolist()
    assert times == [10, 10, *[2] * 10]


def test_ties_are_broken_at_random() -> None:
    """Each of four identical clients is in 1000 of 2000 first rounds, within 6 sigma."""
    selector = FlipsSelector(2, [[3, 1]] * 4, seed=7)
    rng = np.random.default_rng(0)
    drawn = [selector.choose("0123", Past(), rng) for _ in range(2000)]
    assert np.abs(np.bincount(np.concatenate(drawn)) - 1000).max() < 6 * np.sqrt(500)
