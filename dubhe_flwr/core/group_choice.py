"""Chooses the groups, or the try, whose clients together are best for training.

The agent scores each possible selection and takes the one with the lowest score,

    ||p_o - t||_1 + local_skew * mean_k ||p_l^k - t||_2^2

where t is the target distribution and each client counts by its weight. The first term is the
paper's. The second is the local skew, the other label term of the bound in eq. 3. Both are
quotients of whole numbers that add up over clients, so every platform ranks the scores alike.

If there are few combinations of groups, `best_groups` compares them all. Otherwise it runs a local
search from many starting points: add the best group until enough are chosen, then exchange single
groups while that lowers the score.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from math import comb, prod
from typing import Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import SettingsError

Floats: TypeAlias = NDArray[np.float64]
"""Floats that hold whole numbers below 2**53, which makes them exact."""

_MOST_ENUMERATED: Final = 20_000
"""Largest number of combinations for which all are compared."""

_SEARCH_EFFORT: Final = 600_000
"""Most starting points times q**2 times C: keeps the search shorter than the decryptions."""

_MOST_PARTNERS: Final = 8
"""Most starting points per group: if few groups are wanted, more points find nothing better."""

_BATCH_ELEMENTS: Final = 500_000
"""Scores of exchanges held in memory at once."""


def scores_of(sums: ArrayLike, local_skew: float = 0.0, target: ArrayLike | None = None) -> Floats:
    """Return the score of each selection, shape (H,).

    Parameters
    ----------
    sums : array_like of int, shape (H, C + 1)
        Fixed-point sums over the clients of each selection: ``w p_l``, then ``w ||p_l||_2^2``. The
        weights w are 1 if all clients count the same.
    local_skew : float (default: 0.0)
        Price of the local skew, at least 0. With 0 the score is ``||p_o - t||_1``.
    target : array_like of float, shape (C,), optional (default: uniform)
        ``t``: the distribution that the data of all participants together should have.

    Examples
    --------
    >>> one_class_each, both_alike = [10, 10, 20], [10, 10, 10]
    >>> scores_of([one_class_each, both_alike], local_skew=0.1).tolist()
    [0.05, 0.0]
    """
    return _Parts.of(sums, local_skew, target).scores()


def best_groups(
    sums: ArrayLike,
    sizes: ArrayLike,
    wanted_sizes: ArrayLike,
    local_skew: float = 0.0,
    target: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Return the groups that together have the lowest score, as indices, shape (q,).

    The search is exhaustive if there are few combinations and local otherwise; see the module's
    docstring. The indices are in ascending order, and the same input gives the same result.

    Parameters
    ----------
    sums : array_like of int, shape (M, C + 1)
        Sums over the clients of each group; see `scores_of`, also for `local_skew` and `target`.
    sizes : array_like of int, shape (M,)
        Clients in each group.
    wanted_sizes : array_like of int, shape (q,)
        Sizes of the groups to choose, from `group_sizes`.

    Raises
    ------
    SettingsError
        If there are fewer groups of some size than are wanted.

    Examples
    --------
    >>> sums = [[40, 0, 0, 40], [20, 20, 0, 20], [0, 20, 20, 20], [0, 0, 40, 40], [0, 40, 0, 40]]
    >>> best_groups(sums, [4] * 5, [4, 4, 4]).tolist()
    [0, 3, 4]
    """
    parts = _Parts.of(sums, local_skew, target)
    sizes, wanted = np.asarray(sizes, dtype=np.int64), np.asarray(wanted_sizes, dtype=np.int64)
    kinds, quotas = np.unique(wanted, return_counts=True)
    of_kind = sizes == kinds[:, None]
    for kind, quota, number in zip(kinds, quotas, of_kind.sum(axis=1), strict=True):
        if number < quota:
            raise SettingsError(
                f"{number} groups of {kind} clients were formed and {quota} are wanted; form more."
            )
    if prod(map(comb, of_kind.sum(axis=1).tolist(), quotas.tolist())) <= _MOST_ENUMERATED:
        return _best_combination(parts, of_kind, quotas)
    return _best_exchanges(parts, of_kind, quotas)


class _Parts(NamedTuple):
    """The parts of the scores of some groups or selections; each part adds up over groups."""

    deviations: Floats
    """``C sum_k w (p_l - t)``, shape (M, C)."""
    costs: Floats
    """``C local_skew sum_k w ||p_l - t||^2``, shape (M,)."""
    weights: Floats
    """``C sum_k w``, shape (M,)."""

    @classmethod
    def of(cls, sums: ArrayLike, local_skew: float, target: ArrayLike | None) -> Self:
        """Return the parts in fixed point, rounded to whole numbers."""
        if not 0.0 <= local_skew <= 1000.0:
            raise SettingsError(f"local_skew={local_skew} must be from 0 to 1000.")
        integers = np.asarray(sums, dtype=np.int64)
        shares, squares, totals = integers[:, :-1], integers[:, -1], integers[:, :-1].sum(axis=1)
        number = shares.shape[1]
        # C t is 1 for each class if the target is uniform.
        wanted = np.ones(number) if target is None else number * np.asarray(target)
        deviations = number * shares - np.rint(totals[:, None] * wanted)
        skews = number * squares - 2 * shares @ wanted + totals * (wanted @ wanted / number)
        return cls(deviations, np.rint(local_skew * skews), (number * totals).astype(np.float64))

    def rows(self, indices: NDArray[np.int64]) -> "_Parts":
        """Return the parts of some groups."""
        return _Parts(*(part[indices] for part in self))

    def added(self, groups: NDArray[np.int64]) -> "_Parts":
        """Return the parts of selections, each given as a row of group indices."""
        return _Parts(*(np.sum([part[column] for column in groups.T], axis=0) for part in self))

    def scores(self) -> Floats:
        """Return the score of each row."""
        return np.asarray((np.abs(self.deviations).sum(axis=1) + self.costs) / self.weights)


