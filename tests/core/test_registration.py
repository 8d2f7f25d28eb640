"""Tests of what Algorithm 1 refuses; the vectors have categories and probabilities."""

from typing import Any

import pytest
from numpy.typing import ArrayLike

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.registration import (
    MAX_REGISTRY_LENGTH,
    check_thresholds,
    dominating_category,
)
from dubhe_flwr.errors import SettingsError

PAPER = Codebook((1, 2, 10))
SIGMA = {1: 0.7, 2: 0.1}


@pytest.mark.parametrize(
    "label_counts",
    [[98765] * 9, [98765] * 11, [[98765] * 10]],
)
def test_unfit_label_counts_are_refused(label_counts: ArrayLike) -> None:
    """Counts of another number of classes are refused without quoting them."""
    with pytest.raises(SettingsError) as refusal:
        dominating_category(label_counts, PAPER, SIGMA)
    assert "98765" not in str(refusal.value)


@pytest.mark.parametrize("given_c", [{}, {10: 0}, {10: 0.0}])
def test_checked_thresholds_are_ordered(given_c: dict[int, float]) -> None:
    """Valid thresholds, 0 and 1 included, come back ascending, as floats, without sigma_C."""
    checked = check_thresholds(PAPER, {2: 0, 1: 1} | given_c)
    assert list(checked.items()) == [(1, 1.0), (2, 0.0)]
    assert all(type(share) is float for share in checked.values())


@pytest.mark.parametrize(
    ("thresholds", "match"),
    [
        ({1: 0.7}, r"exactly the sizes \(1, 2\)"),
        ({1: 0.7, 3: 0.1}, r"exactly the sizes \(1, 2\)"),
        ({1: 0.7, 2: 0.1, 10: 0.1}, r"thresholds\[10\]=0.1 must be 0"),
        ({1: 0.7, 2: float("nan")}, r"thresholds\[2\]=nan is not a share"),
        ({1: 0.7, 2: -1e-9}, r"thresholds\[2\]=-1e-09 is not a share"),
        ({1: 1.0 + 1e-9, 2: 0.1}, r"thresholds\[1\]=1.000000001 is not a share"),
        # Nobody guesses which size a lone number or a list is meant for.
        *((wrong, "must map sizes to shares") for wrong in (0.7, [0.7, 0.1], "0.7", None)),
    ],
)
def test_invalid_thresholds_are_refused(thresholds: Any, match: str) -> None:
    """The error names a threshold that is missing, unknown or, like NaN, not a share."""
    with pytest.raises(SettingsError, match=match):
        check_thresholds(PAPER, thresholds)


def test_longest_registry() -> None:
    """A registry of the maximum length is accepted, and refused with one more slot."""
    longest, too_long = (Codebook((1, MAX_REGISTRY_LENGTH - 1 + more)) for more in (0, 1))
    assert longest.length == MAX_REGISTRY_LENGTH
    assert check_thresholds(longest, {1: 0.5}) == {1: 0.5}
    with pytest.raises(SettingsError, match="a registry of more than 4096 slots"):
        check_thresholds(too_long, {1: 0.5})
