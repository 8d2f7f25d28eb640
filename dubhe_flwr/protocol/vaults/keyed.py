"""Vaults whose keys come from nodes, the *openers*: an agent, or the members of a committee.

The openers check who joined. The first of them makes a key, which has a public part, and seals its
secret part to each node. With pinned keys, all openers sign for each node what it is told when it
registers. The key is sealed under the same statement, so it opens under no other.
"""

import json
import struct
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import ClassVar, Final

from dubhe_flwr.errors import RefusedError, SealError, UntrustedError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.he.sealing import seal
from dubhe_flwr.he.signing import SIGNATURE_BYTES, SIGNER_BYTES, TrustedKeys
from dubhe_flwr.protocol.vaults.vault import Member, Seat, Vault
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.messages import AppointReply, AppointRequest, RegisterRequest
from dubhe_flwr.protocol.wire.roster import PUBLIC_KEY_BYTES, split
from dubhe_flwr.protocol.wire.statements import check_roster, statement_of

UNUSABLE_KEY: Final = "The key does not open, or is not the one that was announced."
"""A node's complaint about the first opener, which the server recognizes."""


class KeyedVault(Vault):
    """A vault for which openers make a key."""

    sealed_key_bytes: int
    num_openers: ClassVar[int] = 1
    num_candidates: ClassVar[float] = inf  # the openers' trusted keys have positions below this

    def __init__(self, announced: JoinRequest, fields: Mapping[str, Slots]) -> None:
        super().__init__(announced, fields)
        shapes = [[name, slots.number, slots.largest] for name, slots in fields.items()]
        self._shapes = json.dumps(shapes).encode()

    # --- what differs -----------------------------------------------------------------------------

    @abstractmethod
    def make_key(self, state: bytes) -> tuple[bytes, bytes]:
        """Return the public and the secret part of a new key, given how the last epoch ended."""

    @abstractmethod
    def check_public(self, public: bytes) -> None:
        """Raise `MalformedMessageError` unless this can be the public part of a key."""

    @abstractmethod
    def keys(self, seat: Seat, request: RegisterRequest, secret: bytes, state: bytes) -> bytes:
        """Return a node's keys, given the secret part of the key and how the last epoch ended.

        Raises `SealError` if they do not fit the public part.
        """

    # --- an opener --------------------------------------------------------------------------------

    def appoint(self, seat: Seat, request: AppointRequest) -> tuple[AppointReply, Member | None]:
        """Check who joined and who opens sums; the first opener makes a key and seals it."""
        announced, roster, own = self.announced, request.roster, seat.delivery_key.public_bytes
        keys, places = roster.keys, request.openers
        least = max(announced.min_cohort, self.num_openers)
        if len(set(keys)) < len(keys) or not least <= len(keys) <= announced.max_clients:
            raise RefusedError("The nodes' keys are too few, too many or not distinct.")
        if (roster.num_examples is not None) != announced.weighted:
            raise RefusedError("Numbers of samples belong to weighted registrations only.")
        self._check_openers(places)
        if min(places) < 0 or max(places) >= len(keys):
            raise RefusedError("An opener is not among the nodes that joined.")
        openers = [keys[place] for place in places]
        if own not in openers:
            raise RefusedError("This node is not an opener.")
        if announced.continues is not None and not seat.state:
            # Every opener must know the state; otherwise the first one could choose it.
            raise RefusedError("This node did not settle in the last registration period.")
        if seat.pinned is not None:
            ranks = check_roster(seat.pinned, seat.epoch, announced, roster)
            self._check_ranks([ranks[place] for place in places])
        place, public, secret, state = openers.index(own), b"", b"", None
        if place == 0:
            public, secret = self.make_key(seat.state)
            state = self.sealed_state(seat, secret)
        told = told_to_all(request, public, state)
        statements = [self.statement(seat.epoch, told, key, place) for key in keys]
        sealed = b"".join(map(partial(seal, secret), keys, statements)) if place == 0 else b""
        signatures = None if seat.pinned is None else b"".join(map(seat.pinned.sign, statements))
        return AppointReply(public, sealed, signatures, state), None

    # --- the server -------------------------------------------------------------------------------

    def refuse(
        self,
        epoch: bytes,
        asked: AppointRequest,
        place: int,
        reply: AppointReply,
        trusted: TrustedKeys | None,
    ) -> str | None:
        """Check sizes, the public part of the key and, if the server has the keys, signatures."""
        keys = asked.roster.keys
        if place == 0:
            self.check_public(reply.public)
        elif reply.public:
            return "key of another opener than the first"
        if len(reply.sealed_keys) != (0 if place else self.sealed_key_bytes * len(keys)):
            return "wrong number of sealed keys"
        if len(reply.signatures or b"") != (0 if trusted is None else SIGNATURE_BYTES * len(keys)):
            return "wrong number of signatures"
        if trusted is not None:
            told = told_to_all(asked, reply.public, reply.state)
            signatures = split(reply.signatures or b"", SIGNATURE_BYTES)
            joined = list(split(asked.roster.signatures or b"", SIGNATURE_BYTES))
            signer = joined[asked.openers[place]][:SIGNER_BYTES]
            for key, signature in zip(keys, signatures, strict=True):
                trusted.rank(self.statement(epoch, told, key, place), signature)
                if not signature.startswith(signer):  # this node could refuse another's rank
                    raise UntrustedError("The opener has signed with the key of another node.")
        return None

    def delivered(
        self, asked: AppointRequest, replies: Sequence[AppointReply]
    ) -> list[RegisterRequest]:
        """Give each node its own sealed key, and what each opener signed for it."""
        first = replies[0]
        told = told_to_all(asked, first.public, first.state)
        sealed = split(first.sealed_keys, self.sealed_key_bytes)
        signed = [split(each.signatures or b"", SIGNATURE_BYTES) for each in replies]
        return [
            replace(
                told,
                sealed_key=key,
                signatures=b"".join(next(each, b"") for each in signed) or None,
            )
            for key in sealed
        ]

    # --- a node -----------------------------------------------------------------------------------

    def accept(self, seat: Seat, request: RegisterRequest) -> tuple[bytes, bytes]:
        """Open the key; with pinned keys, only if trusted openers have signed it for this node."""
        self._check_openers(list(split(request.opener_keys, PUBLIC_KEY_BYTES)))
        self.check_public(request.public)
        own = seat.delivery_key
        statement = partial(self.statement, seat.epoch, request, own.public_bytes)
        if seat.pinned is not None:
            signatures = list(split(request.signatures or b"", SIGNATURE_BYTES))
            if len(signatures) != self.num_openers:
                raise UntrustedError("The openers have not all signed.")
            ranks = []
            for place, signature in enumerate(signatures):
                try:
                    ranks.append(seat.pinned.trusted.rank(statement(place), signature))
                except UntrustedError as error:
                    raise UntrustedError(
                        f"Opener {place + 1} is not a trusted node that signed this key for this "
                        f"node, registration period and parameters: {error}"
                    ) from None
            self._check_ranks(ranks)
        try:
            secret = own.decrypt(request.sealed_key, statement(0))
            state = self.opened_state(request, secret)
            return self.keys(seat, request, secret, state), state
        except SealError:
            raise RefusedError(UNUSABLE_KEY) from None

    # ----------------------------------------------------------------------------------------------

    def statement(
        self, epoch: bytes, request: RegisterRequest, recipient: bytes, place: int
    ) -> bytes:
        """Return what an opener signs for one node: its request, without sealed key and signatures.

        The first opener also seals its key to the node under this statement. `place` is the
        position of the opener's key in `opener_keys`; only the first opener makes a key and seals a
        state. `recipient` is the node's public delivery key, which is new in each epoch, so a
        statement is worthless in another one.
        """
        made = (b"", b"") if place else (request.public, request.state or b"")
        numbers = struct.pack(">qqd", request.num_joined, place, request.mean_examples or 0.0)
        told = self._shapes, request.roster, request.opener_keys, numbers, *made, recipient
        return statement_of(b"appointment", epoch, self.announced, *told)

    def _check_openers(self, openers: Sequence[object]) -> None:
        if not len(set(openers)) == len(openers) == self.num_openers:
            raise RefusedError(f"There must be {self.num_openers} different openers.")

    def _check_ranks(self, ranks: Sequence[int]) -> None:
        """Raise `UntrustedError` unless keys of these ranks can be the openers'."""
        if list(ranks) != sorted(set(ranks)) or ranks[-1] >= self.num_candidates:
            raise UntrustedError(
                f"The openers are not {self.num_openers} of the first {self.num_candidates} "
                "trusted keys, in their order."
            )


def told_to_all(asked: AppointRequest, public: bytes, state: bytes | None) -> RegisterRequest:
    """Return what all nodes are told when they register; each gets its own key in addition."""
    roster, keys = asked.roster, asked.roster.keys
    opener_keys = b"".join(keys[place] for place in asked.openers)
    mean = roster.mean_examples
    return RegisterRequest(
        len(roster), opener_keys, roster.digest, public, mean_examples=mean, state=state
    )
