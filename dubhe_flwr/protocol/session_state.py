"""What a node keeps between two requests of the protocol, on its own host."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DubheError, MalformedMessageError, RefusedError
from dubhe_flwr.he import PublicKey, SecretKey
from dubhe_flwr.protocol.codec import Fields, decode, encode
from dubhe_flwr.protocol.envelope import EPOCH_ID_BYTES
from dubhe_flwr.protocol.messages import JoinRequest
from dubhe_flwr.protocol.parameters import epoch_parameters

__all__ = ["REMEMBERED_EPOCHS", "ChargedError", "SessionState", "charging"]

REMEMBERED_EPOCHS: Final = 64
"""Past epochs that a node remembers, so that an old request to join is refused."""


@dataclass(frozen=True, slots=True, repr=False)
class SessionState:
    """The node's place in the current epoch, with its keys. It never leaves the node.

    Parameters
    ----------
    epoch : bytes
        Identity of the epoch.
    sequence : int
        Number of the last request that was answered.
    past_epochs : bytes
        Identities of the epochs that the node was asked to join, this one included, end to end.
    parameters : JoinRequest
        The parameters of the epoch.
    recipient_key : bytes
        Private half of the key for sealed delivery.
    distribution : tuple of int
        ``p_l`` in fixed-point integers; empty if the node did not join.
    slots : tuple of int
        Slot of the node's category ``u`` under each candidate; empty if the node did not join.
    candidate : int
        The candidate for the thresholds that was chosen; -1 as long as none was named.
    modulus, secret_key : bytes
        The epoch's Paillier key; empty before registration.
    blocks_digest : bytes
        SHA-256 of the registry that the blocks which this node checked add up to; empty if it
        checked none.
    registry_digest : bytes
        SHA-256 of the overall registry that was read; empty before.
    moments_digest : bytes
        SHA-256 of the sum of moments that this node decrypted as agent; empty before.
    expectations_digest : bytes
        SHA-256 of the sum of expectations that this node decrypted as agent; empty before.
    probability_digest : bytes
        SHA-256 of what the probability was computed from; empty before.
    num_registered : int
        Number of clients in the overall registry.
    probability : float
        ``P``, the node's participation probability.
    expected : bool
        Whether the node told its expectations of the candidates.
    num_draws, num_sums : int
        What has been spent of the budgets of the epoch.
    """

    epoch: bytes
    sequence: int
    past_epochs: bytes
    parameters: JoinRequest
    recipient_key: bytes
    distribution: tuple[int, ...] = ()
    slots: tuple[int, ...] = ()
    candidate: int = -1
    modulus: bytes = b""
    secret_key: bytes = b""
    blocks_digest: bytes = b""
    registry_digest: bytes = b""
    moments_digest: bytes = b""
    expectations_digest: bytes = b""
    probability_digest: bytes = b""
    num_registered: int = 0
    probability: float = 0.0
    expected: bool = False
    num_draws: int = 0
    num_sums: int = 0

    def __repr__(self) -> str:
        return f"SessionState(epoch={self.epoch.hex()[:8]}, sequence={self.sequence}, <hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A session is never pickled or copied: keep its to_fields() locally.")

    @property
    def slot(self) -> int:
        """Slot of the node's category under the thresholds that hold."""
        return self.slots[max(0, self.candidate)]

    def to_fields(self) -> Fields:
        """Return what the node keeps on its own host."""
        kept = encode(self)
        del kept["parameters"]
        return kept | _parameter_fields(self.parameters) | {_VERSION_KEY: _VERSION}

    @classmethod
    def from_fields(cls, kept: Mapping[str, object]) -> "SessionState":
        """Return the state that was kept.

        Raises
        ------
        MalformedMessageError
            If it is not readable, or of another version.
        """
        own = dict(kept)
        announced = tuple((key, own.pop(key, None)) for key in _PARAMETER_KEYS)
        if own.pop(_VERSION_KEY, None) == _VERSION:
            with suppress(TypeError, MalformedMessageError):
                return decode(cls, own | {"parameters": _parameters(announced)})
        raise MalformedMessageError("The kept session is not readable.")

    def decrypt(self, field: str, vector: bytes, num_addends: int) -> NDArray[np.int64]:
        """Decrypt and unpack the sum of a field over some clients.

        Raises
        ------
        RefusedError
            If the node has not registered in this epoch.
        DubheError
            If the vector is no such sum.
        """
        if not self.secret_key:
            raise RefusedError("This node has not registered in that epoch.")
        return epoch_parameters(self.parameters).layout.unpack(
            field, self._key().decrypt(vector), num_addends
        )

    def encrypt(self, field: str, values: NDArray[np.int64]) -> bytes:
        """Pack and encrypt a field."""
        return self._key().encrypt(epoch_parameters(self.parameters).layout.pack(field, values))

    def _key(self) -> SecretKey:
        public_key = PublicKey.from_bytes(self.modulus, self.parameters.key_bits)
        return SecretKey(public_key, int.from_bytes(self.secret_key, "big"))

    def remembers(self, epoch: bytes) -> bool:
        """Tell whether the node was asked to join that epoch before."""
        past = self.past_epochs
        return any(
            past[start : start + EPOCH_ID_BYTES] == epoch
            for start in range(0, len(past), EPOCH_ID_BYTES)
        )


class ChargedError(DubheError):
    """A request is refused, and yet has cost a part of what the node spends in an epoch.

    Parameters
    ----------
    state : SessionState
        What the node keeps all the same.
    reason : DubheError
        Why it refuses.
    """

    def __init__(self, state: SessionState, reason: DubheError) -> None:
        super().__init__(str(reason))
        self.state = state
        self.reason = reason


@contextmanager
def charging(state: SessionState) -> Iterator[None]:
    """Keep a state even if the rest of an answer is refused.

    A node that forgot what it decrypted for a refused request could be asked without end.

    Parameters
    ----------
    state : SessionState
        With what the request has cost.

    Raises
    ------
    ChargedError
        In place of any error of this package.
    """
    try:
        yield
    except DubheError as error:
        raise ChargedError(state, error) from error


_VERSION: Final = 2
_VERSION_KEY: Final = "version"
_PREFIX: Final = "parameters."
_PARAMETER_KEYS: Final = tuple(
    _PREFIX + f.name.replace("_", "-") for f in dataclass_fields(JoinRequest)
)


@lru_cache(maxsize=16)
def _parameter_fields(parameters: JoinRequest) -> Fields:
    return {_PREFIX + key: value for key, value in encode(parameters).items()}


@lru_cache(maxsize=16)
def _parameters(kept: tuple[tuple[str, object], ...]) -> JoinRequest:
    return decode(JoinRequest, {key.removeprefix(_PREFIX): value for key, value in kept})
