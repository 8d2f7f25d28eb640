"""Tests of the label counts of skewed clients, and of their rounding to whole samples."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import global_distribution, label_distribution
from dubhe_flwr.errors import SettingsError
from dubhe_lab.data import (
    EMD_TOLERANCE,
    PartitionKind,
    client_distributions,
    half_normal_proportions,
)
from dubhe_lab.data.measures import average_emd
from dubhe_lab.data.partition import controlled_rounding, largest_remainder

kinds = pytest.mark.parametrize("kind", get_args(PartitionKind))


def realised_emd(counts: NDArray[np.int64]) -> float:
    """Return EMD_avg of whole samples."""
    return average_emd(label_distribution(counts), global_distribution(counts))


@kinds
@pytest.mark.parametrize(
    ("rho", "emd", "num_classes", "size"),
    [
        (1, 0.2, 10, (1000, 128)),
        (10, 1.5, 10, (1000, 128)),
        (13.64, 0.5, 52, (300, 128)),
        (5, 0.2, 10, (100, 32)),
        (5, 1.5, 10, (100, 32)),
    ],
)
def test_realises_wanted_skew(
    kind: PartitionKind, rho: float, emd: float, num_classes: int, size: tuple[int, int]
) -> None:
    """EMD_avg and proportions of the whole samples are the wanted ones, also of few clients."""
    num_clients, num_samples = size
    wanted, rng = half_normal_proportions(num_classes, rho), np.random.default_rng(7)
    counts = client_distributions(num_clients, wanted, emd, rng, kind=kind, num_samples=num_samples)
    assert counts.shape == (num_clients, num_classes)
    assert np.all(counts.sum(axis=1) == num_samples)
    assert realised_emd(counts) == pytest.approx(emd, abs=EMD_TOLERANCE)
    assert np.abs(counts.sum(axis=0) - counts.sum() * wanted).max() < 1


@kinds
def test_zero_emd_makes_all_clients_alike(kind: PartitionKind) -> None:
    """With EMD_avg 0 all clients hold the same counts."""
    wanted = half_normal_proportions(10, 10)
    counts = client_distributions(50, wanted, 0.0, np.random.default_rng(7), kind=kind)
    assert np.all(counts == counts[0])
    assert counts[0].sum() == 128


@kinds
def test_absent_class_stays_absent(kind: PartitionKind) -> None:
    """A class of share 0 gets no sample, and the others keep theirs; a seed repeats."""
    first, second, other = (
        client_distributions(
            200, [0.5, 0.0, 0.3, 0.2], 0.7, np.random.default_rng(seed), kind=kind, num_samples=50
        )
        for seed in (1, 1, 2)
    )
    assert first.sum(axis=0).tolist() == other.sum(axis=0).tolist() == [5000, 0, 3000, 2000]
    assert realised_emd(first) == pytest.approx(0.7, abs=EMD_TOLERANCE)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_dirichlet_shares_vary_as_they_should() -> None:
    """Each share has mean p and variance p (1 - p) / (1 + concentration), one value for all."""
    wanted = np.array([0.5, 0.3, 0.2])
    counts = client_distributions(
        4000, wanted, 0.6, np.random.default_rng(7), kind="dirichlet", num_samples=1000
    )
    relative_variance = (counts / 1000).var(axis=0) / (wanted * (1 - wanted))
    assert np.ptp(relative_variance) < 0.05 * relative_variance.mean()


def test_mixture_has_one_or_two_dominating_classes() -> None:
    """Half of the clients exceed the global shares in one class, the others in up to two."""
    wanted = np.full(10, 0.1)
    counts = client_distributions(400, wanted, 1.0, np.random.default_rng(7), kind="mixture")
    dominating = (counts > 2 * 12.8).sum(axis=1)
    assert np.all((dominating == 1) | (dominating == 2))
    assert 170 <= np.count_nonzero(dominating == 2) <= 200


@pytest.mark.parametrize(
    ("num_clients", "proportions", "emd", "num_samples", "message"),
    [
        (1000, half_normal_proportions(10, 10), 1.95, 128, r"emd is 1\.95.* 0\.\d\d to 1\.7\d"),
        # Finer than whole samples allow; 0 is offered beside the range.
        (500, half_normal_proportions(52, 13.64), 0.05, 32, r"value is 0\.4\d; choose it, 0, or"),
        # One client cannot differ from the global distribution, which is its own.
        (1, [0.5, 0.5], 0.5, 128, r"from 0\.00 to 0\.00"),
    ],
)
def test_an_emd_out_of_reach_names_the_range(
    num_clients: int, proportions: Any, emd: float, num_samples: int, message: str
) -> None:
    """The error gives the range that these clients, samples and proportions allow."""
    rng = np.random.default_rng(7)
    with pytest.raises(SettingsError, match=message):
        client_distributions(num_clients, proportions, emd, rng, num_samples=num_samples)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_clients": 0}, "num_clients is 0"),
        ({"num_samples": 0}, "num_samples 0"),
        ({"emd": -0.1}, r"emd -0\.1"),
        ({"emd": float("nan")}, "emd nan"),
        ({"kind": "iid"}, "'iid'; choose one of dirichlet, mixture"),
        ({"global_proportions": [0.5, 0.4]}, "1 in all"),
        ({"global_proportions": [1.5, -0.5]}, "non-negative"),
        ({"global_proportions": [[1.0]]}, "one non-negative share"),
    ],
)
def test_refuses_bad_settings(changed: dict[str, object], message: str) -> None:
    """A setting out of range is refused by name."""
    usual: dict[str, Any] = {"num_clients": 10, "global_proportions": [0.5, 0.5], "emd": 0.5}
    with pytest.raises(SettingsError, match=message):
        client_distributions(**{**usual, **changed}, generator=np.random.default_rng(7))


seeds = st.integers(0, 2**32 - 1)


def offsets_of(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return evenly spread offsets in random order."""
    return np.asarray((rng.permutation(rows) + 0.5) / rows)


