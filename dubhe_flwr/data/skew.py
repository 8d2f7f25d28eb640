"""Global skew: class proportions that fall off like a half normal distribution."""

import math

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import SettingsError

__all__ = ["half_normal_proportions"]


def half_normal_proportions(num_classes: int, rho: float) -> NDArray[np.float64]:
    """Return the global class proportions ``p_g`` of a half normal over the class index.

    The density of a half normal at 0, 1, ..., C-1, with the variance chosen so that the first
    class is ``rho`` times as frequent as the last: class ``c`` has a share proportional to
    ``rho ** -(c / (C - 1)) ** 2``.

    Parameters
    ----------
    num_classes : int
        ``C``, at least 2.
    rho : float
        Imbalance ratio: the largest share divided by the smallest, at least 1. With 1 the
        proportions are uniform.

    Returns
    -------
    ndarray of float64, shape (C,)
        Shares that sum to 1, in descending order.

    Raises
    ------
    SettingsError
        If there are fewer than two classes, or ``rho`` is below 1 or not finite.

    Examples
    --------
    >>> half_normal_proportions(3, rho=16).round(3)
    array([0.64, 0.32, 0.04])
    """
    if num_classes < 2:
        raise SettingsError(f"num_classes is {num_classes}; a skew needs at least 2 classes.")
    if not 1 <= rho < math.inf:
        raise SettingsError(
            f"rho is {rho}; it is the largest class divided by the smallest, so give a finite "
            "number of at least 1."
        )
    shares = rho ** -(np.linspace(0.0, 1.0, num_classes) ** 2)
    return np.asarray(shares / shares.sum())
