"""Whether the clients of a comparison train together is decided by setting, device and engine."""

import pytest
from small_comparison import small_settings

from dubhe_flwr.experiments.compare import trains_together


@pytest.mark.parametrize(
    ("cohort", "device", "expected"),
    [
        ("auto", "cuda", True),
        ("auto", "cpu", False),
        ("on", "cpu", True),
        ("off", "cuda", False),
    ],
)
def test_in_one_process(cohort: str, device: str, expected: bool) -> None:
    """By default on a GPU alone; what was asked for counts."""
    assert trains_together(small_settings(cohort=cohort), device) is expected


def test_never_on_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nodes are processes of their own."""
    monkeypatch.setattr("dubhe_flwr.experiments.settings.find_spec", lambda _name: object())
    assert not trains_together(small_settings(engine="ray"), "cuda")
