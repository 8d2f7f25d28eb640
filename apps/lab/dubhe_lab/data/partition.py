"""Local skew: draw the label counts of clients whose data differ by a given EMD_avg."""

from collections.abc import Callable
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import gammaincinv

from dubhe_flwr.core.distribution import global_distribution, label_distribution
from dubhe_flwr.errors import SettingsError
from dubhe_lab.data.measures import average_emd

PartitionKind: TypeAlias = Literal["dirichlet", "mixture"]
"""How clients differ: see `client_distributions`."""

EMD_TOLERANCE: Final = 0.02
"""Largest difference between the realised and the wanted EMD_avg."""

_Weighted: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Label distributions (N, C) in which class c counts ``weights[c]`` times as much."""

_Family: TypeAlias = Callable[[float], _Weighted]
"""Distributions for a skew between 0 (all clients alike) and 1 (as different as can be)."""

_FITTING_PASSES: Final = 30


def client_distributions(
    num_clients: int,
    global_proportions: ArrayLike,
    emd: float,
    generator: np.random.Generator,
    *,
    kind: PartitionKind = "dirichlet",
    num_samples: int = 128,
) -> NDArray[np.int64]:
    """Draw the label counts of clients, with a given EMD_avg.

    A search varies the family's parameter, with the same random numbers at every step, until the
    counts have the wanted EMD_avg. All clients together have the wanted proportions, exact to the
    sample.

    - ``dirichlet``: ``p_l ~ Dir(concentration * p_g)``, the usual model of skewed clients.
    - ``mixture``: ``p_l = (1 - weight) * p_g + weight * d``, where half of the clients have
      one dominating class and the rest have up to two (``d`` puts all weight on these classes).

    Parameters
    ----------
    num_clients, num_samples : int
        ``N``, and ``N_VC``, the number of samples at each client (128).
    global_proportions : array_like of float, shape (C,)
        ``p_g``; a class with share 0 gets no samples.
    emd : float
        The wanted ``EMD_avg = mean_k ||p_l^k - p_g||_1``. With 0 all clients hold the same
        counts, so proportions are multiples of ``1 / num_samples``.
    generator : numpy.random.Generator
        Source of all randomness; the same state gives the same result.
    kind : {"dirichlet", "mixture"}, default "dirichlet"
        The family of distributions.

    Returns
    -------
    ndarray of int64, shape (N, C)
        Label counts; each row sums to ``num_samples``.

    Examples
    --------
    >>> counts = client_distributions(
    ...     200, [0.5, 0.3, 0.2], emd=0.8, generator=np.random.default_rng(7), num_samples=50
    ... )
    >>> counts.sum(axis=0).tolist()
    [5000, 3000, 2000]
    >>> round(average_emd(counts / 50, [0.5, 0.3, 0.2]), 2)
    0.8
    """
    proportions = np.asarray(global_proportions, dtype=np.float64)
    if proportions.ndim != 1 or np.any(proportions < 0) or not np.isclose(proportions.sum(), 1):
        raise SettingsError(
            f"global_proportions is {proportions}; pass one non-negative share for each class, "
            "1 in all."
        )
    proportions = proportions / proportions.sum()
    families: dict[str, Callable[..., _Family]] = {"dirichlet": _dirichlet, "mixture": _mixture}
    if kind not in families:
        raise SettingsError(f"kind is {kind!r}; choose one of {', '.join(families)}.")
    if num_clients < 1 or num_samples < 1 or not 0 <= emd <= 2:
        raise SettingsError(
            f"num_clients is {num_clients}, num_samples {num_samples} and emd {emd}; pass at least "
            "1 client, 1 sample and a distance from 0 to 2."
        )
    if emd == 0:
        return np.tile(largest_remainder(proportions, num_samples), (num_clients, 1))

    present = proportions > 0
    family = families[kind](num_clients, proportions[present], generator)
    offsets = (generator.permutation(num_clients) + 0.5) / num_clients
    totals = largest_remainder(proportions[present], num_clients * num_samples)

    @cache
    def realise(skew: float) -> NDArray[np.int64]:
        fitted = _fit_mean(family(skew), proportions[present])
        return controlled_rounding(fitted, num_samples, totals, offsets)

    counts = np.zeros((num_clients, proportions.size), dtype=np.int64)
    counts[:, present] = _search(realise, emd)
    return counts


def largest_remainder(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round shares to whole numbers with the given total; ties go to the lower class."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return counts


def controlled_rounding(
    distributions: NDArray[np.float64],
    num_samples: int,
    column_totals: NDArray[np.int64],
    offsets: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Round every row to whole samples, with the wanted totals in rows and columns.

    Each row's cumulative distribution is cut at ``offset, offset + 1, ...``, with an offset between
    0 and 1. So shares are rounded up or down, but correct on average, whereas largest remainders
    would lose every class with less than half a sample. If a column then misses its total by a few
    samples, samples change class in the rows where this does the least harm.
    """
    expected = distributions * num_samples
    cuts = np.floor(np.cumsum(expected, axis=1) + offsets[:, None]).astype(np.int64)
    counts = np.diff(cuts, axis=1, prepend=0)
    surplus = counts.sum(axis=0) - column_totals
    while surplus.any():
        source, target = int(np.argmax(surplus)), int(np.argmin(surplus))
        donors = np.flatnonzero(counts[:, source])
        excess = counts[donors] - expected[donors]
        order = np.argsort(excess[:, target] - excess[:, source], kind="stable")
        moving = donors[order[: min(surplus[source], -surplus[target])]]
        counts[moving, source] -= 1
        counts[moving, target] += 1
        surplus[source] -= moving.size
        surplus[target] += moving.size
    return counts


