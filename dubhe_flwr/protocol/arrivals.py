"""Nodes that join, and what each is sent next, without an object for each of them."""

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from functools import cached_property
from typing import Generic, TypeVar

from dubhe_flwr.he import SIGNATURE_BYTES
from dubhe_flwr.protocol.messages import PUBLIC_KEY_BYTES, JoinReply
from dubhe_flwr.protocol.selector import alias_order

__all__ = ["Arrivals", "ByPosition"]

T = TypeVar("T")


class Arrivals:
    """Alias, key and signature of each node, in the order in which the replies are read."""

    def __init__(self) -> None:
        self.aliases: dict[int, str] = {}
        self._public_keys = bytearray()
        self._signatures = bytearray()

    def add(self, node_id: int, reply: JoinReply) -> None:
        """Take what a node that joins has sent."""
        self.aliases[node_id] = reply.alias
        self._public_keys += reply.public_key
        self._signatures += reply.signature

    def in_order(self) -> tuple[dict[int, str], bytes, bytes]:
        """Return aliases, and keys and signatures end to end, in the order of the aliases."""
        order = alias_order(self.aliases)
        public_keys, signatures = bytes(self._public_keys), bytes(self._signatures)
        if order == tuple(self.aliases):
            return self.aliases, public_keys, signatures
        position = {node_id: row for row, node_id in enumerate(self.aliases)}
        rows = [position[node_id] for node_id in order]
        return (
            {node_id: self.aliases[node_id] for node_id in order},
            _permuted(public_keys, rows, PUBLIC_KEY_BYTES),
            _permuted(signatures, rows, SIGNATURE_BYTES),
        )


def _permuted(joined: bytes, rows: list[int], size: int) -> bytes:
    return b"".join(joined[row * size : (row + 1) * size] for row in rows)


class ByPosition(Mapping[int, T], Generic[T]):
    """A value for each node id, computed from its position whenever it is looked at.

    Parameters
    ----------
    node_ids : mapping of int
        Its keys are the nodes, in order.
    value : callable (int) -> T
        From the position of a node to its value.

    Examples
    --------
    >>> squares = ByPosition({30: "a", 10: "b", 20: "c"}, lambda position: position**2)
    >>> dict(squares), squares[20]
    ({30: 0, 10: 1, 20: 4}, 4)
    """

    def __init__(self, node_ids: Mapping[int, object], value: Callable[[int], T]) -> None:
        self._node_ids = node_ids
        self._value = value

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {node_id: position for position, node_id in enumerate(self._node_ids)}

    def __getitem__(self, node_id: int) -> T:
        return self._value(self._positions[node_id])

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._node_ids

    def __iter__(self) -> Iterator[int]:
        return iter(self._node_ids)

    def __len__(self) -> int:
        return len(self._node_ids)

    def items(self) -> ItemsView[int, T]:
        """Return nodes and values, without looking up any position."""
        return _Items(self)

    def values(self) -> ValuesView[T]:
        """Return the values, without looking up any position."""
        return _Values(self)

    def in_order(self) -> Iterator[T]:
        """Yield the values."""
        return map(self._value, range(len(self)))


class _Items(ItemsView[int, T]):
    _mapping: ByPosition[T]

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return zip(self._mapping, self._mapping.in_order(), strict=True)


class _Values(ValuesView[T]):
    _mapping: ByPosition[T]

    def __iter__(self) -> Iterator[T]:
        return self._mapping.in_order()
