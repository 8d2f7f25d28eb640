"""Determination: the H tentative tries of a round, and which of them is best (section 5.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import SettingsError

Clients = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Tries:
    """The best of H tentative selections, as in the paper.

    Parameters
    ----------
    number : int (default: 20)
        ``H``. With 1 there is no choice: no agent, and no sum over few clients.

    Raises
    ------
    SettingsError
        If the number is below 1.
    """

    number: int = 20

    def __post_init__(self) -> None:
        if type(self.number) is not int or not 1 <= self.number < 2**31:
            raise SettingsError(f"Tries({self.number!r}) needs a whole number of at least 1.")

    @property
    def has_agent(self) -> bool:
        """Whether an agent chooses; if not, nodes register no label distribution."""
        return self.number > 1


def fill_or_trim(
    volunteers: Mask, eligible: Mask, num_participants: int, rng: np.random.Generator
) -> Clients:
    """Bring the volunteers of one try to exactly K clients (section 5.2).

    Surplus volunteers are dropped, and missing ones are filled in from the other eligible clients,
    both uniformly at random. Volunteers that are not eligible are ignored. Both masks have shape
    (N,). The result holds client indices in ascending order, fewer than K only if fewer are
    eligible.

    >>> yes, all_of_them = np.array([0, 1, 0, 1, 0], dtype=bool), np.ones(5, dtype=bool)
    >>> fill_or_trim(yes, all_of_them, 2, np.random.default_rng(0)).tolist()
    [1, 3]
    >>> fill_or_trim(yes, all_of_them, 3, np.random.default_rng(0)).size
    3
    """
    willing = np.flatnonzero(volunteers & eligible)
    if willing.size > num_participants:
        return np.sort(rng.choice(willing, num_participants, replace=False))
    rest = np.flatnonzero(eligible & ~volunteers)
    missing = min(num_participants - willing.size, rest.size)
    return np.sort(np.concatenate([willing, rng.choice(rest, missing, replace=False)]))


def far_apart(tries: Sequence[Clients], fewest: int) -> list[Clients]:
    """Replace each try that differs from an earlier one by fewer than `fewest` clients.

    Otherwise, subtracting one try's sum from the other's would reveal the sum over those few
    clients. The earlier try takes the place of the later one, so the result still has H tries.

    >>> [t.tolist() for t in far_apart([np.array([0, 1]), np.array([1, 2]), np.array([2, 3])], 3)]
    [[0, 1], [0, 1], [2, 3]]
    """
    apart: dict[frozenset[int], Clients] = {}
    found = []
    for chosen in tries:
        clients = frozenset(chosen.tolist())
        near = (earlier for earlier in apart if len(clients ^ earlier) < fewest)
        found.append(apart.setdefault(next(near, clients), chosen))
    return found


def scores_of(
    sums: ArrayLike, local_skew: float = 0.0, target: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the score of each try, shape (H,); the best try has the lowest.

    The score is

        ||p_o - t||_1 + local_skew * mean_k ||p_l^k - t||_2^2

    where t is the target distribution, and clients count by their weights. The first term is the
    paper's. The second is the local skew, which is the other term of the bound in eq. 3 that
    depends on labels. Both are quotients of whole numbers, so every platform ranks the tries alike.

    Parameters
    ----------
    sums : array_like of int, shape (H, C + 1)
        Fixed-point sums over the clients of each try: ``w p_l``, then ``w ||p_l||_2^2``. The
        weights w are 1 if all clients count the same.
    local_skew : float (default: 0.0)
        Price of the local skew, from 0 to 1000. With 0 the score is ``||p_o - t||_1``.
    target : array_like of float, shape (C,), optional (default: uniform)
        ``t``: the distribution that the data of all participants together should have.

    Raises
    ------
    SettingsError
        If `local_skew` is out of range.

    Examples
    --------
    >>> one_class_each, both_alike = [10, 10, 20], [10, 10, 10]
    >>> scores_of([one_class_each, both_alike], local_skew=0.1).tolist()
    [0.05, 0.0]
    """
    if not 0.0 <= local_skew <= 1000.0:
        raise SettingsError(f"local_skew={local_skew} must be from 0 to 1000.")
    integers = np.asarray(sums, dtype=np.int64)
    shares, squares, totals = integers[:, :-1], integers[:, -1], integers[:, :-1].sum(axis=1)
    number = shares.shape[1]
    # Everything is multiplied by C: C t is 1 for each class if the target is uniform.
    wanted = np.ones(number) if target is None else number * np.asarray(target)
    deviations = number * shares - np.rint(totals[:, None] * wanted)
    skews = number * squares - 2 * shares @ wanted + totals * (wanted @ wanted / number)
    costs = np.rint(local_skew * skews)
    return np.asarray((np.abs(deviations).sum(axis=1) + costs) / (number * totals))
