"""What all nodes are asked to evaluate, and what the sums of their numbers say."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHORTER_STEPS: Final = (0.5, 0.2)
"""Parts of a step after which the dual is evaluated beside its end."""


@dataclass(frozen=True, slots=True)
class Query:
    """What all nodes are to evaluate.

    Parameters
    ----------
    points : ndarray, shape (3, 1 + n)
        ``(a, b)`` of the point and of the `SHORTER_STEPS` towards it; at the opening the point
        alone.
    kappa : float
        Price of s, the squared length of x.
    radius : float
        In the curvature, features that are longer count as if they had this length.
    probes : ndarray, shape (n, m)
        Directions of length 1 of which images are wanted; none where the whole matrix is summed.
    opening : bool
        Whether this travels with the registration.
    """

    points: Floats
    kappa: float
    radius: float
    probes: Floats
    opening: bool


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the sums over all nodes say of a point, with ``q_i = P_i (1 - P_i)`` and features f.

    Parameters
    ----------
    softplus : ndarray, shape (3,)
        Sum of the softplus of the logits at each of the points; at the opening empty.
    volunteers, weight : float
        ``sum P_i`` and ``sum q_i``.
    moment : ndarray, shape (n,)
        ``sum P_i f_i``; at the opening empty.
    mean, covariance : ndarray, shapes (n,) and (n, n)
        Of the features under the weights q. Above 32 classes the covariance is a model, exact
        along the probes.
    trace : float
        Sum of the variances of x, which the model need not have.
    spread : ndarray, shape (1 + n,)
        At the opening the sums of ``s_i (s_i, f_i)``; else empty.
    remembered : ndarray, shape (1 + n,)
        At the opening the mean of the prices that clients remember, where enough of them do; else
        empty.
    """

    softplus: Floats
    volunteers: float
    moment: Floats
    weight: float
    mean: Floats
    covariance: Floats
    trace: float
    spread: Floats
    remembered: Floats
