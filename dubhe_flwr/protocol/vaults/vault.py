"""The interface of vaults, through which nodes hide their numbers and read sums.

A vault belongs to the terms of an epoch and holds no secrets. A node needs its *keys* to hide
numbers and read sums; the server needs only the *public* part to add up vectors. Each vault has its
own byte format for both. A vault knows nothing about rules; `Settings.vault` picks the vault that
suits the rule, the determination and the simulation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from dubhe_flwr.errors import RefusedError, SealError
from dubhe_flwr.he import pads
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.he.sealing import RecipientKey
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.messages import KeygenReply, KeygenRequest, RegisterRequest
from dubhe_flwr.protocol.wire.roster import Roster

Numbers = NDArray[np.int64]

_NONCE: Final = bytes(12)  # the key for a state seals nothing else


class SumName(NamedTuple):
    """Names one sum of an epoch."""

    field: str
    number: int = 0  # 0 for the registrations and the label distributions


@dataclass(frozen=True, slots=True, repr=False)  # repr would show a secret key
class Seat:
    """What a node brings to an epoch: its delivery key, the keys it trusts, and the last state."""

    epoch: bytes
    private_key: bytes  # private half of the delivery key
    pinned: PinnedKeys | None
    state: bytes = b""  # how the last epoch ended; empty if the node does not know

    @property
    def delivery_key(self) -> RecipientKey:
        """The node's key for sealed delivery."""
        return RecipientKey.from_bytes(self.private_key)


class Vault(ABC):
    """Hides the numbers of nodes, adds them up, and opens their sums.

    Parameters
    ----------
    announced : JoinRequest
        The announced parameters of the epoch.
    fields : mapping of str to Slots
        The shapes of the vectors to add up, by name.

    Raises
    ------
    SettingsError
        If the vault cannot hold such vectors.
    """

    def __init__(self, announced: JoinRequest, fields: Mapping[str, Slots]) -> None:
        self.announced = announced
        self.fields = fields
        for slots in fields.values():
            slots.check_bits(announced.max_clients)

    def check_nodes(self, roster: Roster, least: int) -> None:
        """Refuse a roster with keys that repeat, fewer than `least` nodes, or too many.

        It must have numbers of samples in a weighted epoch, and in no other. Raises `RefusedError`.
        """
        keys = roster.keys
        if len(set(keys)) < len(keys) or not least <= len(keys) <= self.announced.max_clients:
            raise RefusedError("The nodes' keys are not distinct, too few or too many.")
        if (roster.num_examples is not None) != self.announced.weighted:
            raise RefusedError("Numbers of samples belong to weighted registrations only.")

    def make_key(self, seat: Seat, request: KeygenRequest) -> KeygenReply:
        """Make the epoch's key; only the agent calls this."""
        del seat, request
        raise RefusedError("No node makes a key for this registration period.")

    def check_state(self, seat: Seat) -> None:
        """Raise `RefusedError` if a node has to know how the last epoch ended, and does not."""
        if self.announced.continues is not None and not seat.state:
            raise RefusedError("This node did not settle in the last registration period.")

    def sealed_state(self, seat: Seat, key: bytes) -> bytes | None:
        """Return how the last epoch ended, sealed under a new key; None if it is not needed."""
        if self.announced.continues is None:
            return None
        self.check_state(seat)
        return _state_cipher(key).encrypt(_NONCE, seat.state, None)

    def opened_state(self, request: RegisterRequest, key: bytes) -> bytes:
        """Return what `sealed_state` sealed; empty if it is not needed.

        Raises `SealError` if it does not open.
        """
        if self.announced.continues is None:
            return b""
        try:
            return _state_cipher(key).decrypt(_NONCE, request.state or b"", None)
        except InvalidTag:
            raise SealError from None

    @abstractmethod
    def accept(self, seat: Seat, request: RegisterRequest) -> tuple[bytes, bytes]:
        """Return a node's keys from a request to register, and how the last epoch ended.

        Raises `RefusedError` or `UntrustedError` if the node must not register with them.
        """

    @abstractmethod
    def hide(self, keys: bytes, sum_name: SumName, numbers: Numbers) -> bytes:
        """Return a node's numbers as they travel.

        Raises `SettingsError`, without any of the numbers, if they do not fit the field.
        """

    @abstractmethod
    def vector_bytes(self, field: str) -> int:
        """Return the size in bytes of what `hide` returns."""

    @abstractmethod
    def add_up(self, public: bytes, fields: Iterable[str], vectors: Iterable[bytes]) -> bytes:
        """Return the sum of at least one vector; each consists of these fields, concatenated.

        Raises `InvalidCiphertextError` if a vector is not valid.
        """

    @abstractmethod
    def read(self, keys: bytes, sum_name: SumName, total: bytes, num_clients: int) -> Numbers:
        """Return a sum over `num_clients` clients, as nodes read it.

        Raises `DecryptionError`, without any detail, if it is not valid.
        """

    def keys_after(self, keys: bytes, opened: bytes) -> bytes:
        """Return a node's keys after it has read a sum, given as in `RuleSum.sums`."""
        del opened
        return keys


def _state_cipher(key: bytes) -> AESGCM:
    return AESGCM(pads.derived_key(key, b"state"))
