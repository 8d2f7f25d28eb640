"""A covariance matrix of many classes, from its diagonal and what it does to a few directions."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["modelled_covariance"]

Floats = NDArray[np.float64]

_PASSES = 50


def modelled_covariance(variances: Floats, probes: Floats, images: Floats) -> Floats:
    """Return a positive matrix with these images, and nearly these variances.

    It begins with ``diag(d) - d d^T / sum d``, the covariance of multinomial and Dirichlet
    vectors up to a factor, with d such that the diagonal is right. Then a block BFGS update makes
    it map the probes to their images.

    Parameters
    ----------
    variances : ndarray, shape (C,)
        The diagonal.
    probes : ndarray, shape (C, n)
        Directions.
    images : ndarray, shape (C, n)
        The matrix times the probes.

    Returns
    -------
    ndarray, shape (C, C)

    Examples
    --------
    >>> p = np.array([0.5, 0.3, 0.2])
    >>> exact = np.diag(p) - np.outer(p, p)
    >>> bool(np.allclose(modelled_covariance(np.diag(exact), np.eye(3)[:, :0], np.eye(3)[:, :0]),
    ...                  exact))
    True
    """
    wanted = np.maximum(variances, 1e-12)
    diagonal = wanted
    for _ in range(_PASSES):
        diagonal = wanted / (1.0 - np.minimum(diagonal / diagonal.sum(), 0.5))
    model = np.diag(diagonal) - np.outer(diagonal, diagonal) / diagonal.sum()
    core = probes.T @ images
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    known = vectors[:, values > 1e-6 * max(values.max(initial=0.0), 1e-12)]
    if known.shape[1]:
        probes, images = probes @ known, images @ known
        model = _mapping(model, probes, images)
    return (model + model.T) / 2


def _mapping(model: Floats, probes: Floats, images: Floats) -> Floats:
    before = model @ probes
    old, new = probes.T @ before, probes.T @ images
    old += 1e-9 * np.trace(old) * np.eye(len(old))
    model = model - before @ np.linalg.solve(old, before.T)
    return np.asarray(model + images @ np.linalg.solve((new + new.T) / 2, images.T))
