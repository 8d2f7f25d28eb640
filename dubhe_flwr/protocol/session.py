"""The client side of the protocol: a node as registrant, as volunteer and as agent."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    best_try,
    dominating_category,
    fixed_point_distribution,
    participation_probability,
    private_draws,
    registry,
    seeded_draws,
)
from dubhe_flwr.errors import (
    DubheError,
    MalformedMessageError,
    ProtocolError,
    RefusedError,
    StaleMessageError,
)
from dubhe_flwr.he import (
    PublicKey,
    RecipientKey,
    SealingContext,
    SecretKey,
    generate_secret_key,
    open_sealed,
    seal,
    sealed_bytes,
)
from dubhe_flwr.protocol.codec import Fields
from dubhe_flwr.protocol.envelope import EPOCH_ID_BYTES, Envelope, open_request
from dubhe_flwr.protocol.messages import (
    PUBLIC_KEY_BYTES,
    DetermineReply,
    DetermineRequest,
    HelloReply,
    HelloRequest,
    JoinReply,
    JoinRequest,
    KeygenReply,
    KeygenRequest,
    Message,
    ParticipateReply,
    ParticipateRequest,
    RegisterReply,
    RegisterRequest,
)
from dubhe_flwr.protocol.parameters import (
    DISTRIBUTION,
    REGISTRY,
    epoch_parameters,
    sealing_context,
)
from dubhe_flwr.protocol.policy import NodePolicy, is_willing, read_label_counts
from dubhe_flwr.protocol.session_state import REMEMBERED_EPOCHS, SessionState

__all__ = ["ClientSession"]


class ClientSession:
    """Answers the requests of one server, with a state that lives at the node between them.

    Parameters
    ----------
    policy : NodePolicy
        What the owner of the node decides.
    state : SessionState, optional
        What an earlier request left behind; none before the first one.

    Attributes
    ----------
    state : SessionState or None
        What to keep for the next request. A refused request leaves it unchanged.
    """

    def __init__(self, policy: NodePolicy, state: SessionState | None = None) -> None:
        self.policy = policy
        self.state = state

    def handle(self, fields: Mapping[str, object]) -> Fields:
        """Answer one request.

        Parameters
        ----------
        fields : mapping
            The request as received.

        Returns
        -------
        dict
            The reply, whose size depends on the parameters of the epoch only.

        Raises
        ------
        ProtocolError
            If the request is malformed, stale or refused; the state is then unchanged.
        """
        header, request = open_request(fields)
        try:
            reply, state = self._answer(header, request)
        except ProtocolError:
            raise
        except DubheError as error:
            # Says which check failed by type alone: details would make the node an oracle.
            raise RefusedError(f"{header.stage} failed: {type(error).__name__}.") from None
        self.state = state
        return header.seal(reply)

    def _answer(self, header: Envelope, request: Message) -> tuple[Message, SessionState | None]:
        if isinstance(request, HelloRequest):
            return HelloReply(self.policy.alias, is_willing(self.policy, 0)), self.state
        if isinstance(request, JoinRequest):
            return self._join(header, request)
        state = self.state
        if state is None or header.epoch != state.epoch:
            raise StaleMessageError("The request belongs to an epoch that this node is not in.")
        if header.sequence <= state.sequence:
            raise StaleMessageError("The request was answered before.")
        if not state.distribution:
            raise RefusedError("This node did not join that epoch.")
        state = replace(state, sequence=header.sequence)
        if isinstance(request, KeygenRequest):
            return self._keygen(state, request)
        if isinstance(request, RegisterRequest):
            return self._register(state, request)
        if isinstance(request, ParticipateRequest):
            return self._participate(state, request)
        if isinstance(request, DetermineRequest):
            return self._determine(state, request)
        raise RefusedError(f"A node answers no {type(request).__name__}.")

    def _join(self, header: Envelope, request: JoinRequest) -> tuple[JoinReply, SessionState]:
        past_epochs = b""
        if self.state is not None:
            if self.state.remembers(header.epoch):
                raise StaleMessageError("This node was asked to join that epoch before.")
            past_epochs = self.state.past_epochs
        status, counts = read_label_counts(self.policy, request)
        recipient_key = RecipientKey.generate()
        state = SessionState(
            epoch=header.epoch,
            sequence=header.sequence,
            past_epochs=(past_epochs + header.epoch)[-REMEMBERED_EPOCHS * EPOCH_ID_BYTES :],
            parameters=request,
            recipient_key=recipient_key.to_bytes(),
        )
        if counts is not None:
            parameters = epoch_parameters(request)
            category = dominating_category(counts, parameters.codebook, parameters.thresholds)
            state = replace(
                state,
                distribution=tuple(fixed_point_distribution(counts).tolist()),
                slot=parameters.codebook.rank(category),
            )
        return JoinReply(int(status), self.policy.alias, recipient_key.public_bytes), state

    def _keygen(
        self, state: SessionState, request: KeygenRequest
    ) -> tuple[KeygenReply, SessionState]:
        parameters = epoch_parameters(state.parameters)
        own_public_key = RecipientKey.from_bytes(state.recipient_key).public_bytes
        recipients = [
            request.public_keys[start : start + PUBLIC_KEY_BYTES]
            for start in range(0, len(request.public_keys), PUBLIC_KEY_BYTES)
        ]
        if own_public_key not in recipients or len(set(recipients)) < len(recipients):
            raise RefusedError("The recipients are not distinct, or lack the agent itself.")
        if not state.parameters.min_cohort <= len(recipients) <= state.parameters.max_clients:
            raise RefusedError(f"{len(recipients)} recipients are too few or too many.")
        secret_key = generate_secret_key(state.parameters.key_bits)
        context = sealing_context(
            state.epoch, own_public_key, secret_key.public_key, parameters.layout
        )
        sealed = b"".join(_seal_or_fill(secret_key, key, context) for key in recipients)
        return KeygenReply(secret_key.public_key.to_bytes(), sealed), state

    def _register(
        self, state: SessionState, request: RegisterRequest
    ) -> tuple[RegisterReply, SessionState]:
        if state.secret_key:
            raise RefusedError("This node has registered in that epoch before.")
        parameters = epoch_parameters(state.parameters)
        layout, codebook = parameters.layout, parameters.codebook
        public_key = PublicKey.from_bytes(request.modulus, state.parameters.key_bits)
        secret_key = open_sealed(
            request.sealed_key,
            RecipientKey.from_bytes(state.recipient_key),
            sealing_context(state.epoch, request.agent_public_key, public_key, layout),
            public_key,
        )
        own_registry = registry(codebook.unrank(state.slot), codebook)
        distribution = np.array(state.distribution, dtype=np.int64)
        reply = RegisterReply(
            registry=secret_key.encrypt(layout.pack(REGISTRY, own_registry)),
            distribution=secret_key.encrypt(layout.pack(DISTRIBUTION, distribution)),
        )
        return reply, replace(state, modulus=request.modulus, secret_key=secret_key.to_bytes())

    def _participate(
        self, state: SessionState, request: ParticipateRequest
    ) -> tuple[ParticipateReply, SessionState]:
        announced = state.parameters
        num_draws = state.num_draws + request.num_rounds * request.num_tries
        if num_draws > announced.max_draws:
            raise RefusedError("The draws of this epoch are used up.")
        state = self._read_overall_registry(state, request)
        rounds = range(request.first_round, request.first_round + request.num_rounds)
        seed = announced.seed if self.policy.seeded_draws else -1
        draws = [
            private_draws(request.num_tries)
            if seed == -1
            else seeded_draws(seed, self.policy.alias, server_round, request.num_tries)
            for server_round in rounds
        ]
        reply = ParticipateReply(
            decisions=np.packbits(np.array(draws) < state.probability).tobytes(),
            unwilling=np.packbits([not is_willing(self.policy, r) for r in rounds]).tobytes(),
        )
        return reply, replace(state, num_draws=num_draws)

    def _read_overall_registry(
        self, state: SessionState, request: ParticipateRequest
    ) -> SessionState:
        """Compute the probability of this epoch, once: two overall registries tell a difference."""
        digest = hashlib.sha256(
            request.num_registered.to_bytes(8, "big") + request.overall_registry
        ).digest()
        if digest == state.registry_digest:
            return state
        if state.registry_digest:
            raise RefusedError("There is one overall registry in an epoch, and this is another.")
        if request.num_registered < state.parameters.min_cohort:
            raise RefusedError(f"A registry of {request.num_registered} clients is too few.")
        counts = self._decrypt(state, REGISTRY, request.overall_registry, request.num_registered)
        if counts.sum() != request.num_registered or counts[state.slot] < 1:
            raise RefusedError("The overall registry is not the sum it is said to be.")
        probability = participation_probability(counts, state.parameters.num_participants)
        return replace(
            state,
            registry_digest=digest,
            num_registered=request.num_registered,
            probability=float(probability[state.slot]),
        )

    def _determine(
        self, state: SessionState, request: DetermineRequest
    ) -> tuple[DetermineReply, SessionState]:
        announced = state.parameters
        num_sums = state.num_sums + request.num_rounds * request.num_tries
        if num_sums > min(announced.max_sums, (state.num_registered - 1) // 2):
            raise RefusedError("The sums that this node decrypts in an epoch are used up.")
        if request.num_clients < announced.min_cohort:
            raise RefusedError(f"A sum over {request.num_clients} clients is too few.")
        size = epoch_parameters(announced).layout.field_bytes(DISTRIBUTION)
        if len(request.sums) != size * request.num_rounds * request.num_tries:
            raise RefusedError("The sums are not as many as announced.")
        sums = np.array(
            [
                self._decrypt(
                    state, DISTRIBUTION, request.sums[start : start + size], request.num_clients
                )
                for start in range(0, len(request.sums), size)
            ]
        )
        if (sums.sum(axis=1) != request.num_clients * FIXED_POINT_SCALE).any():
            raise RefusedError("A sum does not cover the clients it is said to cover.")
        by_round = sums.reshape(request.num_rounds, request.num_tries, -1)
        best = tuple(best_try(tries) for tries in by_round)
        return DetermineReply(best), replace(state, num_sums=num_sums)

    @staticmethod
    def _decrypt(
        state: SessionState, field: str, vector: bytes, num_addends: int
    ) -> NDArray[np.int64]:
        if not state.secret_key:
            raise RefusedError("This node has not registered in that epoch.")
        layout = epoch_parameters(state.parameters).layout
        public_key = PublicKey.from_bytes(state.modulus, layout.key_bits)
        secret_key = SecretKey(public_key, int.from_bytes(state.secret_key, "big"))
        return layout.unpack(field, secret_key.decrypt(vector), num_addends)


def _seal_or_fill(secret_key: SecretKey, recipient: bytes, context: SealingContext) -> bytes:
    """Seal the key; who sent an unusable public key gets what never opens, and drops out alone."""
    try:
        return seal(secret_key, recipient, context)
    except MalformedMessageError:
        return secrets.token_bytes(sealed_bytes(secret_key.public_key.bits))
