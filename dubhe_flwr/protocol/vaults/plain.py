"""The vault for simulations in the clear: numbers travel unencrypted."""

from collections.abc import Iterable, Sequence

import numpy as np

from dubhe_flwr.errors import DecryptionError, InvalidCiphertextError, RefusedError
from dubhe_flwr.he.layout import MAX_SLOT_BITS
from dubhe_flwr.protocol.vaults.vault import Numbers, Seat, SumName, Vault
from dubhe_flwr.protocol.wire.messages import AppointReply, AppointRequest, RegisterRequest

_BYTES = 8  # per number


class Plain(Vault):
    """Hides nothing, since simulated nodes have nothing to hide.

    If it stands in for a committee, nodes add the members' noise to a sum when they read it, so
    that both simulations select the same clients.
    """

    def appoint(self, seat: Seat, request: AppointRequest) -> tuple[AppointReply, None]:
        """Return no key, only how the last epoch ended, sealed under an empty key."""
        del request
        if not seat.state:
            raise RefusedError("This node did not settle in the last registration period.")
        return AppointReply(state=self.sealed_state(seat, b"")), None

    def refuse(self, *_: object) -> None:
        """Take any reply: there is no key in it."""

    def delivered(
        self, asked: AppointRequest, replies: Sequence[AppointReply]
    ) -> list[RegisterRequest]:
        """Tell all nodes the same."""
        (reply,) = replies
        roster = asked.roster
        told = RegisterRequest(len(roster), mean_examples=roster.mean_examples, state=reply.state)
        return [told] * len(roster)

    def accept(self, seat: Seat, request: RegisterRequest) -> tuple[bytes, bytes]:
        """Return no keys, and how the last epoch ended."""
        del seat
        if request.opener_keys or request.public or request.sealed_key:
            raise RefusedError(
                "Nothing is encrypted in this registration period, so it has no key."
            )
        return b"", self.opened_state(request, b"")

    def hide(self, keys: bytes, sum_name: SumName, numbers: Numbers) -> bytes:
        """Return the numbers, eight bytes each."""
        del keys
        return _written(np.array(self.fields[sum_name.field].check(sum_name.field, numbers)))

    def vector_bytes(self, field: str) -> int:
        """Return eight bytes per number."""
        return _BYTES * self.fields[field].number

    def add_up(self, public: bytes, fields: Iterable[str], vectors: Iterable[bytes]) -> bytes:
        """Return the sum, after checking that it fits in 64 bits and no number is negative."""
        del public
        addends, size = list(vectors), sum(map(self.vector_bytes, fields))
        most = 2**MAX_SLOT_BITS // self.announced.max_clients
        if all(len(vector) == size for vector in addends):
            table = _numbers(b"".join(addends)).reshape(len(addends), -1)
            if table.min() >= 0 and table.max() < most:
                return _written(table.sum(axis=0))
        raise InvalidCiphertextError("A vector has the wrong length, or is out of range.")

    def read(self, keys: bytes, sum_name: SumName, total: bytes, num_clients: int) -> Numbers:
        """Return the numbers of a sum."""
        del keys
        if len(total) != self.vector_bytes(sum_name.field):
            raise DecryptionError
        return self.fields[sum_name.field].check_sum(_numbers(total), num_clients)


def _written(numbers: Numbers) -> bytes:
    return numbers.astype(">i8").tobytes()


def _numbers(vector: bytes) -> Numbers:
    return np.frombuffer(vector, dtype=">i8").astype(np.int64)
