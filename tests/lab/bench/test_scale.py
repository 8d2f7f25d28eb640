"""Tests of the large-federation benchmark."""

from typing import Any

import pytest

from dubhe_flwr.errors import SettingsError
from dubhe_lab.bench import scale
from dubhe_lab.bench.scale import ScaleSettings


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"method": "luck"}, "method='luck' is unknown; choose one of dubhe-paper, dubhe"),
        ({"num_real": 7}, "num_real=7 must be at least 8"),
        ({"sizes": (40, 40)}, "show no growth"),
        ({"sizes": (1000, 10**6)}, "pass at least two up to 95325, the most nodes that can"),
    ],
)
def test_invalid_settings_are_refused(given: dict[str, Any], sentence: str) -> None:
    """Invalid settings are refused before anything is measured."""
    with pytest.raises(SettingsError, match=sentence):
        ScaleSettings(**given)


def test_the_bounds_apply_to_a_million_nodes() -> None:
    """The bounds are 8 s and 200 MB for a sum over a million nodes, and nearly linear growth."""
    sums = {n: {"seconds": 4.6e-6 * n, "start_mb": 90.0, "peak_mb": 95.0} for n in (10**5, 10**6)}
    epochs = {
        n: {
            "epoch_seconds": 3e-5 * n, "draw_seconds": 4e-6 * n, "drawless_seconds": 1e-4,
            "start_mb": 90.0, "peak_mb": 90.0 + n / 2000,
        }
        for n in (10**5, 10**6)
    }  # fmt: skip
    figures = scale._figures(sums, epochs)
    assert set(scale._BOUNDS) <= set(figures)
    assert figures["epoch_exponent"] == pytest.approx(1)
    assert figures["drawless_round_exponent"] == pytest.approx(0)
    assert figures["epoch_bytes_per_node_n1000000"] == pytest.approx(500)
    assert figures["sum_seconds_n1000000"] == pytest.approx(4.6)


@pytest.mark.slow
def test_memory_is_measured_in_a_fresh_process() -> None:
    """Memory is measured in a fresh process, so this process's memory does not count."""
    ballast = bytearray(2**27)
    ballast[:: 2**12] = b"x" * len(ballast[:: 2**12])
    assert scale._in_fresh_process(scale._peak_mb) < scale._peak_mb()
