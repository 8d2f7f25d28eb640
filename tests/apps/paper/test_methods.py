"""Ways of selecting are data that become settings of the protocol."""

import pytest
from reproduction import Method

from dubhe_flwr.experiments.methods import DUBHE_RULES
from dubhe_flwr.protocol import Settings


@pytest.mark.parametrize("name", DUBHE_RULES)
def test_every_variant_is_a_valid_selection(name: str) -> None:
    """With and without a number of tries."""
    for method in (Method(name), Method(name, tries=5)):
        settings = Settings(num_participants=20, reference_set=(1, 2, 10), **method.settings)
        assert method.tries is None or settings.tries == method.tries


def test_the_paper_is_eq_6_and_tries() -> None:
    """Whatever the defaults are."""
    settings = Method("dubhe-paper", 10).settings
    assert settings["participation"] == "paper"
    assert settings["determination"] == "tries"
    assert settings["tries"] == 10


def test_baselines_set_nothing() -> None:
    """They are known to a comparison by their own names."""
    for name in ("random", "greedy"):
        assert Method(name).settings == {}
        assert Method(name).kind == str(Method(name)) == name
