"""The interface of vaults, through which nodes hide their numbers and read sums.

A vault belongs to the terms of an epoch and holds no secrets. A node needs its *keys* to hide
numbers and read sums; the server needs only the *public* part to add up vectors. Each vault has its
own byte format for both. A vault knows nothing about rules; `Settings.vault` picks the vault that
suits the rule, the determination and the simulation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from dubhe_flwr.errors import SealError
from dubhe_flwr.he import pads
from dubhe_flwr.he.hidden import Hidden
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.he.sealing import RecipientKey
from dubhe_flwr.he.signing import PinnedKeys, TrustedKeys
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.messages import AppointReply, AppointRequest, RegisterRequest

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


@dataclass(frozen=True, slots=True, repr=False)
class Member(Hidden):
    """The state of a committee member in an epoch."""

    place: int  # position among the members, from 0
    roster: bytes  # its digest
    pad_keys: bytes  # one for each node that joined, concatenated
    noise_key: bytes
    covered: bytes = b""  # a bit for each node that joined, set if it is in the last opened sum
    num_opened: int = 0  # number of sums that the member has opened
    num_registered: int = 0  # number of nodes in the first opened sum
    group: bytes = b""  # the group key of nodes that read what it was told of earlier sums

    @property
    def num_joined(self) -> int:
        """Number of nodes that joined."""
        return len(self.pad_keys) // pads.KEY_BYTES


class Vault(ABC):
    """Hides the numbers of nodes, adds them up, and opens their sums.

    `announced` has the parameters of the epoch, and `fields` the shapes of the vectors to add up,
    by name. Raises `SettingsError` if the vault cannot hold such vectors.
    """

    def __init__(self, announced: JoinRequest, fields: Mapping[str, Slots]) -> None:
        self.announced = announced
        self.fields = fields
        for slots in fields.values():
            slots.check_bits(announced.max_clients)

    @abstractmethod
    def appoint(self, seat: Seat, request: AppointRequest) -> tuple[AppointReply, Member | None]:
        """Return what an opener answers, and its state if it is a member of a committee.

        Raises `RefusedError` or `UntrustedError` if the node must not be an opener.
        """

    @abstractmethod
    def refuse(
        self,
        epoch: bytes,
        asked: AppointRequest,
        place: int,
        reply: AppointReply,
        trusted: TrustedKeys | None,
    ) -> str | None:
        """Return why the server cannot use the reply of the opener at this place, or None.

        It may also raise a `ProtocolError`.
        """

    @abstractmethod
    def delivered(
        self, asked: AppointRequest, replies: Sequence[AppointReply]
    ) -> list[RegisterRequest]:
        """Return the request to register for each node, from the replies of all openers."""

    @abstractmethod
    def accept(self, seat: Seat, request: RegisterRequest) -> tuple[bytes, bytes]:
        """Return a node's keys from a request to register, and how the last epoch ended.

        Raises `RefusedError` or `UntrustedError` if the node must not register with them.
        """

    def sealed_state(self, seat: Seat, secret: bytes) -> bytes | None:
        """Return how the last epoch ended, sealed under a new key; None if it is not needed."""
        if self.announced.continues is None:
            return None
        return _state_cipher(secret).encrypt(_NONCE, seat.state, None)

    def opened_state(self, request: RegisterRequest, secret: bytes) -> bytes:
        """Return what `sealed_state` sealed, if any; raises `SealError` if it does not open."""
        if self.announced.continues is None:
            return b""
        try:
            return _state_cipher(secret).decrypt(_NONCE, request.state or b"", None)
        except InvalidTag:
            raise SealError from None

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
