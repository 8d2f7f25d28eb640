"""Colours belong to methods, and a missing matplotlib is explained."""

import sys

import pytest

from dubhe_flwr.errors import DubheError
from dubhe_flwr.report.style import method_colours, require_matplotlib


def test_a_method_keeps_its_colour_in_every_company() -> None:
    """Known methods look the same in each figure, and all methods of a figure differ."""
    together = method_colours(["a", "random", "b", "dubhe", "greedy"])
    assert len(set(together.values())) == 5
    assert together["dubhe"] == method_colours(["dubhe"])["dubhe"]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install draws nothing, and says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DubheError, match=r"dubhe-flwr\[report\]"):
        require_matplotlib()
