"""What a column's heading and its numbers give away about it.

No heading alone proves that a column holds counts. The words only serve to refuse a table, or to
confirm what its cells already show.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

_CLIENTS: Final = re.compile(
    "bank|branch|center|centre|cid|client|clinic|department|device|doctor|hospital|institution|"
    "lecturer|node|participant|partition|patient|person|phone|school|silo|site|speaker|station|"
    "student|teacher|unit|user|ward|worker|writer"
)
_CLASSES: Final = re.compile(
    "answer|category|class|diagnosis|digit|disease|grade|label|outcome|rating|species|stars|"
    "target|y"
)
_SAMPLES: Final = re.compile("file|filename|image|img|path|sample")
_TOTALS: Final = re.compile(
    "all|alle|gesamt|gesamtergebnis|grand|insgesamt|overall|somme|subtotal|suma|sum|summe|total"
)
_SIZES: Final = {"n", "size", "samples", "count", "counts", "num samples", "n samples", "examples"}
_NUMBERING: Final = re.compile("code|id|idx|index|nr|number|row|unnamed")
_ATTRIBUTES: Final = re.compile(
    "age|beds|date|fold|lat|latitude|lon|longitude|month|postcode|round|seed|split|time|year|zip"
)
_SHARES: Final = re.compile(
    "average|avg|fraction|mean|pct|percent|percentage|proportion|rate|share"
)
_MISSING: Final = {"na", "nan", "nat", "n/a", "n.a.", "null", "inf", "infinity", "missing"}


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty or marks a missing value."""
    return not cell or cell.casefold().strip("-+<>?") in {*_MISSING, ""}


def is_word(cell: str) -> bool:
    """Return whether a cell is a name that begins with a letter, unlike 5k, 12 % and NA."""
    return cell[:1].isalpha() and not is_missing(cell)


def is_number(cell: str) -> bool:
    """Return whether a cell is a whole number that may number a client or class, such as 007."""
    return re.fullmatch(r"[0-9]+(\.0)?", cell) is not None


def is_unnamed(heading: str) -> bool:
    """Return whether a column has no name; pandas reads such a heading as `Unnamed: 0`."""
    return not heading or re.fullmatch(r"Unnamed: [0-9]+", heading) is not None


def names_clients(heading: str) -> bool:
    """Return whether a column with this heading can only tell clients apart."""
    return not names_classes(heading) and any(map(_CLIENTS.fullmatch, _words(heading)))


def names_classes(heading: str) -> bool:
    """Return whether a column with this heading holds classes, one in each row."""
    return any(map(_CLASSES.fullmatch, _words(heading)))


def names_samples(heading: str) -> bool:
    """Return whether a column with this heading names one sample in each row."""
    return any(map(_SAMPLES.fullmatch, _words(heading)))


def is_total(heading: str) -> bool:
    """Return whether a column calls itself a total, or the number of samples."""
    own = _words(heading)
    return is_total_row(heading) or "total" in own or "sum" in own or " ".join(own) in _SIZES


def is_total_row(cell: str) -> bool:
    """Return whether a row calls itself a total; `Total Health` is a client."""
    own = _words(cell)
    return bool(own) and all(map(_TOTALS.fullmatch, own))


def is_no_class(heading: str) -> bool:
    """Return whether a column numbers or describes rows, or holds labels or shares."""
    own = _words(heading)
    if "%" in heading or any(map(_SHARES.fullmatch, own)):
        return True
    if not own or heading[-1:].isdecimal():  # class_0
        return False
    describes = [each.fullmatch(own[0]) for each in (_CLASSES, _CLIENTS, _SAMPLES, _ATTRIBUTES)]
    return bool(_NUMBERING.fullmatch(own[-1])) or (len(own) == 1 and any(describes))


def are_ascending(cells: Sequence[str]) -> bool:
    """Return whether whole numbers ascend, as pandas sorts numbers or text: 1, 10, 2."""
    if not all(map(is_number, cells)):
        return False
    as_numbers = all(float(a) < float(b) for a, b in pairwise(cells))
    return as_numbers or all(a < b for a, b in pairwise(cells))


def count_up(cells: Sequence[str]) -> bool:
    """Return whether whole numbers count up from 0 or 1 without a gap."""
    numbers = [float(cell) for cell in cells if is_number(cell)]
    return any(numbers == list(range(first, first + len(cells))) for first in (0, 1))


def numbers_rows(column: NDArray[np.int64]) -> bool:
    """Return whether a column may number clients: it ascends, or its numbers never repeat.

    By chance, counts ascend in one of 120 tables of five rows.
    """
    ascends = len(column) >= 5 and bool((np.diff(column) > 0).all())
    return ascends or chance_of_no_ties(column.astype(float)) < 1e-6


def chance_of_no_ties(numbers: NDArray[np.float64]) -> float:
    """Bound the probability that counts in this range all differ.

    This is the birthday problem with a uniform distribution, where ties are least likely: any other
    counts with the same smallest and largest number tie more often.

    Parameters
    ----------
    numbers : ndarray, shape (N,)

    Examples
    --------
    >>> chance_of_no_ties(np.arange(20)) < 1e-7
    True
    >>> chance_of_no_ties(np.array([3.0, 3, 4]))
    1.0
    """
    if len(np.unique(numbers)) < len(numbers):
        return 1.0
    span = numbers.max() - numbers.min() + 1
    return float(np.exp(np.log1p(-np.arange(len(numbers)) / span).sum()))


def _words(heading: str) -> list[str]:
    """Split `numSamples`, `hospital_nr` and `Client 3` into lower-case words, in the singular."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", heading)
    words = re.split(r"[\W_0-9]+", spaced.casefold())
    return [_singular(word) for word in words if word]


def _singular(word: str) -> str:
    if word.endswith("sses"):
        return word.removesuffix("es")
    keeps = word.endswith(("is", "ss", "us")) or word in {"species", "stars"} | _SIZES
    return word if keeps else word.removesuffix("s")
