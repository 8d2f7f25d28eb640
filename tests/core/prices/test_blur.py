"""Tests of blurred labels: they are the nearest label distributions, and cost prices no bias."""

import numpy as np
import pytest
from core.prices.populations import Federation, with_emd
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core.prices import PriceDesign
from dubhe_flwr.core.prices.blur import blurred


@given(st.integers(0, 999), st.integers(2, 9), st.floats(0.01, 9.0))
def test_blurred_labels_are_the_nearest_distributions(seed: int, size: int, noise: float) -> None:
    """No other label distribution is closer to the noisy labels: the projection onto them."""
    rng = np.random.default_rng(seed)
    labels, others = rng.dirichlet(np.full(size, 0.5), size=(2, 40))
    lasting = noise * rng.normal(size=labels.shape)
    found, noisy = blurred(labels, 1.0, lasting), labels + lasting
    assert found.min() >= 0.0
    assert found.sum(axis=1) == pytest.approx(1.0)
    # A point of a convex set is nearest if and only if no other is on the noisy point's side.
    assert np.einsum("ic,jic->ji", noisy - found, others[:, None] - found).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "emd", "exact", "blurred"),
    [(2, 0.3, 0.03, 0.12), (3, 0.5, 0.03, 0.07), (5, 0.9, 0.07, 0.07)],
)
def test_what_a_blur_costs(size: int, emd: float, exact: float, blurred: float) -> None:
    """The distance of the volunteers' data from uniform, with and without a blur."""
    found = []
    for blur in (0.0, 0.6 / size):
        design = PriceDesign(size, 20, 40.0, 0.15, sigma=1.5, blur=blur)
        federations = [
            Federation(design, with_emd(1000, size, emd, seed), None, 3.0, seed)
            for seed in range(8)
        ]
        for each in federations:
            while not each.state.settled and each.state.num_sums < 6:
                each.step()
        found.append(np.mean([each.distance() for each in federations]))
    assert found == pytest.approx([exact, blurred], abs=0.01)
