"""Tests of the global class proportions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core import imbalance_ratio
from dubhe_flwr.data import half_normal_proportions
from dubhe_flwr.errors import SettingsError


@given(num_classes=st.integers(2, 100), rho=st.floats(1, 1e4))
def test_has_wanted_imbalance(num_classes: int, rho: float) -> None:
    """The shares sum to 1, descend, and the first is rho times the last."""
    shares = half_normal_proportions(num_classes, rho)
    assert shares.shape == (num_classes,)
    assert shares.sum() == pytest.approx(1)
    assert np.all(np.diff(shares) <= 0)
    assert imbalance_ratio(shares) == pytest.approx(rho)


def test_follows_half_normal_density() -> None:
    """The logarithm of a share falls with the square of the class index."""
    logarithms = np.log(half_normal_proportions(10, 14.0))
    slopes = (logarithms[1:] - logarithms[0]) / np.arange(1, 10) ** 2
    assert np.allclose(slopes, -np.log(14.0) / 81)


@pytest.mark.parametrize(
    ("num_classes", "rho"), [(1, 2), (10, 0.9), (10, float("inf")), (10, float("nan"))]
)
def test_refuses_impossible_skew(num_classes: int, rho: float) -> None:
    """A single class, or a ratio below 1 or not finite, is refused with its value."""
    with pytest.raises(SettingsError, match=str(num_classes if num_classes < 2 else rho)):
        half_normal_proportions(num_classes, rho)
