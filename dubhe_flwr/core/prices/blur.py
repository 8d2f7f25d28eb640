"""Blurs the label distribution by which a client volunteers, to hide it in its yes and no."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.prices.newton import Floats

FEW_CLASSES: Final = 10
"""With fewer classes, the yes and no of a client with exact labels would reveal most of them."""


def blurred(labels: Floats, weights: ArrayLike, lasting: ArrayLike) -> Floats:
    """Return ``w q``, where q is the label distribution closest to p plus the client's noise.

    Parameters
    ----------
    labels : ndarray of float, shape (N, C)
        ``w p`` of each client.
    weights : array_like of float, shape (N,) or ()
        ``w`` of each client.
    lasting : array_like of float, shape (N, C) or ()
        The noise on each share.

    Examples
    --------
    >>> blurred(np.array([[0.9, 0.1, 0.0]]), 1.0, [[0.2, 0.1, -0.1]]).round(2).tolist()
    [[0.95, 0.05, 0.0]]
    """
    of_each = np.broadcast_to(weights, len(labels))[:, None]
    noisy = labels / of_each + lasting
    descending = -np.sort(-noisy, axis=1)
    ranks = np.arange(1, noisy.shape[1] + 1)
    excess = ((np.cumsum(descending, axis=1) - 1.0) / ranks).max(axis=1, keepdims=True)
    return np.asarray(of_each * np.maximum(noisy - excess, 0.0))
