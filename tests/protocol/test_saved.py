"""Tests of the way in which values become JSON and come back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.he.public_key import PublicKey, Unencrypted
from dubhe_flwr.he.secret_key import generate_secret_key
from dubhe_flwr.protocol.saved import check_keys, from_json, to_json


@dataclass(frozen=True)
class Inner:
    """A part of another one."""

    size: int = 0

    def __post_init__(self) -> None:
        if self.size < 0:
            raise SettingsError("size is below 0.")


@dataclass(frozen=True)
class Sample:
    """One field of each type that states have."""

    name: str
    yes: bool
    number: int
    share: float
    key: bytes
    maybe: bytes | None
    count: int | None
    numbers: tuple[int, ...]
    shares: tuple[float, ...]
    vectors: tuple[bytes, ...]
    nodes: frozenset[int]
    inner: Inner | None
    by_number: Mapping[int, Inner]


@given(
    st.builds(
        Sample,
        share=st.floats(allow_nan=False),
        inner=st.none() | st.builds(Inner, st.integers(0)),
        by_number=st.dictionaries(st.integers(), st.builds(Inner, st.integers(0))),
        shares=st.just((0.1, 1e-300)),
    )
)
def test_values_come_back(sample: Sample) -> None:
    """Bit for bit, floats included."""
    assert from_json(Sample, json.loads(json.dumps(to_json(sample))), "sample") == sample


def test_keys_come_back() -> None:
    """One that encrypts and one that does not, where either may stand."""
    kind: Any = PublicKey | Unencrypted
    for key in (generate_secret_key(512).public_key, Unencrypted(512)):
        assert from_json(kind, json.loads(json.dumps(to_json(key))), "key") == key


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (float, 10**400), (float, "1"), (int, 1.0), (int, True), (bool, 1), (bytes, "not base64!"),
        (bytes, 7), (PublicKey, "AA=="), (tuple[int, ...], {"0": 1}), (frozenset[int], [[1]]),
        (Mapping[int, int], [1]), (Mapping[int, int], {"x": 1}), (Inner, {"size": -1}),
        (int | None, "1"),
    ],
)  # fmt: skip
def test_what_does_not_belong_there_is_refused(kind: Any, data: Any) -> None:
    """The sentence says where it stands, and nothing of what a class says itself."""
    with pytest.raises(CheckpointError, match=r"^here.*: '\w+' is not what belongs here; the stat"):
        from_json(kind, data, "here")


def test_an_error_names_the_place() -> None:
    """Down to the field."""
    data = to_json(
        Sample("a", True, 1, 1.0, b"", None, 1, (), (), (), frozenset(), None, {3: Inner()})
    )
    data["by_number"]["3"]["size"] = "large"
    with pytest.raises(
        CheckpointError, match=r"^sample.by_number.3.size: 'str' is not what belongs"
    ):
        from_json(Sample, data, "sample")
    del data["by_number"]["3"]["size"]
    with pytest.raises(CheckpointError, match=r"^sample.by_number.3: key 'size' is missing; load"):
        from_json(Sample, data, "sample")


def test_keys_must_be_those_that_are_wanted() -> None:
    """None missing and none too many."""
    assert check_keys({"a": 1, "b": 2}, ["b", "a"], "here") == {"a": 1, "b": 2}
    with pytest.raises(CheckpointError, match="here: key 'b' is missing"):
        check_keys({"a": 1, "c": 1}, ["a", "b"], "here")
    with pytest.raises(CheckpointError, match="here: list is not a dictionary"):
        check_keys(["a"], ["a"], "here")