def _search(realise: Callable[[float], NDArray[np.int64]], emd: float) -> NDArray[np.int64]:
    """Return the counts with the wanted EMD_avg."""

    def excess(skew: float) -> float:
        counts = realise(skew)
        return average_emd(label_distribution(counts), global_distribution(counts)) - emd

    skew, highest = 1e-6, 1 - 1e-6
    below, above = excess(skew), excess(highest)
    if below < 0 < above:
        skew = float(brentq(excess, skew, highest, xtol=1e-7, rtol=1e-3))
    elif abs(above) < abs(below):
        skew = highest
    if not abs(missed := excess(skew)) <= EMD_TOLERANCE:
        raise SettingsError(
            f"emd is {emd}, but with these clients, samples and proportions the nearest value is "
            f"{emd + missed:.2f}; choose it, 0, or another one from {emd + below:.2f} to "
            f"{emd + above:.2f}."
        )
    return realise(skew)


def _dirichlet(
    num_clients: int, proportions: NDArray[np.float64], generator: np.random.Generator
) -> _Family:
    """Return ``Dir(concentration * p_g)`` with ``skew = 1 / (1 + concentration)``."""
    shape = (num_clients, proportions.size)
    quantile = generator.random(shape)
    # 1 - random() lies in (0, 1], so its logarithm is finite.
    log_uniform = np.log1p(-generator.random(shape))

    def family(skew: float) -> _Weighted:
        # Gamma(a) = Gamma(a + 1) * U ** (1 / a); as logarithms, because it underflows for small a.
        parameter = proportions * (1 - skew) / skew
        log_bulk = np.log(gammaincinv(parameter + 1, quantile))
        log_tail = log_uniform / parameter

        def weighted(weights: NDArray[np.float64]) -> NDArray[np.float64]:
            # The weight also scales the tail's parameter. It decides which class a one-class client
            # has; scaling only the shares would not change that.
            log_shares = log_tail / weights + log_bulk + np.log(weights)
            return _rows_of_sum_1(np.exp(log_shares - log_shares.max(axis=1, keepdims=True)))

        return weighted

    return family


def _mixture(
    num_clients: int, proportions: NDArray[np.float64], generator: np.random.Generator
) -> _Family:
    """Return one or two dominating classes mixed with ``p_g``; the skew is their weight."""
    deck = np.repeat(np.arange(proportions.size), largest_remainder(proportions, num_clients))
    first = generator.permutation(deck)
    second = first.copy()
    half = num_clients // 2
    second[:half] = generator.permutation(first[:half])
    one_hot = np.eye(proportions.size)
    dominating = (one_hot[first] + one_hot[second]) / 2

    def family(skew: float) -> _Weighted:
        distributions = (1 - skew) * proportions + skew * dominating

        return lambda weights: _rows_of_sum_1(distributions * weights)

    return family


def _rows_of_sum_1(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _fit_mean(weighted: _Weighted, proportions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit the mean over the clients to ``p_g`` by iterative proportional fitting.

    The steps shrink, and the best pass is kept, because near skew 1 the mean can only move by whole
    clients.
    """
    weights = np.ones_like(proportions)
    best, least_error = np.empty(0), np.inf
    for step in range(_FITTING_PASSES):
        fitted = weighted(weights)
        mean = fitted.mean(axis=0)
        error = float(np.abs(mean - proportions).sum())
        if error < least_error:
            best, least_error = fitted, error
        if np.allclose(mean, proportions, rtol=1e-3, atol=0):
            break
        ratio = np.clip(proportions / np.maximum(mean, 1e-12), 0.5, 2.0)
        weights *= ratio ** (4 / (8 + step))
    return best
