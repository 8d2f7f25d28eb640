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


def _set(words: str) -> frozenset[str]:
    return frozenset(word.rstrip("s") for word in words.split())


_CLIENTS: Final = _set(
    "bank branch center centre cid client clinic department device doctor hospital institution "
    "lecturer node participant partition patient person phone school silo site speaker station "
    "student teacher unit user ward worker writer"
)
_ROWS: Final = _set(
    "answer category categories class classes diagnosis diagnoses digit disease file filename "
    "grade image img kategorie klasse label outcome path rating sample species stars target y"
)
_TOTALS: Final = _set(
    "all alle gesamt gesamtergebnis grand insgesamt overall somme subtotal suma sum summe total"
)
_STATISTICS: Final = _set(
    "average avg dev deviation max maximum mean median min minimum mittelwert moyenne standard std"
)
_SIZES: Final = _set("n num size samples count examples")
_NUMBERING: Final = _set("code id idx index indices nr number row unnamed")
_ATTRIBUTES: Final = _set(
    "age alter beds betten datum date fold jahr lat latitude lon longitude monat month plz "
    "postcode round seed split time week year zip"
)
_SHARES: Final = _set("average avg fraction mean pct percent percentage proportion rate share")
_MISSING: Final = {"", "na", "nan", "nat", "n/a", "n.a.", "null", "inf", "infinity", "missing"}


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty or marks a missing value."""
    return cell.casefold().strip("-+<>?") in _MISSING


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
    return not names_rows(heading) and not _CLIENTS.isdisjoint(_words(heading))


def is_noun_of_clients(cell: str) -> bool:
    """Return whether a cell is a heading of clients, such as `client_id`, and names none itself."""
    own = _words(cell)
    is_numbered = any(letter.isdecimal() for letter in cell)
    return not is_numbered and names_clients(cell) and (_CLIENTS | _NUMBERING).issuperset(own)


def names_rows(heading: str) -> bool:
    """Return whether a column with this heading names one class or sample in each row."""
    return not _ROWS.isdisjoint(_words(heading))


def is_total(heading: str) -> bool:
    """Return whether a column calls itself a total, or the number of samples."""
    own = set(_words(heading))
    is_size = bool(own - {"num"}) and own <= _SIZES
    return is_size or is_total_row(heading) or not own.isdisjoint({"total", "sum"})


def is_total_row(cell: str) -> bool:
    """Return whether a row calls itself a total; `Total Health` is a client."""
    own = _words(cell)
    return bool(own) and _TOTALS.issuperset(own)


def is_statistic_row(cell: str) -> bool:
    """Return whether a row calls itself a mean or another statistic of the rows."""
    own = _words(cell)
    return bool(own) and _STATISTICS.issuperset(own)


def has_total(cell: str) -> bool:
    """Return whether a row may call itself the total of some rows, such as `North Total`."""
    return not _TOTALS.isdisjoint(_words(cell))


def is_no_class(heading: str) -> bool:
    """Return whether a column numbers or describes rows, or holds labels or shares."""
    own = _words(heading)
    if "%" in heading or not _SHARES.isdisjoint(own):
        return True
    if not own or heading[-1:].isdecimal():  # class_0
        return False
    return own[-1] in _NUMBERING or (len(own) == 1 and own[0] in _CLIENTS | _ROWS | _ATTRIBUTES)


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


def number_rows(column: NDArray[np.int64]) -> bool:
    """Return whether a column may number clients: it ascends, or its numbers never repeat.

    By chance, counts ascend in one of 120 tables of five rows.
    """
    ascends = len(column) >= 5 and bool((np.diff(column) > 0).all())
    return ascends or chance_of_no_ties(column) < 1e-6


def chance_of_no_ties(numbers: NDArray[np.int64]) -> float:
    """Bound the probability that counts in this range all differ.

    This is the birthday problem with a uniform distribution, where ties are least likely.

    >>> chance_of_no_ties(np.arange(20)) < 1e-7
    True
    """
    if len(np.unique(numbers)) < len(numbers):
        return 1.0
    span = float(numbers.max()) - float(numbers.min()) + 1
    return float(np.exp(np.log1p(-np.arange(len(numbers)) / span).sum()))


def _words(heading: str) -> list[str]:
    """Split `numSamples`, `hospital_nr` and `Client 3` into lower-case words without a final s."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", heading)
    return [word.rstrip("s") for word in re.split(r"[\W_0-9]+", spaced.casefold()) if word]
