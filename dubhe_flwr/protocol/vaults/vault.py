"""What a vault is: how nodes hide their numbers, how the server adds them up, who reads a sum.

A vault belongs to the terms of an epoch and holds no secret. What a node needs to hide and to read
are its *keys*, what the server needs to add up is *public*; each vault writes both as bytes of its
own form. Any rule runs on any vault.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import MAX_SLOT_BITS, Slots
from dubhe_flwr.he.sealing import RecipientKey
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol.wire.messages import (
    JoinRequest,
    KeygenReply,
    KeygenRequest,
    RegisterRequest,
)

Numbers = NDArray[np.int64]


class Label(NamedTuple):
    """Names one sum of an epoch."""

    field: str
    exchange: int = 0  # 0 for the registrations


@dataclass(frozen=True, slots=True, repr=False)  # a secret key
class Seat:
    """What a node brings to an epoch: its key for delivery, and the keys that it trusts."""

    epoch: bytes
    private_key: bytes  # for delivery; empty where nothing is sealed for the node
    pinned: PinnedKeys | None

    @property
    def delivery_key(self) -> RecipientKey:
        """The key for delivery."""
        return RecipientKey.from_bytes(self.private_key)


class Adder(ABC):
    """Adds up hidden vectors, at the server."""

    @abstractmethod
    def add_up(self, vectors: Iterable[bytes]) -> bytes:
        """Return the sum of at least one vector.

        Raises `InvalidCiphertextError` if one of them cannot be added up.
        """

    @abstractmethod
    def is_valid(self, vector: bytes) -> bool:
        """Return whether a vector can be added up."""


class Vault(ABC):
    """Hides the numbers of nodes, adds them up, and opens their sums.

    Parameters
    ----------
    announced : JoinRequest
        What the nodes were told of the epoch.
    fields : mapping of str to Slots
        The shapes of the vectors that are added up, by name.

    Raises
    ------
    SettingsError
        If it cannot hold such vectors.
    """

    num_members: int = 0
    """Members of a committee, each of which adds noise to a sum; without one all nodes add some."""

    def __init__(self, announced: JoinRequest, fields: Mapping[str, Slots]) -> None:
        self.announced = announced
        self.fields = fields
        for name, field in fields.items():
            if (announced.max_clients * field.largest).bit_length() > MAX_SLOT_BITS:
                raise SettingsError(
                    f"The sums of field {name!r} have more than {MAX_SLOT_BITS} bits; lower its "
                    "largest value or max_clients."
                )

    def make_key(self, seat: Seat, request: KeygenRequest) -> KeygenReply:
        """Make the key of the epoch, at the node that is asked for it."""
        del seat, request
        raise RefusedError("No node makes a key for this epoch.")

    @abstractmethod
    def accept(self, seat: Seat, request: RegisterRequest, before: bytes | None) -> bytes:
        """Return a node's keys from what it was sent; `before` are those that it had, if any.

        Raises `RefusedError` or `UntrustedError` if the node may not register with them.
        """

    @abstractmethod
    def hide(self, keys: bytes, label: Label, numbers: Numbers) -> bytes:
        """Return a node's numbers as they travel.

        Raises `SettingsError`, which names no value, if they do not fit the field.
        """

    @abstractmethod
    def vector_bytes(self, field: str) -> int:
        """Return the size of what `hide` returns."""

    @abstractmethod
    def adder(self, public: bytes, *fields: str) -> "Adder":
        """Return what adds up vectors that consist of some fields, end to end."""

    @abstractmethod
    def read(self, keys: bytes, label: Label, total: bytes, num_clients: int) -> Numbers:
        """Return the sum over some clients, as a node reads it.

        Raises `DecryptionError`, without a detail, if it is no such sum.
        """
