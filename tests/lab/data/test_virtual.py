"""Tests of virtual clients of equal size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import DataError, SettingsError
from dubhe_lab.data import assign_samples

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 12), st.integers(1, 6), st.integers(1, 20))
def test_every_client_gets_its_counts(
    seed: int, clients: int, classes: int, num_samples: int
) -> None:
    """Each client gets exactly its label counts, and each sample is used as often as its peers."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.concatenate([np.arange(classes), rng.integers(0, classes, 30)]))
    counts = rng.multinomial(num_samples, np.full(classes, 1 / classes), size=clients)
    dealt = assign_samples(labels, counts, rng)
    assert dealt.shape == (clients, num_samples)
    for own, wanted in zip(dealt, counts, strict=True):
        assert np.bincount(labels[own], minlength=classes).tolist() == wanted.tolist()
    uses = np.bincount(dealt.ravel(), minlength=labels.size)
    assert all(np.ptp(uses[labels == label]) <= 1 for label in range(classes))


def test_deals_at_random() -> None:
    """The same seed deals the same samples; another seed deals others, in another order."""
    labels = np.repeat(np.arange(2), 100)
    counts = np.full((4, 2), 10)
    first, second, other = (
        assign_samples(labels, counts, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert set(first[0]) != set(other[0])
    assert len({tuple(row) for row in labels[first]}) > 1


def test_what_cannot_be_dealt_is_refused() -> None:
    """A class that the data set lacks, unless nobody wants it, and clients of other sizes."""
    assert assign_samples([0, 0], [[2, 0]], np.random.default_rng(7)).shape == (1, 2)
    with pytest.raises(DataError, match="no sample of class 1"):
        assign_samples([0, 0], [[1, 1]], np.random.default_rng(7))
    with pytest.raises(SettingsError, match="different sums"):
        assign_samples([0, 1], [[1, 1], [1, 0]], np.random.default_rng(7))