@given(seed=seeds, classes=st.integers(1, 60), total=st.integers(0, 500))
def test_largest_remainder_is_nearest(seed: int, classes: int, total: int) -> None:
    """The total is met, and those with the largest remainders are rounded up, the others down."""
    exact = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3)) * total
    counts = largest_remainder(exact / max(total, 1), total)
    up = counts > np.floor(exact)
    assert counts.sum() == total
    assert np.all(np.abs(counts - exact) < 1)
    remainder = exact - np.floor(exact)
    assert remainder[up].min(initial=1.0) >= remainder[~up].max(initial=0.0) - 1e-9


@given(
    seed=seeds,
    rows=st.integers(1, 40),
    classes=st.integers(1, 12),
    num_samples=st.integers(1, 40),
    concentration=st.sampled_from([1e-3, 0.3, 100.0]),
)
def test_meets_all_totals(
    seed: int, rows: int, classes: int, num_samples: int, concentration: float
) -> None:
    """Rows and columns have the wanted totals and no count is negative, however skewed."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(classes, concentration) + 1e-2, size=rows)
    totals = rng.multinomial(rows * num_samples, np.full(classes, 1 / classes))
    counts = controlled_rounding(shares, num_samples, totals, offsets_of(rng, rows))
    assert np.all(counts >= 0)
    assert np.all(counts.sum(axis=1) == num_samples)
    assert np.array_equal(counts.sum(axis=0), totals)


@given(seed=seeds, rows=st.integers(20, 60))
def test_moves_few_samples(seed: int, rows: int) -> None:
    """When the column totals fit the shares, hardly a count is off by more than a sample."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(8, 1.0), size=rows)
    totals = largest_remainder(shares.mean(axis=0), rows * 30)
    counts = controlled_rounding(shares, 30, totals, offsets_of(rng, rows))
    assert np.mean(np.abs(counts - 30 * shares) >= 1) < 0.02


def test_shares_are_kept_on_average() -> None:
    """Clients that are alike hold together what their shares say, whatever the others hold."""
    shares = np.repeat([[0.3, 0.7], [0.7, 0.3]], 500, axis=0)
    offsets = offsets_of(np.random.default_rng(0), 1000)
    counts = controlled_rounding(shares, 1, np.array([500, 500]), offsets)
    assert counts[:500].mean(axis=0) == pytest.approx([0.3, 0.7], abs=0.05)
