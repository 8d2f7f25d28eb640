"""Synthetic clients, reweighted until they reproduce the sums of the real clients.

Every node makes the same 3000 or more, and changes their shares as little as possible. Survey
statisticians call this generalised raking.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from dubhe_flwr.core.prices.newton import Floats, Problem
from dubhe_flwr.core.prices.state import Opening, SumAtPoint
from dubhe_flwr.core.randomness import generator, normal

_DRAWN: Final = {1.0: 1800, 3.0: 600, 0.25: 600}
"""How many clients are drawn at each concentration, relative to the one of the opening."""

_BLENDS: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_COARSE_BLENDS: Final = (0.3, 1.0)
"""Shares of a single class in clients that are otherwise average; coarse above 100 classes."""

_MOST_ROWS: Final = 600
"""How many numbers of the latest sums are fitted; for older sums, only P is fitted."""

_RESISTANCE: Final = 0.05
"""How much shares resist a noisy sum of P, relative to a sample of N clients. With 1, a fit trusts
the synthetic clients rather than the sum, and V is missed by up to 30 %."""

_RESISTANCE_OF_CLASS: Final = 0.3
"""The same for a single class. With less resistance, prices would follow the noise: with 100
classes, where no sum is larger than its noise, the number of volunteers would swing between zero
and three times V."""

_HIDDEN: Final = 4.0
"""The variance of the synthetic weights is at least this many standard deviations of the noise on
their mean square. If the synthetic weights hardly varied while the nodes' weights do, no shares
would explain the sums, and prices would grow without limit."""

_MISFIT: Final = 0.002
"""Fraction of V (N at the opening) by which synthetic clients may miss a sum without noise."""


class Clients(NamedTuple):
    """Synthetic clients: ``w p``, shape (M, C); w and the share of all clients, shape (M,)."""

    labels: Floats
    weights: Floats
    shares: Floats


@lru_cache(maxsize=2)
def _draws(num_classes: int) -> tuple[Floats, Floats]:
    """Return normal and log-uniform numbers for each class of the drawn clients.

    They are made from Philox's uniform numbers, whose stream is fixed.
    """
    shape = 3, sum(_DRAWN.values()), num_classes
    logs, radius, angle = generator(0, "synthetic clients", num_classes).random(shape)
    return normal(1.0 - radius, angle), np.log1p(-logs)


@lru_cache(maxsize=2)
def lasting_noise(num_clients: int, num_classes: int) -> Floats:
    """Return the synthetic clients' lasting noise, of deviation 1, shape (M, C)."""
    shape = 2, num_clients, num_classes
    return normal(*(1.0 - generator(0, "lasting noise", num_classes).random(shape)))


def _dirichlet(mean: Floats, concentration: float) -> Floats:
    """Return clients drawn from a Dirichlet distribution around the mean labels, shape (3000, C).

    A gamma variable of shape k equals a gamma variable of shape k + 1 times the k-th root of a
    uniform variable. The cube of a normal variable approximates the one of shape k + 1 (Wilson and
    Hilferty). This makes the clients a smooth function of the opening.
    """
    normals, log_uniform = _draws(mean.size)
    relative = np.repeat(list(_DRAWN), list(_DRAWN.values()))
    shape = relative[:, None] * concentration * mean
    cube = 1.0 - 1.0 / (9.0 * (shape + 1.0)) + normals / (3.0 * np.sqrt(shape + 1.0))
    logs = 3.0 * np.log(np.maximum(cube, 0.01)) + np.log(shape + 1.0) + log_uniform / shape
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@lru_cache(maxsize=2)
def synthetic_clients(opening: Opening, num_clients: int, largest_weight: float) -> Clients:
    """Return synthetic clients that fit the opening of a state, shape (C + 3,).

    All sums of an epoch share them; with many classes, making them takes as long as a sum.
    """
    labels, (square, weight_square, deviation) = np.array(opening[:-3]), opening[-3:]
    num_classes, weight = labels.size, float(labels.sum())
    mean = _shrunk(labels / weight, deviation / weight)
    spread = float((square / weight_square - mean @ mean) / (1.0 - mean @ mean))
    distributions, shares = _population(mean, min(max(spread, 0.003), 0.97))
    weights = np.full(shares.size, weight)
    if largest_weight > 1.0:
        hidden = _HIDDEN * largest_weight * deviation
        weight_squares = max(weight_square, weight**2 + hidden, 1.001 * weight**2)
        weights = _log_normal(weights, weight_squares / weight**2, largest_weight)
    clients = Clients(weights[:, None] * distributions, weights, shares)
    squares = (clients.labels**2).sum(axis=1)
    answers = np.column_stack([clients.labels, np.ones_like(shares), squares, weights**2])
    means = np.array([*labels, 1.0, square, weight_square])
    ridge = np.full(means.size, num_clients * (deviation**2 + _MISFIT**2 / num_classes))
    ridge[num_classes] = num_clients * _MISFIT**2 / num_classes  # shares add up to 1
    return _reweighted(clients, answers, means, ridge)


