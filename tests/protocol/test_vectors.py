"""Tests of vectors that lie end to end."""

import mmap
from pathlib import Path

import pytest

from dubhe_flwr.protocol import vectors as module
from dubhe_flwr.protocol.vectors import VectorCollector, Vectors


def collected(number: int) -> Vectors:
    """Return some vectors of three bytes."""
    collector = VectorCollector(3)
    for row in range(number):
        collector.add(row.to_bytes(3, "big"))
    return collector.vectors()


@pytest.mark.parametrize("most_in_memory", [0, 5, 29, 30, 1000])
def test_vectors_come_back_by_position(
    most_in_memory: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In memory or on disk they are the same, and no file stays behind."""
    monkeypatch.setattr(module, "_MOST_IN_MEMORY", most_in_memory)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = collected(10)
    assert len(found) == 10
    assert list(found) == [row.to_bytes(3, "big") for row in range(10)]
    assert found[7] == b"\0\0\7"
    assert type(found[7]) is type(found.to_bytes()) is bytes
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert found == collected(10)
    assert hash(found) == hash(collected(10))
    assert found != collected(9)


def test_large_ones_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit no copy is held in memory."""
    monkeypatch.setattr(module, "_MOST_IN_MEMORY", 29)
    assert type(collected(10)._data) is mmap.mmap
    assert type(collected(9)._data) is bytes


def test_a_mebibyte_is_no_reason_to_write_to_disk() -> None:
    """A file is for federations of which the memory would notice."""
    collector = VectorCollector(2**20)
    collector.add(bytes(2**20))
    assert type(collector.vectors()._data) is bytes


def test_there_may_be_none() -> None:
    """Nothing collected is nothing kept."""
    assert (len(collected(0)), list(collected(0))) == (0, [])


@pytest.mark.parametrize("index", [-1, 2, 3])
def test_a_position_without_a_vector(index: int) -> None:
    """Neither the bytes of another one nor a part of one are given out."""
    with pytest.raises(IndexError):
        Vectors(2, b"abcd")[index]


def test_bytes_of_another_size_are_refused() -> None:
    """A part of a vector is none."""
    for size, data in ((2, b"abc"), (0, b""), (-1, b"a")):
        with pytest.raises(ValueError):
            Vectors(size, data)
