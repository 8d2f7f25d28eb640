"""Writers become virtual clients of equal size that share nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.data import label_counts, split_writers
from dubhe_flwr.errors import SettingsError


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


def test_the_paper_s_numbers_fit() -> None:
    """3400 writers become 8962 clients of 32 samples."""
    writers = np.repeat(np.arange(3400), 85)
    samples = split_writers(writers, 8962, 32, np.random.default_rng(0))
    assert samples.shape == (8962, 32)


@pytest.mark.parametrize(("num_clients", "num_samples"), [(1, 4), (2, 0)])
def test_too_few_are_refused(num_clients: int, num_samples: int) -> None:
    """A writer without a client would be lost."""
    with pytest.raises(SettingsError, match="at least one client for each"):
        split_writers([0, 1], num_clients, num_samples, np.random.default_rng(0))


def test_labels_are_counted_by_client() -> None:
    """Classes without a sample count zero."""
    assert label_counts([[3, 3, 0], [1, 1, 1]], 5).tolist() == [[1, 0, 0, 2, 0], [0, 3, 0, 0, 0]]
