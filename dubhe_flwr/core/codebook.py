"""The codebook: maps sets of dominating classes to slots of the registry (eq. 5)."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import comb
from operator import index

from dubhe_flwr.errors import SettingsError

Category = tuple[int, ...]
"""``u``: the dominating classes of a client, ascending."""


@dataclass(frozen=True)
class Codebook:
    """Ranks all class sets whose size is in the reference set, without listing them.

    Slots are ordered by the size of the set, then lexicographically. A registry is therefore the
    concatenation of the sub-vectors ``R_i``, ``i`` in ``G``, of lengths ``C(C, i)``.

    Parameters
    ----------
    reference_set : iterable of int
        ``G``: the possible numbers of dominating classes, each at least 1. The largest element is
        the number of classes ``C``, at least 2, and stands for clients without a dominating class.

    Raises
    ------
    SettingsError
        If the reference set is not of this form.

    Examples
    --------
    >>> codebook = Codebook((1, 2, 10))
    >>> codebook.length, codebook.rank((0, 1)), codebook.rank((8, 9))
    (56, 10, 54)
    """

    reference_set: tuple[int, ...]

    def __init__(self, reference_set: Iterable[int]) -> None:
        try:
            sizes = tuple(sorted({index(size) for size in reference_set}))
        except TypeError:
            raise SettingsError(
                f"reference_set={reference_set!r} must hold whole numbers, as in (1, 2, 10)."
            ) from None
        if not sizes or sizes[0] < 1 or sizes[-1] < 2:
            raise SettingsError(
                f"reference_set={sizes} must hold sizes from 1 to the number of classes (at "
                "least 2), and that number itself, as in (1, 2, 10)."
            )
        object.__setattr__(self, "reference_set", sizes)

    @property
    def num_classes(self) -> int:
        """``C``, which is always in the reference set."""
        return self.reference_set[-1]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First slot of each sub-vector, followed by the length of the registry."""
        sizes = (comb(self.num_classes, size) for size in self.reference_set)
        return tuple(accumulate(sizes, initial=0))

    @property
    def length(self) -> int:
        """``l``: the number of slots in a registry."""
        return self.offsets[-1]

    def rank(self, category: Category) -> int:
        """Return the slot of a category.

        Raises `SettingsError` if the codebook has no such category.
        """
        size = len(category)
        ascending = all(a < b for a, b in pairwise(category))
        if size not in self.reference_set or not (
            ascending and category[0] >= 0 and category[-1] < self.num_classes
        ):
            raise SettingsError(
                f"{category} is not a category of {self}: use ascending classes below "
                f"{self.num_classes}; their number must be one of {self.reference_set}."
            )
        # Lexicographic rank = last rank - rank of the mirrored set in the combinatorial number
        # system.
        behind = sum(
            comb(self.num_classes - 1 - label, size - position)
            for position, label in enumerate(category)
        )
        return self.offsets[self.reference_set.index(size) + 1] - 1 - behind