def _shrunk(mean: Floats, deviation: float) -> Floats:
    """Return the mean label distribution without the part of it that noise explains.

    It shrinks towards the uniform distribution (James and Stein); no class becomes too rare.
    """
    apart = mean - 1.0 / mean.size
    noise = mean.size * deviation**2
    seen = max(0.0, 1.0 - noise / max(float(apart @ apart), 1e-12))
    shrunk = np.maximum(1.0 / mean.size + seen * apart, 0.05 / mean.size)
    return np.asarray(shrunk / shrunk.sum())


def _population(mean: Floats, spread: float) -> tuple[Floats, Floats]:
    """Return label distributions of clients around a mean, and the clients' shares before a fit.

    Most are drawn from Dirichlet distributions with this spread, which is 0 if all clients are
    alike and 1 if each holds a single class; the others are blends of the mean and a single class.
    """
    blends = _BLENDS if mean.size <= 100 else _COARSE_BLENDS
    drawn = _dirichlet(mean, (1.0 - spread) / spread)
    blended = [(1.0 - part) * mean + part * np.eye(mean.size) for part in blends]
    shares = np.append(np.full(len(drawn), 0.85 / len(drawn)), 0.01)
    shares = np.append(shares, np.tile(0.14 / len(blends) * mean, len(blends)))
    return np.concatenate([drawn, mean[None], *blended]), shares


def _log_normal(means: Floats, ratio: float, largest: float) -> Floats:
    """Return log-normal weights; the ratio is their mean square divided by their squared mean."""
    variance = np.log(ratio)
    logs = variance**0.5 * np.resize(np.linspace(-1.5, 1.5, 7), means.size) - variance / 2.0
    return np.asarray(np.clip(means * np.exp(logs), 1.0 / largest, largest))


def fitted(
    clients: Clients,
    chances: Sequence[Floats],
    sums: Sequence[SumAtPoint],
    num_clients: int,
    num_volunteers: float,
) -> Clients:
    """Return the clients with shares that fit some sums, at least one, newest first.

    `chances` holds the P of the synthetic clients at the point of each sum, shape (M,).
    """
    num_classes, columns = clients.labels.shape[1], list[tuple[Floats, ...]]()
    resistance = np.append(np.full(num_classes, _RESISTANCE_OF_CLASS / num_classes), _RESISTANCE)
    misfit = np.full(num_classes + 1, (_MISFIT * num_volunteers) ** 2)
    misfit[:-1] /= num_classes
    for age, (found, p) in enumerate(zip(sums, chances, strict=True)):
        answers = np.column_stack([p[:, None] * clients.labels, p])
        ridge = (resistance * found.variance + misfit) / num_clients
        kept = slice(-1 if age and (age + 1) * num_classes > _MOST_ROWS else None, None)
        columns.append((answers[:, kept], np.array(found.means[kept]), ridge[kept]))
    joined = (np.concatenate(part, axis=-1) for part in zip(*columns, strict=True))
    return _reweighted(clients, *joined)


def unexplained(
    clients: Clients, chances: Floats, latest: SumAtPoint, num_clients: int, *, weighted: bool
) -> Floats:
    """Return the means of ``P w p`` and P that fitted clients lack at the latest point.

    The sums of the synthetic clients differ from the real ones. The part of this gap that noise
    explains is left out.
    """
    answers = clients.shares * chances
    lacking = np.array(latest.means) - np.append(answers @ clients.labels, answers.sum())
    seen = lacking if weighted else lacking[:-1]
    noise = 2.0 * (latest.variance / num_clients**2) * (1 + weighted)
    return np.asarray(lacking * max(0.0, 1.0 - noise / max(float(seen @ seen), 1e-300)))


def _reweighted(clients: Clients, answers: Floats, means: Floats, ridge: Floats) -> Clients:
    """Return the clients, reweighted as little as possible so that their answers have the means.

    Shares are ``v_j = v0_j exp(answers_j . l)``, where l minimises ``sum v - l . means + ridge .
    l^2 / 2``. These shares minimise the relative entropy plus the squared misfit over the ridge.
    """
    problem = Problem(answers, np.zeros(len(answers)), clients.shares, _exponential, -means, ridge)
    found = problem.minimum(np.zeros(means.size), reach=3.0)
    return clients._replace(shares=clients.shares * _exponential(answers @ found)[0])


def _exponential(logs: Floats) -> tuple[Floats, Floats, Floats]:
    found = np.exp(np.minimum(logs, 50.0))
    return found, found, found
