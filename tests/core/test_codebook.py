"""Tests of the ranking of class sets."""

from typing import Any

import numpy as np
import pytest

from dubhe_flwr.core.codebook import Category, Codebook
from dubhe_flwr.errors import SettingsError

PAPER = Codebook((1, 2, 10))


def test_reference_set_is_a_set() -> None:
    """Order, repetition and NumPy integers make no difference to a codebook."""
    codebook = Codebook(np.array([10, 2, 1, 2]))
    assert (codebook, hash(codebook)) == (PAPER, hash(PAPER))
    assert [type(size) for size in codebook.reference_set] == [int, int, int]


@pytest.mark.parametrize("reference_set", [(), (1,), (0, 10), (-1, 2, 10), (1.5, 10)])
def test_impossible_reference_set_is_refused(reference_set: tuple[Any, ...]) -> None:
    """Sizes below 1, fractions and fewer than two classes are refused; the error names them."""
    with pytest.raises(SettingsError, match="reference_set=") as refusal:
        Codebook(reference_set)
    assert str(reference_set) in str(refusal.value)


@pytest.mark.parametrize("category", [(), (0, 1, 2), (1, 0), (3, 3), (-1, 4), (4, 10)])
def test_unknown_category_is_refused(category: Category) -> None:
    """Sets of the wrong size, out of order, with repeated or unknown classes have no slot."""
    with pytest.raises(SettingsError, match="is not a category of Codebook") as refusal:
        PAPER.rank(category)
    assert str(refusal.value).startswith(str(category))
