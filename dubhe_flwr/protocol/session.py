"""The client side of the protocol: one session for a node's three roles."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from dubhe_flwr.errors import DubheError, ProtocolError, RefusedError, StaleMessageError
from dubhe_flwr.protocol.agent import determine, make_key
from dubhe_flwr.protocol.calibrator import calibrate
from dubhe_flwr.protocol.checker import check_blocks
from dubhe_flwr.protocol.codec import Fields
from dubhe_flwr.protocol.envelope import Envelope, open_request
from dubhe_flwr.protocol.expectations import search, tell_expectations
from dubhe_flwr.protocol.messages import (
    CalibrateRequest,
    CheckRequest,
    DetermineRequest,
    ExpectRequest,
    HelloReply,
    HelloRequest,
    JoinRequest,
    KeygenRequest,
    Message,
    MomentsRequest,
    ParticipateRequest,
    RegisterRequest,
    SearchRequest,
)
from dubhe_flwr.protocol.policy import NodePolicy, is_willing
from dubhe_flwr.protocol.registrant import (
    join,
    participate,
    register,
    tell_moments,
)
from dubhe_flwr.protocol.session_state import ChargedError, SessionState

__all__ = ["ClientSession"]

_Answer = tuple[Message, SessionState]


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
        What to keep for the next request, also after one that was refused: what an agent has
        decrypted is charged whether or not it answers. Any other refusal leaves it unchanged.
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
            If the request is malformed, stale or refused.
        """
        header, request = open_request(fields)
        try:
            reply, self.state = self._answer(header, request)
        except DubheError as error:
            raise self._refusal(header.stage, error) from None
        return header.seal(reply)

    def _refusal(self, stage: str, error: DubheError) -> ProtocolError:
        if isinstance(error, ChargedError):
            self.state, error = error.state, error.reason
        if isinstance(error, ProtocolError):
            return error
        # Says which check failed by type alone: details would make the node an oracle.
        return RefusedError(f"{stage} failed: {type(error).__name__}.")

    def _answer(self, header: Envelope, request: Message) -> tuple[Message, SessionState | None]:
        if isinstance(request, HelloRequest):
            return HelloReply(self.policy.alias, is_willing(self.policy, 0)), self.state
        state = self.state
        if isinstance(request, JoinRequest):
            if state is not None and state.remembers(header.epoch):
                raise StaleMessageError("This node was asked to join that epoch before.")
            past_epochs = b"" if state is None else state.past_epochs
            return join(self.policy, past_epochs, header, request)
        if state is None or header.epoch != state.epoch:
            raise StaleMessageError("The request belongs to an epoch that this node is not in.")
        if header.sequence <= state.sequence:
            raise StaleMessageError("The request was answered before.")
        if not state.distribution:
            raise RefusedError("This node did not join that epoch.")
        answer = _ANSWERS.get(type(request))
        if answer is None:
            raise RefusedError(f"A node answers no {type(request).__name__}.")
        return answer(self.policy, replace(state, sequence=header.sequence), request)


_ANSWERS: Final[dict[type, Callable[[NodePolicy, SessionState, Any], _Answer]]] = {
    KeygenRequest: make_key,
    RegisterRequest: register,
    CheckRequest: lambda _policy, state, request: check_blocks(state, request),
    ExpectRequest: tell_expectations,
    SearchRequest: lambda _policy, state, request: search(state, request),
    MomentsRequest: lambda _policy, state, request: tell_moments(state, request),
    CalibrateRequest: lambda _policy, state, request: calibrate(state, request),
    ParticipateRequest: participate,
    DetermineRequest: lambda _policy, state, request: determine(state, request),
}
