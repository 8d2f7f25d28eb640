"""Tests of the covariance of many classes from a part of what there is to know."""

import numpy as np
import pytest

from dubhe_flwr.core.prices.covariance import modelled_covariance


@pytest.mark.parametrize("num_classes", [3, 50])
def test_that_of_dirichlet_vectors_is_known_by_its_diagonal(num_classes: int) -> None:
    """Whatever the concentration: it is a factor."""
    shares = np.linspace(1.0, 3.0, num_classes) / (2.0 * num_classes)
    exact = 0.37 * (np.diag(shares) - np.outer(shares, shares))
    none = np.empty((num_classes, 0))
    assert modelled_covariance(np.diag(exact), num_classes, none, none) == pytest.approx(exact)


def test_images_of_the_probes_are_exact() -> None:
    """For a covariance of another kind, with a weight behind the classes, and it is positive."""
    rng = np.random.default_rng(0)
    clients = rng.normal(size=(30, 12)) @ rng.normal(size=(12, 12))
    clients[:, :11] -= clients[:, :11].mean(axis=1, keepdims=True)
    exact = np.cov(clients.T, bias=True)
    probes = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    model = modelled_covariance(np.diag(exact), 11, probes, exact @ probes)
    assert model @ probes == pytest.approx(exact @ probes, rel=1e-6)
    assert model == pytest.approx(model.T)
    assert np.linalg.eigvalsh(model)[0] > -1e-9


def test_directions_without_variance_are_left_out() -> None:
    """Where clients are alike there is nothing to divide by."""
    probes = np.eye(4)[:, :2]
    model = modelled_covariance(np.zeros(4), 4, probes, np.zeros((4, 2)))
    assert np.all(np.isfinite(model))
    assert np.abs(model).max() < 1e-9