def _best_combination(
    parts: _Parts, of_kind: NDArray[np.bool_], quotas: NDArray[np.int64]
) -> NDArray[np.int64]:
    choices = (
        combinations(np.flatnonzero(fitting).tolist(), quota)
        for fitting, quota in zip(of_kind, quotas.tolist(), strict=True)
    )
    candidates = np.array([sum(chosen, ()) for chosen in product(*choices)], dtype=np.int64)
    return np.sort(candidates[np.argmin(parts.added(candidates).scores())])


def _best_exchanges(
    parts: _Parts, of_kind: NDArray[np.bool_], quotas: NDArray[np.int64]
) -> NDArray[np.int64]:
    fitting = np.flatnonzero(of_kind.any(axis=0))
    search = _Search(parts.rows(fitting), of_kind[:, fitting].argmax(axis=0), quotas)
    results = [search.run(batch) for batch in search.batches()]
    _, members = min(results, key=lambda result: result[0])
    return np.asarray(fitting[members])


class _Search:
    """Local search from many starting points at once, one in each row."""

    def __init__(self, parts: _Parts, kinds: NDArray[np.int64], quotas: NDArray[np.int64]) -> None:
        self.parts = parts
        self.kinds = kinds
        self.quotas = quotas
        self.num_wanted = int(quotas.sum())
        self.same_kind = kinds[:, None] == kinds

    def batches(self) -> Iterator[NDArray[np.int64]]:
        """Yield pairs of groups to start from; each group comes first about equally often."""
        num_groups, num_classes = self.parts.deviations.shape
        num_starts = max(1, _SEARCH_EFFORT // (self.num_wanted**2 * num_classes))
        stride = max(1, num_groups // num_starts)
        first = np.arange(0, num_groups, stride)
        num_shifts = min(max(1, num_starts // num_groups), num_groups // 2, _MOST_PARTNERS)
        pairs = [np.stack([first, (first + k) % num_groups], axis=1) for k in range(num_shifts)]
        batch = max(1, _BATCH_ELEMENTS // (self.num_wanted * num_groups))
        starts = np.concatenate(pairs)
        return (starts[row : row + batch] for row in range(0, len(starts), batch))

    def run(self, starts: NDArray[np.int64]) -> tuple[float, NDArray[np.int64]]:
        """Return the lowest score reached from the starting points, and its groups."""
        chosen = self._grow(starts)
        scores = self._exchange(chosen)
        best = int(np.argmin(scores))
        return float(scores[best]), np.flatnonzero(chosen[best])

    def _grow(self, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Add the best group to each row until it has all the groups it needs."""
        rows = np.arange(len(starts))
        chosen = np.zeros((len(starts), len(self.kinds)), dtype=bool)
        left = np.tile(self.quotas, (len(starts), 1))
        for column in starts.T:
            free = (left[rows, self.kinds[column]] > 0) & ~chosen[rows, column]
            chosen[rows[free], column[free]] = True
            left[rows[free], self.kinds[column[free]]] -= 1
        while (open_rows := np.flatnonzero(left.any(axis=1))).size:
            scores = self._joined(chosen[open_rows] @ part for part in self.parts)
            scores[chosen[open_rows] | (left[open_rows][:, self.kinds] == 0)] = np.inf
            added = np.argmin(scores, axis=1)
            chosen[open_rows, added] = True
            left[open_rows, self.kinds[added]] -= 1
        return chosen

    def _exchange(self, chosen: NDArray[np.bool_]) -> Floats:
        """Exchange the best single group in each row, in place, while that lowers the score."""
        totals = _Parts(*(chosen @ part for part in self.parts))
        scores, rows = totals.scores(), np.arange(len(chosen))
        while rows.size:
            members = np.nonzero(chosen[rows])[1].reshape(rows.size, self.num_wanted)
            changed = self._joined(
                (total[rows, None] - part[members]).reshape(-1, *part.shape[1:])
                for total, part in zip(totals, self.parts, strict=True)
            )
            barred = chosen[rows, None] | ~self.same_kind[members]
            changed[barred.reshape(changed.shape)] = np.inf
            changed = changed.reshape(rows.size, -1)
            exchange = np.argmin(changed, axis=1)
            reached = changed[np.arange(rows.size), exchange]
            better = reached < scores[rows]
            rows, members, exchange = rows[better], members[better], exchange[better]
            position, joins = np.divmod(exchange, len(self.kinds))
            leaves = members[np.arange(rows.size), position]
            chosen[rows, leaves], chosen[rows, joins] = False, True
            for total, part in zip(totals, self.parts, strict=True):
                total[rows] += part[joins] - part[leaves]
            scores[rows] = reached[better]
        return np.asarray(scores)

    def _joined(self, selections: Iterable[Floats]) -> Floats:
        """Return the scores of all selections with each group added to them."""
        # Importing scipy takes a second, and every message starts a new process on a node: only
        # the agent should pay for it.
        from scipy.spatial.distance import cdist  # noqa: PLC0415

        totals = _Parts(*selections)
        distances = np.asarray(cdist(totals.deviations, -self.parts.deviations, "cityblock"))
        distances += totals.costs[:, None] + self.parts.costs
        distances /= totals.weights[:, None] + self.parts.weights
        return distances
