"""How vectors of counters are packed in the slots of Paillier plaintexts.

Paillier adds plaintexts modulo an integer of thousands of bits, while a counter needs a few dozen.
So one ciphertext carries many counters side by side, each in a slot wide enough for the largest
sum that may ever stand in it: no slot can overflow into the next one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from dubhe_flwr.errors import DecryptionError, SettingsError
from dubhe_flwr.he.public_key import HEADROOM_BITS, check_key_bits, ciphertext_bytes

MAX_SLOT_BITS = 62  # every sum, and the bound it is compared with, fits a signed 64-bit integer


@dataclass(frozen=True, slots=True)
class Slots:
    """The shape of a vector of counters that clients add up.

    Parameters
    ----------
    number, largest : int
        How many counters it has, and the largest value that one client may put in each; the least
        is 0. Both are at least 1, or it is a `SettingsError`.
    """

    number: int
    largest: int

    def __post_init__(self) -> None:
        if min(self.number, self.largest) < 1:
            raise SettingsError(f"{self} holds nothing: give number and largest at least 1.")

    def check(self, name: str, values: npt.NDArray[np.integer]) -> list[int]:
        """Return one client's counters as a list, if they have this shape.

        They are integers in 0..largest, shape (number,), or it is a `SettingsError`. It names no
        value, since the counters are the client's secret.
        """
        counters = np.asarray(values)
        if counters.shape != (self.number,) or not np.issubdtype(counters.dtype, np.integer):
            raise SettingsError(
                f"Field {name!r} got {counters.dtype} values of shape {counters.shape}: give "
                f"integers of shape ({self.number},)."
            )
        if counters.min() < 0 or counters.max() > self.largest:
            raise SettingsError(
                f"A counter of field {name!r} lies outside 0..{self.largest}: clip or scale "
                "the counters before they are packed."
            )
        found: list[int] = counters.tolist()
        return found

    def check_sum(self, sums: npt.NDArray[np.int64], num_addends: int) -> npt.NDArray[np.int64]:
        """Return the sums, shape (number,), if so many clients can add up to them.

        Otherwise it is a `DecryptionError`, which carries no detail.
        """
        if sums.min() < 0 or sums.max() > num_addends * self.largest:
            raise DecryptionError
        return sums


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of every counter in the ciphertexts of an epoch.

    Every field starts in a ciphertext of its own and spans as many as it needs; a slot never
    straddles two. Slot 0 takes the lowest bits of the first plaintext. Whatever cannot work, such
    as sums that could exceed 62 bits, is a `SettingsError`.

    Parameters
    ----------
    key_bits : int
        Size of the Paillier modulus; `key_bits - 3` bits of a plaintext carry slots.
    max_clients : int
        Largest number of vectors that are ever summed.
    fields : mapping of str to Slots
        The vectors by name.

    Examples
    --------
    >>> layout = Layout(2048, 1000, {"registry": Slots(56, 1), "distribution": Slots(10, 2**20)})
    >>> layout.slot_bits("registry"), layout.num_ciphertexts("registry")
    (10, 1)
    >>> layout.field_bytes("registry")
    512
    """

    key_bits: int
    max_clients: int
    fields: Mapping[str, Slots]

    def __post_init__(self) -> None:
        check_key_bits(self.key_bits)
        if self.max_clients < 1:
            raise SettingsError(f"max_clients={self.max_clients}: give it at least 1.")
        if not self.fields:
            raise SettingsError("A layout has no field: give it at least one.")
        for name in self.fields:
            if self.slot_bits(name) > MAX_SLOT_BITS:
                raise SettingsError(
                    f"Field {name!r} needs slots of {self.slot_bits(name)} bits where "
                    f"{MAX_SLOT_BITS} is the most: lower its largest value or max_clients."
                )

    def field(self, name: str) -> Slots:
        """Return the shape of the field of that name; `SettingsError` if there is none."""
        if name not in self.fields:
            raise SettingsError(
                f"The layout has no field {name!r}: choose one of {list(self.fields)}."
            )
        return self.fields[name]

    def slot_bits(self, name: str) -> int:
        """Width of a slot in bits: that of the largest sum of `max_clients` counters."""
        return (self.max_clients * self.field(name).largest).bit_length()

    def slots_per_ciphertext(self, name: str) -> int:
        """Return how many slots of the field one ciphertext can carry."""
        return (self.key_bits - HEADROOM_BITS) // self.slot_bits(name)

    def num_ciphertexts(self, name: str) -> int:
        """Return how many ciphertexts the field spans."""
        return -(-self.field(name).number // self.slots_per_ciphertext(name))

    def field_bytes(self, name: str) -> int:
        """Size of the encrypted field in bytes."""
        return self.num_ciphertexts(name) * ciphertext_bytes(self.key_bits)

    def pack(self, name: str, values: npt.NDArray[np.integer]) -> list[int]:
        """Pack the counters of one client, one plaintext for each ciphertext that the field spans.

        What does not fit the field is a `SettingsError` (`Slots.check`).
        """
        slots = self.field(name).check(name, values)
        width, step = self.slot_bits(name), self.slots_per_ciphertext(name)
        parts = [slots[start : start + step] for start in range(0, len(slots), step)]
        return [reduce(lambda high, slot: high << width | slot, part[::-1], 0) for part in parts]

    def unpack(
        self, name: str, plaintexts: Sequence[int], num_addends: int
    ) -> npt.NDArray[np.int64]:
        """Unpack the sum of the counters of so many clients, shape (number,).

        If the plaintexts, one for each ciphertext, cannot be such a sum, it is a `DecryptionError`:
        wrong in number, with bits outside the slots, or with a slot above what so many clients can
        add up to. It carries no detail. More than `max_clients` are a `SettingsError`.

        >>> layout = Layout(512, 7, {"registry": Slots(3, 1)})
        >>> layout.pack("registry", np.array([1, 0, 1])) == [0b_001_000_001]
        True
        >>> layout.unpack("registry", [0b_010_000_001], num_addends=2)
        array([1, 0, 2])
        """
        field = self.field(name)
        if not 1 <= num_addends <= self.max_clients:
            raise SettingsError(
                f"num_addends={num_addends} lies outside 1..{self.max_clients}: give the number "
                "of clients in the sum."
            )
        if len(plaintexts) != self.num_ciphertexts(name):
            raise DecryptionError
        width, step = self.slot_bits(name), self.slots_per_ciphertext(name)
        mask = (1 << width) - 1
        slots: list[int] = []
        for plaintext in plaintexts:
            num_here = min(step, field.number - len(slots))
            if not 0 <= plaintext < 1 << (num_here * width):
                raise DecryptionError
            slots += [(plaintext >> (index * width)) & mask for index in range(num_here)]
        return field.check_sum(np.array(slots, dtype=np.int64), num_addends)

    def digest(self) -> bytes:
        """Return the SHA-256 digest of the layout, to be bound into the context of an epoch."""
        description = {
            "key_bits": self.key_bits,
            "max_clients": self.max_clients,
            "fields": [[name, slots.number, slots.largest] for name, slots in self.fields.items()],
        }
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).digest()
