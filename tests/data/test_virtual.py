"""Tests of virtual clients of equal size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.data import assign_samples, split_writers
from dubhe_flwr.errors import DataError, SettingsError

seeds = st.integers(0, 2**32 - 1)


@given(
    seed=seeds,
    clients=st.integers(1, 12),
    classes=st.integers(1, 6),
    num_samples=st.integers(1, 20),
)
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


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(0, 30), st.integers(1, 20)
)
def test_every_client_belongs_to_one_writer(
    held: list[int], further: int, num_samples: int
) -> None:
    """All clients are of equal size, every writer has one, and samples repeat evenly."""
    writers = np.random.default_rng(0).permutation(np.repeat(np.arange(len(held)), held))
    samples = split_writers(writers, len(held) + further, num_samples, np.random.default_rng(7))
    assert samples.shape == (len(held) + further, num_samples)
    owners = writers[samples]
    assert np.all(owners == owners[:, :1])
    assert set(owners[:, 0].tolist()) == set(range(len(held)))
    for writer in range(len(held)):
        times = np.bincount(samples[owners[:, 0] == writer].ravel(), minlength=len(writers))
        assert np.ptp(times[writers == writer]) <= 1


def test_more_samples_make_more_clients() -> None:
    """Clients beyond the first are shared out by size."""
    writers = np.repeat([0, 1, 2], [90, 5, 5])
    samples = split_writers(writers, 13, 10, np.random.default_rng(0))
    assert np.bincount(writers[samples[:, 0]]).tolist() == [10, 2, 1]
    papers = split_writers(np.repeat(np.arange(3400), 85), 8962, 32, np.random.default_rng(0))
    assert papers.shape == (8962, 32)


@pytest.mark.parametrize(("num_clients", "num_samples"), [(1, 4), (2, 0)])
def test_too_few_are_refused(num_clients: int, num_samples: int) -> None:
    """A writer without a client would be lost."""
    with pytest.raises(SettingsError, match="at least one client for each"):
        split_writers([0, 1], num_clients, num_samples, np.random.default_rng(0))
