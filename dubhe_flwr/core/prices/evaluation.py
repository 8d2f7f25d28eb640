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
    """What all nodes are to evaluate."""

    # (a, b) of the point and of the `SHORTER_STEPS` towards it, shape (3, 1 + n); at the opening of
    # the point alone.
    points: Floats
    kappa: float  # price of s, the squared length of x
    radius: float  # in the curvature, longer features count as if they had this length
    # Directions of length 1 of which images are wanted, shape (n, m); none for the whole matrix.
    probes: Floats
    opening: bool  # whether this travels with the registration


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the sums over all nodes say of a point, with ``q_i = P_i (1 - P_i)`` and features f."""

    softplus: Floats  # sum of that of the logits at each of the points; at the opening empty
    volunteers: float  # ``sum P_i``
    moment: Floats  # ``sum P_i f_i``, shape (n,); at the opening empty
    weight: float  # ``sum q_i``
    mean: Floats  # of the features under the weights q, shape (n,)
    covariance: Floats  # the same, shape (n, n); above 32 classes a model, exact along the probes
    trace: float  # sum of the variances of x, which the model need not have
    spread: Floats  # at the opening the sums of ``s_i (s_i, f_i)``, shape (1 + n,); else empty
    # At the opening the mean of the prices that clients remember, shape (1 + n,), where enough of
    # them do; else empty.
    remembered: Floats
