"""Synthetic clients, weighted until they answer as the real ones did.

No node knows the clients, but all know what their numbers add up to. So each node keeps the same
some 3000 synthetic clients and gives them the weights nearest to those before with which they
reproduce the sums: generalised raking, as survey statisticians do.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from dubhe_flwr.core.prices.newton import Floats, minimum
from dubhe_flwr.core.randomness import generator

_NUM_DRAWN: Final = (1800, 600, 600)
_CONCENTRATIONS: Final = (1.0, 3.0, 0.25)
"""Relative to the one with which a Dirichlet distribution explains the opening."""

_BLENDS: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_COARSE_BLENDS: Final = (0.3, 1.0)
"""Shares of a single class in a client that has the mean labels otherwise."""

_MOST_CLASSES: Final = 100
"""Above it blends are coarse."""

_SHARE_OF_BLENDS: Final = 0.15

_TRUST: Final = 0.05
"""Weight of the synthetic clients as they were, relative to a sample of real ones. With 1 the fit
believes them rather than a noisy sum, and the expected number of volunteers is up to 30 % off."""

_MISFIT: Final = 0.002
"""Of V or N: how far the answers of synthetic clients may stay from sums without noise."""

_REACH: Final = 3.0


class Clients(NamedTuple):
    """Synthetic clients: ``w p``, shape (M, C), w and the share in the federation, shape (M,)."""

    labels: Floats
    weights: Floats
    shares: Floats


@lru_cache(maxsize=2)
def _draws(num_classes: int) -> tuple[Floats, Floats, Floats]:
    """Return normal and log-uniform numbers for each class of the clients, and a normal for each.

    They are made of Philox's uniform numbers, whose stream is fixed, by Box and Muller's formula.
    """
    rng = generator(0, "synthetic clients", num_classes)
    num_clients = sum(_NUM_DRAWN)
    log_uniform, radius, angle = rng.random((3, num_clients, num_classes))
    np.log1p(-log_uniform, out=log_uniform)
    normal = np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * np.pi * angle)
    of_weight = rng.random((2, num_clients + num_classes * len(_BLENDS) + 1))
    weight = np.sqrt(-2.0 * np.log1p(-of_weight[0])) * np.cos(2.0 * np.pi * of_weight[1])
    for numbers in (normal, log_uniform, weight):
        numbers.flags.writeable = False
    return normal, log_uniform, weight


def _drawn(mean: Floats, concentration: float) -> Floats:
    """Return clients of Dirichlet distributions around the mean labels, shape (3000, C).

    A gamma variable of shape k is one of shape k + 1, by Wilson and Hilferty's cube of a normal
    variable, times the k-th root of a uniform one: a smooth function of the opening.
    """
    normal, log_uniform, _ = _draws(mean.size)
    shape = np.repeat(_CONCENTRATIONS, _NUM_DRAWN)[:, None] * concentration * mean
    cube = 1.0 - 1.0 / (9.0 * (shape + 1.0)) + normal / (3.0 * np.sqrt(shape + 1.0))
    logs = 3.0 * np.log(np.maximum(cube, 0.01)) + np.log(shape + 1.0) + log_uniform / shape
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def synthetic_clients(
    means: Floats, deviation: float, num_clients: int, largest_weight: float
) -> Clients:
    """Return synthetic clients that fit the opening.

    Parameters
    ----------
    means : ndarray of float, shape (C + 2,)
        Means of ``w p``, ``||w p||^2`` and ``w^2`` over the N clients.
    deviation : float
        Of the noise on each of the means.
    """
    labels, square, weight_square = means[:-2], means[-2], means[-1]
    num_classes, weight = labels.size, float(labels.sum())
    mean = np.maximum(labels / weight, 0.05 / num_classes)
    mean /= mean.sum()
    length = float(mean @ mean)
    spread = min(max((square / weight_square - length) / (1.0 - length), 0.003), 0.97)
    blends = _BLENDS if num_classes <= _MOST_CLASSES else _COARSE_BLENDS
    rows = [_drawn(mean, (1.0 - spread) / spread), mean[None]]
    rows += [(1.0 - share) * mean + share * np.eye(num_classes) for share in blends]
    drawn = np.full(sum(_NUM_DRAWN), (1.0 - _SHARE_OF_BLENDS) / sum(_NUM_DRAWN))
    of_blends = np.tile(mean, len(blends)) * (_SHARE_OF_BLENDS - 0.01) / len(blends)
    shares, distributions = np.concatenate([drawn, [0.01], of_blends]), np.concatenate(rows)
    weights = np.full(shares.size, weight)
    if largest_weight > 1.0:  # log-normal
        spread = np.log(max(weight_square / weight**2, 1.0 + 1e-3))
        logs = np.sqrt(spread) * _draws(num_classes)[2][: shares.size] - spread / 2.0
        weights = np.clip(weight * np.exp(logs), 1.0 / largest_weight, largest_weight)
    clients = Clients(weights[:, None] * distributions, weights, shares)
    squares = (clients.labels**2).sum(axis=1)
    rows = [np.ones((shares.size, 1)), clients.labels, squares[:, None], weights[:, None] ** 2]
    variance = np.full(num_classes + 3, _TRUST * deviation**2 + _MISFIT**2 / num_classes)
    variance[0] = 1e-8
    return reweighted(
        clients, np.hstack(rows), np.concatenate([[1.0], means]), variance * num_clients
    )


def reweighted(clients: Clients, answers: Floats, means: Floats, ridge: Floats) -> Clients:
    """Return the clients with the nearest shares whose answers have the means.

    With the shares ``v_j = v0_j exp(answers_j . l)`` the l minimises ``sum v - l . means + ridge .
    l^2 / 2``, so that the answers add up to the means less ridge times l: relative entropy to the
    shares before, and the squared misfit over its variance, are least together.

    Parameters
    ----------
    answers : ndarray of float, shape (M, n)
        What each client answers.
    means, ridge : ndarray of float, shape (n,)
        Means over the real clients, and N times the variance that they may be off by.
    """

    def curve(logs: Floats) -> tuple[float, Floats, Floats]:
        shares = clients.shares * np.exp(np.minimum(logs, 50.0))
        return float(shares.sum()), shares, shares

    start = np.zeros(means.size)
    found = minimum(answers, curve, -means, ridge, start, _REACH)
    return clients._replace(shares=curve(answers @ found)[1])


def fitted(
    clients: Clients,
    answers: list[tuple[Floats, Floats, float]],
    num_clients: int,
    num_volunteers: float,
) -> Clients:
    """Return the clients with shares that fit the answers to some exchanges, newest first.

    Parameters
    ----------
    answers : list of (ndarray, ndarray, float)
        For each exchange the P of the synthetic clients, shape (M,), the means over the real
        clients, shape (C,) or (C + 1,), and the variance of the noise on the sum of P.
    """
    num_classes = clients.labels.shape[1]
    rows, means, ridges = [], [], []
    for age, (probabilities, of_real, variance) in enumerate(answers):
        columns = [probabilities[:, None] * clients.labels, probabilities[:, None]]
        row = np.hstack(columns)[:, : of_real.size]
        misfit = (_MISFIT * num_volunteers) ** 2
        ridge = np.full(of_real.size, (_TRUST * variance + misfit) / num_classes)
        ridge[num_classes:] *= num_classes
        if age * num_classes > 6 * _MOST_CLASSES:  # the total alone, to bound the work
            row, of_real, ridge = row.sum(axis=1)[:, None], of_real.sum()[None], ridge.sum()[None]
        rows.append(row)
        means.append(of_real)
        ridges.append(ridge / num_clients)
    if not answers:
        return clients
    return reweighted(clients, np.hstack(rows), np.concatenate(means), np.concatenate(ridges))
