"""Tests of the benchmark of encryption."""

import pytest
from bench import crypto
from bench.crypto import CryptoSettings


@pytest.mark.parametrize(("slow", "kept"), [(1.0, True), (1.2, False)])
def test_bounds_are_those_of_real_keys(slow: float, kept: bool) -> None:
    """Ratios are those of medians."""
    seconds = {
        "encrypt, element by element": 0.457, "encrypt": 0.0023 * slow, "floor": 0.00219,
        "decrypt, element by element": 0.127, "decrypt": 0.0023, "sum": 0.0046,
        "sum, products only": 0.004, "seal": 5e-5, "open": 0.003, "seal, key agreement only": 4e-5,
    }  # fmt: skip
    timings = {name: [value, value, 9.0] for name, value in seconds.items()}
    num_bytes = {"element by element": 28672, "packed": 512}
    content = crypto._results(CryptoSettings(), timings, num_bytes).to_dict()
    assert content["encrypt_over_floor"] == pytest.approx(1.05 * slow, rel=0.001)
    assert content["encrypt_ratio_vs_phe"] == pytest.approx(198.7 / slow, rel=0.001)
    assert content["server_us_per_client"] == pytest.approx(4.6)
    assert content["wanted"]["encrypt_over_floor"] == {"bound": "at most 1.1", "kept": kept}
    assert len(content["wanted"]) == 5
