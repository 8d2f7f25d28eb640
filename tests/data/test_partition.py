"""Tests of the label counts of skewed clients."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dubhe_flwr.core import (
    average_emd,
    global_distribution,
    imbalance_ratio,
    label_distribution,
)
from dubhe_flwr.data import (
    EMD_TOLERANCE,
    PartitionKind,
    client_distributions,
    half_normal_proportions,
)
from dubhe_flwr.errors import SettingsError

kinds = pytest.mark.parametrize("kind", get_args(PartitionKind))


def realised_emd(counts: NDArray[np.int64]) -> float:
    """Return EMD_avg of whole samples."""
    return average_emd(label_distribution(counts), global_distribution(counts))


@kinds
@pytest.mark.parametrize("emd", [0.2, 0.5, 1.0, 1.5])
@pytest.mark.parametrize(
    ("rho", "num_classes"), [(1.0, 10), (2.0, 10), (5.0, 10), (10.0, 10), (13.64, 52)]
)
def test_realises_wanted_skew(
    kind: PartitionKind, rho: float, emd: float, num_classes: int
) -> None:
    """EMD_avg and rho of the whole samples are the wanted ones, at the paper's size."""
    counts = client_distributions(
        1000, half_normal_proportions(num_classes, rho), emd, np.random.default_rng(7), kind=kind
    )
    assert counts.shape == (1000, num_classes)
    assert np.all(counts.sum(axis=1) == 128)
    assert realised_emd(counts) == pytest.approx(emd, abs=EMD_TOLERANCE)
    assert imbalance_ratio(global_distribution(counts)) == pytest.approx(rho, rel=0.05)


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(get_args(PartitionKind)),
    emd=st.sampled_from([0.3, 0.8, 1.3]),
)
@settings(max_examples=20)
def test_realises_wanted_skew_with_few_clients(seed: int, kind: PartitionKind, emd: float) -> None:
    """A hundred clients of 32 samples have the wanted EMD_avg and exact proportions."""
    wanted = half_normal_proportions(10, 10)
    counts = client_distributions(
        100, wanted, emd, np.random.default_rng(seed), kind=kind, num_samples=32
    )
    assert np.all(counts.sum(axis=1) == 32)
    assert realised_emd(counts) == pytest.approx(emd, abs=EMD_TOLERANCE)
    assert np.abs(counts.sum(axis=0) - 3200 * wanted).max() < 1


@kinds
def test_zero_emd_makes_all_clients_alike(kind: PartitionKind) -> None:
    """With EMD_avg 0 all clients hold the same counts."""
    counts = client_distributions(
        50, half_normal_proportions(10, 10), 0.0, np.random.default_rng(7), kind=kind
    )
    assert realised_emd(counts) == 0
    assert np.all(counts == counts[0])
    assert counts[0].sum() == 128


@kinds
def test_absent_class_stays_absent(kind: PartitionKind) -> None:
    """A class of share 0 gets no sample, and the others keep theirs."""
    counts = client_distributions(
        200, [0.5, 0.0, 0.3, 0.2], 0.7, np.random.default_rng(7), kind=kind, num_samples=50
    )
    assert counts.sum(axis=0).tolist() == [5000, 0, 3000, 2000]
    assert realised_emd(counts) == pytest.approx(0.7, abs=EMD_TOLERANCE)


@kinds
def test_repeats_from_its_seed(kind: PartitionKind) -> None:
    """The same seed gives the same counts and another seed gives others."""
    first, second, other = (
        client_distributions(
            50, half_normal_proportions(10, 5), 0.9, np.random.default_rng(seed), kind=kind
        )
        for seed in (1, 1, 2)
    )
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


def test_unreachable_emd_names_the_range() -> None:
    """An EMD_avg above what single-class clients have is refused with the reachable range."""
    with pytest.raises(SettingsError, match=r"emd is 1\.95.* from 0\.\d\d to 1\.7\d"):
        client_distributions(1000, half_normal_proportions(10, 10), 1.95, np.random.default_rng(7))


def test_emd_below_a_sample_names_the_range() -> None:
    """An EMD_avg finer than whole samples allow is refused, with 0 offered beside the range."""
    with pytest.raises(SettingsError, match=r"emd is 0\.05.* choose 0 or a value from 0\.4\d"):
        client_distributions(
            500, half_normal_proportions(52, 13.64), 0.05, np.random.default_rng(7), num_samples=32
        )


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
    arguments = {
        "num_clients": 10,
        "global_proportions": [0.5, 0.5],
        "emd": 0.5,
        "generator": np.random.default_rng(7),
        **changed,
    }
    with pytest.raises(SettingsError, match=message):
        client_distributions(**arguments)  # type: ignore[arg-type]


def test_single_client_has_no_emd() -> None:
    """One client cannot differ from the global distribution, which is its own."""
    with pytest.raises(SettingsError, match=r"from 0\.00 to 0\.00"):
        client_distributions(1, [0.5, 0.5], 0.5, np.random.default_rng(7))
