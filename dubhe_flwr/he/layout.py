"""The shape of the vectors that clients add up, and their place in Paillier plaintexts.

Paillier adds plaintexts modulo an integer of thousands of bits, while a counter needs a few dozen.
One ciphertext therefore carries many counters side by side. Each slot is wide enough for the
largest possible sum, so no slot can overflow into the next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from dubhe_flwr.errors import DecryptionError, SettingsError
from dubhe_flwr.he.public_key import HEADROOM_BITS, check_key_bits, ciphertext_bytes

MAX_SLOT_BITS = 60  # pads add modulo 2^61 - 1 and leave room for negative numbers


@dataclass(frozen=True, slots=True)
class Slots:
    """The shape of a vector of counters that clients add up.

    Parameters
    ----------
    number, largest : int
        The number of counters, and the largest value that one client may put in each. The smallest
        value is 0.

    Raises
    ------
    SettingsError
        If either is below 1, or not an int.
    """

    number: int
    largest: int

    def __post_init__(self) -> None:
        for value in (self.number, self.largest):
            if type(value) is not int or value < 1:  # NumPy integers overflow
                raise SettingsError(f"{self} must have whole numbers of at least 1, Python ints.")

    def check_bits(self, max_clients: int) -> None:
        """Raise `SettingsError` if sums over this number of clients could exceed 60 bits."""
        if (max_clients * self.largest).bit_length() > MAX_SLOT_BITS:
            raise SettingsError(
                f"The sums of {max_clients} clients over {self} have more than {MAX_SLOT_BITS} "
                "bits; lower the largest value or max_clients."
            )

    def check(self, name: str, values: npt.NDArray[np.integer]) -> list[int]:
        """Return one client's counters as a list.

        Raises `SettingsError` unless they are integers in 0..largest, shape (number,). The error
        quotes no value, since the counters are the client's secret.
        """
        counters = np.asarray(values)
        if counters.shape != (self.number,) or not np.issubdtype(counters.dtype, np.integer):
            raise SettingsError(
                f"Field {name!r} got {counters.dtype} values of shape {counters.shape}: pass "
                f"integers of shape ({self.number},)."
            )
        if counters.min() < 0 or counters.max() > self.largest:
            raise SettingsError(
                f"A counter of field {name!r} lies outside 0..{self.largest}: clip or scale "
                "the counters before packing them."
            )
        found: list[int] = counters.tolist()
        return found

    def check_sum(self, sums: npt.NDArray[np.int64], num_addends: int) -> npt.NDArray[np.int64]:
        """Return sums, shape (number,), after checking that `num_addends` clients can reach them.

        Raises `DecryptionError`, without detail, if they cannot.
        """
        if sums.min() < 0 or sums.max() > num_addends * self.largest:
            raise DecryptionError
        return sums


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of every counter in the ciphertexts of an epoch.

    Every field starts in a new ciphertext and may span several; no slot straddles two. Slot 0 takes
    the lowest bits of the first plaintext.

    Parameters
    ----------
    key_bits : int
        Size of the Paillier modulus; `key_bits - 3` bits of a plaintext carry slots.
    max_clients : int
        The largest number of vectors in a sum.
    fields : mapping of str to Slots
        The vectors by name.

    Raises
    ------
    SettingsError
        If the key size is invalid, or sums could exceed 60 bits.

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
        for slots in self.fields.values():
            slots.check_bits(self.max_clients)

    def slot_bits(self, name: str) -> int:
        """Width of a slot in bits: enough for the largest sum of `max_clients` counters."""
        return (self.max_clients * self.fields[name].largest).bit_length()

    def slots_per_ciphertext(self, name: str) -> int:
        """Return the number of the field's slots that fit into one ciphertext."""
        return (self.key_bits - HEADROOM_BITS) // self.slot_bits(name)

    def num_ciphertexts(self, name: str) -> int:
        """Return the number of ciphertexts that the field spans."""
        return -(-self.fields[name].number // self.slots_per_ciphertext(name))

    def field_bytes(self, name: str) -> int:
        """Size of the encrypted field in bytes."""
        return self.num_ciphertexts(name) * ciphertext_bytes(self.key_bits)

    def pack(self, name: str, values: npt.NDArray[np.integer]) -> list[int]:
        """Pack one client's counters into plaintexts, one for each of the field's ciphertexts.

        Raises `SettingsError` if the counters do not fit the field (see `Slots.check`).
        """
        slots = self.fields[name].check(name, values)
        width, step = self.slot_bits(name), self.slots_per_ciphertext(name)
        parts = [slots[start : start + step] for start in range(0, len(slots), step)]
        return [reduce(lambda high, slot: high << width | slot, part[::-1], 0) for part in parts]

    def unpack(
        self, name: str, plaintexts: Sequence[int], num_addends: int
    ) -> npt.NDArray[np.int64]:
        """Unpack the sum of the counters of `num_addends` clients, shape (number,).

        Raises `DecryptionError`, without detail, if the plaintexts, one for each ciphertext, cannot
        be such a sum: their number is wrong, bits are set outside the slots, or a slot exceeds the
        largest possible sum. Raises `SettingsError` if `num_addends` is not between 1 and
        `max_clients`.

        >>> layout = Layout(512, 7, {"registry": Slots(3, 1)})
        >>> layout.pack("registry", np.array([1, 0, 1])) == [0b_001_000_001]
        True
        >>> layout.unpack("registry", [0b_010_000_001], num_addends=2)
        array([1, 0, 2])
        """
        field = self.fields[name]
        if not 1 <= num_addends <= self.max_clients:
            raise SettingsError(
                f"num_addends={num_addends} lies outside 1..{self.max_clients}: pass the number "
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
