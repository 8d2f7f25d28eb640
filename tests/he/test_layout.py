"""Tests of packing counters into plaintexts."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import DecryptionError, SettingsError
from dubhe_flwr.he.layout import Layout, Slots

LAYOUT = Layout(2048, 8962, {"distribution": Slots(62, 2**20)})


@given(
    key_bits=st.sampled_from([512, 768, 2048]),
    max_clients=st.integers(1, 2**20),
    number=st.integers(1, 60),
    largest=st.integers(1, 2**40 - 1),
)
def test_no_slot_overflows_into_the_next(
    key_bits: int, max_clients: int, number: int, largest: int
) -> None:
    """The largest possible sum, all slots of all clients full, unpacks correctly."""
    layout = Layout(key_bits, max_clients, {"field": Slots(number, largest)})
    counters = np.full(number, largest)
    plaintexts = [plaintext * max_clients for plaintext in layout.pack("field", counters)]
    assert max(plaintexts) < 1 << (key_bits - 3)
    total = layout.unpack("field", plaintexts, max_clients)
    np.testing.assert_array_equal(total, counters * max_clients)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.eye(1, 62, 5, dtype=int)[0] * -1, id="negative"),
        pytest.param(np.eye(1, 62, 5, dtype=int)[0] * (2**20 + 1), id="too large"),
        pytest.param(np.zeros(61, dtype=int), id="too short"),
        pytest.param(np.zeros((62, 1), dtype=int), id="two-dimensional"),
        pytest.param(np.zeros(62), id="float"),
        pytest.param(np.zeros(62, dtype=bool), id="bool"),
    ],
)
def test_unfit_counters_are_not_packed(values: npt.NDArray[np.int64]) -> None:
    """Counters of the wrong range, shape or type are refused; no error quotes a client's secret."""
    with pytest.raises(SettingsError, match="distribution") as refusal:
        LAYOUT.pack("distribution", values)
    assert "1048577" not in str(refusal.value)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda first, _: [first], id="ciphertext missing"),
        pytest.param(lambda *parts: [*parts, 0], id="ciphertext too many"),
        pytest.param(lambda first, last: [first + 1, last], id="first slot too large"),
        pytest.param(lambda first, last: [first, last + (1 << 34)], id="last slot too large"),
        pytest.param(lambda first, last: [first | 1 << 60 * 34, last], id="bit above full slots"),
        pytest.param(lambda first, last: [first, last | 1 << 2 * 34], id="bit above last slots"),
        pytest.param(lambda first, last: [first - (1 << 60 * 34), last], id="negative"),
    ],
)
def test_impossible_sum_is_not_unpacked(change: Callable[..., list[int]]) -> None:
    """Plaintexts that two clients cannot have added up to are refused without detail."""
    full = LAYOUT.pack("distribution", np.full(62, 2**20))
    first, last = (2 * part for part in full)
    assert LAYOUT.unpack("distribution", [first, last], 2).sum() == 124 * 2**20
    with pytest.raises(DecryptionError) as refusal:
        LAYOUT.unpack("distribution", change(first, last), num_addends=2)
    assert refusal.value.args == ()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: LAYOUT.unpack("distribution", [0, 0], 0), "num_addends=0"),
        (lambda: LAYOUT.unpack("distribution", [0, 0], 8963), "num_addends=8963"),
        (lambda: Slots(0, 1), "number=0"),
        (lambda: Slots(1, 0), "largest=0"),
        (
            lambda: Slots(1, np.ones(1, int)[0]),
            "must have whole numbers of at least 1, Python ints",
        ),
        (lambda: Layout(496, 10, {}), "key_bits=496"),
        (lambda: Layout(2048, 8, {"wide": Slots(1, 2**59)}), "more than 60 bits"),
    ],
)
def test_bad_settings_are_refused(make: Callable[[], object], named: str) -> None:
    """Settings that cannot work are refused, and the error names them."""
    with pytest.raises(SettingsError, match=named):
        make()
