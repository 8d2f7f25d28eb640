"""A method sets its settings, and a cell's identity holds what its method depends on."""

import pytest

from dubhe_lab.experiments import METHODS, CompareSettings, StudySettings
from dubhe_lab.paper.experiment import Method, deciding, identity


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_a_valid_selection(name: str) -> None:
    """Every method is a valid selection, with and without a number of tries."""
    for method in (Method(name), Method(name, tries=5)):
        settings = StudySettings.of(**method.settings)
        is_dubhe = method.kind == "dubhe"
        assert (settings.selection.tries == 5) == (is_dubhe and method.tries == 5)
        assert is_dubhe or (method.settings, method.kind) == ({}, name)


def test_a_cell_depends_on_what_its_method_uses() -> None:
    """A baseline's cells do not depend on Dubhe's settings, so new defaults keep them."""
    some, other = StudySettings.of(tries=3), StudySettings.of(tries=7, coverage=0.4)
    assert identity(some, Method("greedy")) == identity(other, Method("greedy"))
    assert identity(some, Method("dubhe")) != identity(other, Method("dubhe"))
    assert identity(some, Method("dubhe"), ("tries",)).keys().isdisjoint({"tries"})
    assert {"num_participants", "seed", "rho"} <= identity(some, Method("random")).keys()
    assert identity(some, Method("dubhe-paper"))["method"] == "dubhe"


def test_stored_cells_outlive_a_new_setting() -> None:
    """A setting that they lack counts only if it differs from its default."""
    usual, other = CompareSettings.of(), CompareSettings.of(proximal=0.1)
    assert deciding(usual).keys().isdisjoint({"local_loss", "proximal"})
    assert deciding(other) == deciding(usual) | {"proximal": 0.1}
