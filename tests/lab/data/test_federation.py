"""Tests of the federation and the figures that describe it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import SettingsError
from dubhe_lab.data import EMD_TOLERANCE, Federation, half_normal_proportions
from dubhe_lab.data.measures import imbalance_ratio


def test_describes_its_counts() -> None:
    """Sizes, distributions and skew follow from the label counts."""
    federation = Federation("toy", np.array([[4, 0], [2, 2]]))
    assert (federation.num_clients, federation.num_classes, federation.num_samples) == (2, 2, 4)
    assert federation.label_distributions.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert federation.global_distribution.tolist() == [0.75, 0.25]
    assert federation.rho == 3.0
    assert federation.emd == 0.5
    assert federation.name == "toy-3/0.5"


@pytest.mark.parametrize(
    ("rho", "emd", "name"), [(10, 1.0, "CIFAR10-10/1.0"), (2, 0.554, "CIFAR10-2/0.55")]
)
def test_draws_wanted_skew(rho: float, emd: float, name: str) -> None:
    """A drawn federation has the wanted sizes and skew, and the paper's name for it."""
    sizes = {"num_clients": 300, "num_classes": 10, "num_samples": 64}
    rng = np.random.default_rng(7)
    federation = Federation.draw(
        "CIFAR10", **sizes, rho=rho, emd=emd, generator=rng, kind="mixture"
    )
    assert federation.label_counts.shape == (300, 10)
    assert federation.num_samples == 64
    assert federation.emd == pytest.approx(emd, abs=EMD_TOLERANCE)
    assert federation.rho == pytest.approx(rho, rel=0.05)
    assert federation.name == name


def test_counts_cannot_change() -> None:
    """The counts are a copy that is read-only."""
    counts = np.ones((2, 2), dtype=np.int64)
    federation = Federation("toy", counts)
    counts[0, 0] = 5
    assert federation.label_counts[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        federation.label_counts[0, 0] = 5


@pytest.mark.parametrize(
    "counts", [[1, 2], [[1, 1], [1, 2]], [[2, -1], [0, 1]], np.zeros((0, 3)), np.zeros((3, 0))]
)
def test_refuses_what_is_no_table_of_counts(counts: object) -> None:
    """Anything but equal rows of non-negative counts is refused."""
    with pytest.raises(SettingsError, match="one row of non-negative counts"):
        Federation("toy", np.asarray(counts))


@given(num_classes=st.integers(2, 100), rho=st.floats(1, 1e4))
def test_has_wanted_imbalance(num_classes: int, rho: float) -> None:
    """The shares sum to 1, descend, and the first is rho times the last."""
    shares = half_normal_proportions(num_classes, rho)
    assert shares.shape == (num_classes,)
    assert shares.sum() == pytest.approx(1)
    assert np.all(np.diff(shares) <= 0)
    assert imbalance_ratio(shares) == pytest.approx(rho)


@pytest.mark.parametrize(
    ("num_classes", "rho"), [(1, 2), (10, 0.9), (10, float("inf")), (10, float("nan"))]
)
def test_refuses_impossible_skew(num_classes: int, rho: float) -> None:
    """A single class, or a ratio below 1 or not finite, is refused with its value."""
    with pytest.raises(SettingsError, match=str(num_classes if num_classes < 2 else rho)):
        half_normal_proportions(num_classes, rho)


@pytest.mark.parametrize("shares", [[0.5, 0.5, 0.0], [0, 0]])
def test_an_empty_class_makes_the_ratio_infinite(shares: list[float]) -> None:
    """Rho is the largest class over the smallest."""
    assert imbalance_ratio(shares) == np.inf
