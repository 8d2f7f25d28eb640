"""Tests of packing counters into plaintexts."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import DecryptionError, SettingsError
from dubhe_flwr.he.layout import Layout, Slots

Counters = npt.NDArray[np.int64]

REGISTRY = Slots(56, 1)
DISTRIBUTION = Slots(62, 2**20)
LAYOUT = Layout(2048, 8962, {"registry": REGISTRY, "distribution": DISTRIBUTION})


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw a layout of any shape with slots of up to 62 bits."""
    max_clients = draw(st.integers(1, 2**20))
    numbers = st.tuples(st.integers(1, 60), st.integers(1, (2**62 - 1) // max_clients))
    fields = draw(st.lists(numbers, min_size=1, max_size=3))
    return Layout(
        draw(st.sampled_from([512, 768, 2048])),
        max_clients,
        {f"field{index}": Slots(*field) for index, field in enumerate(fields)},
    )


@given(layout=layouts())
def test_no_slot_overflows_into_the_next(layout: Layout) -> None:
    """The largest possible sum, all slots of all clients full, unpacks correctly."""
    for name, slots in layout.fields.items():
        counters = np.full(slots.number, slots.largest)
        plaintexts = [plaintext * layout.max_clients for plaintext in layout.pack(name, counters)]
        assert max(plaintexts) < 1 << (layout.key_bits - 3)
        total = layout.unpack(name, plaintexts, layout.max_clients)
        assert total.dtype == np.int64
        np.testing.assert_array_equal(total, counters * layout.max_clients)


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
def test_unfit_counters_are_not_packed(values: Counters) -> None:
    """Counters of the wrong range, shape or type are refused; no error quotes a client's secret."""
    with pytest.raises(SettingsError, match="distribution") as refusal:
        LAYOUT.pack("distribution", values)
    assert "1048577" not in str(refusal.value)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda first, _: [first], id="ciphertext missing"),
        pytest.param(lambda *parts: [*parts, 0], id="ciphertext too many"),
        pytest.param(lambda *_: [], id="nothing"),
        pytest.param(lambda first, last: [first + 1, last], id="first slot too large"),
        pytest.param(lambda first, last: [first, last + (1 << 34)], id="last slot too large"),
        pytest.param(lambda first, last: [first | 1 << 60 * 34, last], id="bit above full slots"),
        pytest.param(lambda first, last: [first, last | 1 << 2 * 34], id="bit above last slots"),
        pytest.param(lambda first, last: [first | 1 << 2047, last], id="bit in the headroom"),
        pytest.param(lambda first, last: [first - (1 << 60 * 34), last], id="negative"),
    ],
)
def test_impossible_sum_is_not_unpacked(change: Callable[..., list[int]]) -> None:
    """Plaintexts that two clients cannot have added up to are refused without detail."""
    full = LAYOUT.pack("distribution", np.full(62, DISTRIBUTION.largest))
    first, last = (2 * part for part in full)
    assert LAYOUT.unpack("distribution", [first, last], 2).sum() == 124 * 2**20
    with pytest.raises(DecryptionError) as refusal:
        LAYOUT.unpack("distribution", change(first, last), num_addends=2)
    assert refusal.value.args == ()


@pytest.mark.parametrize("num_addends", [0, -1, 8963])
def test_number_of_addends_is_bounded(num_addends: int) -> None:
    """A sum has at least one client, and at most the number the layout was made for."""
    with pytest.raises(SettingsError, match=f"num_addends={num_addends}"):
        LAYOUT.unpack("registry", [0], num_addends)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Slots(0, 1), "number=0"),
        (lambda: Slots(1, 0), "largest=0"),
        (lambda: Layout(496, 10, {"registry": REGISTRY}), "key_bits=496"),
        (lambda: Layout(2056, 10, {"registry": REGISTRY}), "key_bits=2056"),
        (lambda: Layout(2048, 8, {"wide": Slots(1, 2**59)}), "more than 62 bits"),
    ],
)
def test_bad_settings_are_refused(make: Callable[[], object], named: str) -> None:
    """Settings that cannot work are refused, and the error names them."""
    with pytest.raises(SettingsError, match=named):
        make()
