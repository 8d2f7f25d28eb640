"""The vault for simulations in the clear: numbers travel unencrypted."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dubhe_flwr.errors import DecryptionError, InvalidCiphertextError, RefusedError
from dubhe_flwr.he.layout import MAX_SLOT_BITS
from dubhe_flwr.protocol.vaults.vault import Adder, Numbers, Seat, SumName, Vault
from dubhe_flwr.protocol.wire.messages import (
    KeygenReply,
    KeygenRequest,
    RegisterRequest,
)

_BYTES = 8  # of a number


class Plain(Vault):
    """Hides nothing, since simulated nodes have nothing to hide.

    If it stands in for a committee, `num_members` is the number of members. Nodes then add the
    members' noise to a sum when they read it, so that both simulations select the same clients.
    """

    def make_key(self, seat: Seat, request: KeygenRequest) -> KeygenReply:
        """Return no key, only how the last epoch ended, sealed under an empty key."""
        if self.announced.continues is None:
            return super().make_key(seat, request)
        return KeygenReply(b"", b"", state=self.sealed_state(seat, b""))

    def accept(
        self, seat: Seat, request: RegisterRequest, before: bytes | None
    ) -> tuple[bytes, bytes]:
        """Return no keys, and how the last epoch ended."""
        del seat
        if request.key is not None or request.committee is not None:
            raise RefusedError("Nothing is encrypted in this epoch: it has no key or committee.")
        if before is not None:
            raise RefusedError("This node has already registered in this epoch.")
        return b"", self.opened_state(request, b"")

    def hide(self, keys: bytes, sum_name: SumName, numbers: Numbers) -> bytes:
        """Return the numbers, eight bytes each."""
        del keys
        return _written(np.array(self.fields[sum_name.field].check(sum_name.field, numbers)))

    def vector_bytes(self, field: str) -> int:
        """Return eight bytes per number."""
        return _BYTES * self.fields[field].number

    def adder(self, public: bytes, *fields: str) -> Adder:
        """Return an adder of plain numbers."""
        del public
        most = 2**MAX_SLOT_BITS // self.announced.max_clients
        return _PlainAdder(sum(map(self.vector_bytes, fields)), most)

    def read(self, keys: bytes, sum_name: SumName, total: bytes, num_clients: int) -> Numbers:
        """Return the numbers of a sum."""
        del keys
        if len(total) != self.vector_bytes(sum_name.field):
            raise DecryptionError
        return self.fields[sum_name.field].check_sum(_numbers(total), num_clients)


@dataclass(frozen=True, slots=True)
class _PlainAdder(Adder):
    vector_bytes: int
    most: int  # numbers are below it, so that a sum fits in 64 bits

    def add_up(self, vectors: Iterable[bytes]) -> bytes:
        """Return the sum of the vectors."""
        addends = list(vectors)
        if not all(map(self.is_valid, addends)):
            raise InvalidCiphertextError("A vector has the wrong length, or is out of range.")
        return _written(np.sum([_numbers(vector) for vector in addends], axis=0))

    def is_valid(self, vector: bytes) -> bool:
        """Return whether a vector has the right length, and no negative or huge numbers."""
        if len(vector) != self.vector_bytes:
            return False
        numbers = _numbers(vector)
        return bool(numbers.min() >= 0 and numbers.max() < self.most)


def _written(numbers: Numbers) -> bytes:
    return numbers.astype(">i8").tobytes()


def _numbers(vector: bytes) -> Numbers:
    return np.frombuffer(vector, dtype=">i8").astype(np.int64)
