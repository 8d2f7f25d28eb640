"""Many encrypted vectors of one size, end to end: no Python object for each of a million nodes."""

import mmap
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Final

__all__ = ["VectorCollector", "Vectors"]

_MOST_IN_MEMORY: Final = 2**26
"""Bytes above which vectors lie in a temporary file that is memory-mapped."""


class Vectors:
    """Byte strings of one size, by position. It is never changed.

    Parameters
    ----------
    size : int
        Bytes of each, at least 1.
    data : bytes or mmap
        All of them, end to end.

    Examples
    --------
    >>> vectors = Vectors(2, b"abcd")
    >>> len(vectors), vectors[1], list(vectors)
    (2, b'cd', [b'ab', b'cd'])
    """

    __slots__ = ("_data", "size")

    def __init__(self, size: int, data: bytes | mmap.mmap) -> None:
        if size < 1 or len(data) % size:
            raise ValueError
        self.size = size
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // self.size

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._data[index * self.size : (index + 1) * self.size]

    def __iter__(self) -> Iterator[bytes]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Vectors)
            and self.size == other.size
            and (self.to_bytes() == other.to_bytes())
        )

    def __hash__(self) -> int:
        return hash((self.size, self.to_bytes()))

    def __repr__(self) -> str:
        return f"Vectors({len(self)} of {self.size} bytes)"

    def to_bytes(self) -> bytes:
        """Return all of them, end to end."""
        return self._data[:]


class VectorCollector:
    """Takes byte strings one after the other; above 64 MiB they go to disk, to TMPDIR.

    Parameters
    ----------
    size : int
        Bytes of each.

    Examples
    --------
    >>> collector = VectorCollector(2)
    >>> collector.add(b"ab")
    >>> collector.add(b"cd")
    >>> collector.vectors()
    Vectors(2 of 2 bytes)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._file = SpooledTemporaryFile(_MOST_IN_MEMORY)  # noqa: SIM115 - closed by `vectors`

    def add(self, vector: bytes) -> None:
        """Add one."""
        self._file.write(vector)

    def vectors(self) -> Vectors:
        """Return all of them, once."""
        with self._file as file:
            num_bytes = file.tell()
            if num_bytes <= _MOST_IN_MEMORY:
                file.seek(0)
                return Vectors(self._size, file.read())
            file.flush()
            # The map outlives the file, which vanishes with it.
            mapped = mmap.mmap(file.fileno(), num_bytes, access=mmap.ACCESS_READ)
            return Vectors(self._size, mapped)
