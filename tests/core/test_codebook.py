"""Tests of the ranking of class sets."""

from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dubhe_flwr.core.codebook import Category, Codebook
from dubhe_flwr.errors import SettingsError

PAPER = Codebook((1, 2, 10))


@st.composite
def codebooks(draw: st.DrawFn) -> Codebook:
    """Draw any reference set for 2 to 62 classes; most of them could never be listed."""
    num_classes = draw(st.integers(2, 62))
    return Codebook(draw(st.sets(st.integers(1, num_classes))) | {num_classes})


@given(codebook=codebooks(), data=st.data())
@example(codebook=Codebook(range(1, 63)), data=None)
def test_slots_are_in_order(codebook: Codebook, data: st.DataObject | None) -> None:
    """Slots go by set size, then lexicographically, even if the class sets cannot be listed."""
    num_classes, sizes = codebook.num_classes, codebook.reference_set
    size = data.draw(st.sampled_from(sizes)) if data else 31
    drawn = st.sets(st.integers(0, num_classes - 1), min_size=size, max_size=size)
    category = tuple(sorted(data.draw(drawn) if data else range(size)))
    slot, place = codebook.rank(category), sizes.index(size)
    assert codebook.offsets[place] <= slot < codebook.offsets[place + 1]
    raised = [i for i in range(size) if category[i] < num_classes - size + i]
    assert raised or slot == codebook.offsets[place + 1] - 1  # the last of its size
    if not raised:
        return
    at = raised[-1]
    following = (*category[:at], *range(category[at] + 1, category[at] + 1 + size - at))
    assert codebook.rank(following) == slot + 1


@pytest.mark.parametrize("num_classes", range(2, 8))
def test_order_equals_listed_combinations(num_classes: int) -> None:
    """With few classes, slots follow the listed class sets, for every reference set."""
    middle = range(1, num_classes)
    for sizes in chain.from_iterable(combinations(middle, k) for k in range(num_classes)):
        codebook = Codebook((*sizes, num_classes))
        listed: list[Category] = [
            category
            for size in (*sizes, num_classes)
            for category in combinations(range(num_classes), size)
        ]
        assert codebook.length == len(listed)
        assert [codebook.rank(category) for category in listed] == list(range(len(listed)))


def test_reference_set_is_a_set() -> None:
    """Order, repetition and NumPy integers make no difference to a codebook."""
    codebook = Codebook(np.array([10, 2, 1, 2]))
    assert codebook == PAPER
    assert hash(codebook) == hash(PAPER)
    assert codebook != Codebook((1, 10))
    assert [type(size) for size in codebook.reference_set] == [int, int, int]


@pytest.mark.parametrize("reference_set", [(), (1,), (0, 10), (-1, 2, 10), (1.5, 10)])
def test_impossible_reference_set_is_refused(reference_set: tuple[Any, ...]) -> None:
    """Sizes below 1, fractions and fewer than two classes are refused; the error names them."""
    with pytest.raises(SettingsError, match="reference_set=") as refusal:
        Codebook(reference_set)
    assert str(reference_set) in str(refusal.value)


@pytest.mark.parametrize(
    "category", [(), (0, 1, 2), (1, 0), (3, 3), (-1,), (-1, 4), (10,), (4, 10), (*range(9), 10)]
)
def test_unknown_category_is_refused(category: Category) -> None:
    """Sets of the wrong size, out of order, with repeated or unknown classes have no slot."""
    with pytest.raises(SettingsError, match="is not a category of Codebook") as refusal:
        PAPER.rank(category)
    assert str(refusal.value).startswith(str(category))
