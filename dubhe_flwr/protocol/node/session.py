"""The node's state machine: `ClientSession` takes one request and returns its reply.

It reads the request, checks that it is current and within the owner's limits, and passes it to the
function for its stage. If the request settles the rule, the node also draws, as if it had received
a second request. Whatever goes wrong becomes a typed error that reveals no label.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from traceback import walk_tb
from typing import Any, Final

from dubhe_flwr.errors import (
    DailyLimitError,
    DubheError,
    ProtocolError,
    RefusedError,
    StaleMessageError,
)
from dubhe_flwr.protocol.log import warn_once
from dubhe_flwr.protocol.node.enter import appoint, join, register
from dubhe_flwr.protocol.node.memory import Allowance, Keep, Membership, Memory
from dubhe_flwr.protocol.node.policy import NodePolicy, is_willing, where_raised
from dubhe_flwr.protocol.node.round import determine, participate
from dubhe_flwr.protocol.node.settle import open_sum, settle
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.codec import Fields, Message
from dubhe_flwr.protocol.wire.envelope import Envelope, read_request
from dubhe_flwr.protocol.wire.messages import (
    AppointRequest,
    DetermineRequest,
    HelloReply,
    HelloRequest,
    OpenRequest,
    ParticipateRequest,
    RegisterRequest,
    SettleReply,
    SettleRequest,
)

_EMPTY: Final = Memory()
_ANSWERS: Final[dict[type, Callable[[NodePolicy, Membership, Any, Keep], Message]]] = {
    AppointRequest: appoint,
    RegisterRequest: register,
    OpenRequest: open_sum,
    SettleRequest: settle,
    ParticipateRequest: participate,
    DetermineRequest: determine,
}
"""The function that answers each request in an epoch that the node has joined."""


def spend_day(
    policy: NodePolicy, allowance: Allowance, today: int, num_epochs: int = 0, num_draws: int = 0
) -> Allowance:
    """Charge a request to the owner's daily limits, which do not bind a simulated node."""
    if allowance.day != today:
        allowance = Allowance(today)
    num_epochs, num_draws = allowance.num_epochs + num_epochs, allowance.num_draws + num_draws
    allowance = Allowance(today, num_epochs, num_draws)
    spent = num_epochs > policy.max_epochs_per_day or num_draws > policy.max_draws_per_day
    if spent and not policy.simulated:
        raise DailyLimitError(
            "This node has reached its owner's max_epochs_per_day or max_draws_per_day."
        )
    return allowance


class ClientSession:
    """Answers the requests of one server; the node keeps its memory between them.

    Parameters
    ----------
    policy : NodePolicy
        What the owner of the node decides.
    memory : Memory (default: an empty one)
        The memory after the last request; the attribute of that name holds the one to keep for the
        next request. It may change with a refusal, too: the node keeps what it was charged, and
        that it refused a sum.
    today : int (default: 0)
        Days since 1970, for the owner's daily limits.
    """

    def __init__(self, policy: NodePolicy, memory: Memory = _EMPTY, today: int = 0) -> None:
        self.policy = policy
        self.memory = memory
        self._today = today

    def handle(self, fields: Mapping[str, object]) -> Fields:
        """Answer one request; the size of a reply tells nothing about the node's labels.

        Raises `ProtocolError` if the request is malformed, stale or refused.
        """
        header, request = read_request(fields)
        if isinstance(request, HelloRequest):
            return header.seal(HelloReply(self.policy.alias, is_willing(self.policy, 0)))
        try:
            if isinstance(request, JoinRequest):
                return header.seal(self._join(header, request))
            return header.seal(self._answer(header, request))
        except ProtocolError:
            raise
        except DubheError as error:
            *_, (frame, _) = walk_tb(error.__traceback__)
            if frame.f_globals["__name__"] == "dubhe_flwr.he.layout":  # its messages hold no number
                warn_once("dubhe: the node cannot answer %s: %s", header.stage, str(error))
            # The server learns only the error's type: details would make the node an oracle.
            raise RefusedError(f"{header.stage} failed: {type(error).__name__}.") from None
        except Exception as error:  # noqa: BLE001 - a rule may raise anything, with labels in it
            where = where_raised(error)
            warn_once("dubhe: the node's answer to %s raised %s.", header.stage, where)
            raise RefusedError(f"{header.stage} failed; the node's log says why.") from None

    def _join(self, header: Envelope, request: JoinRequest) -> Message:
        if self.memory.remembers(header.epoch):
            raise StaleMessageError(
                "This node was already asked to join this registration period, or shares its "
                "records in state_dir with one that was."
            )
        allowance = spend_day(self.policy, self.memory.allowance, self._today, num_epochs=1)
        memory = replace(self.memory, allowance=allowance)
        reply, self.memory = join(self.policy, memory, header, request)
        return reply

    def _answer(self, header: Envelope, request: Any) -> Message:
        if self.memory.epoch != header.epoch:
            raise StaleMessageError(
                "The request belongs to a registration period that this node is not in."
            )
        if header.sequence <= self.memory.sequence:
            raise StaleMessageError("The request was already answered.")
        reply = self._answer_in_epoch(header, request)
        if isinstance(reply, SettleReply) and reply.contribution is None:
            # At its owner's daily limit, a node settles without drawing, and may draw tomorrow.
            with suppress(DailyLimitError):
                drawn: Any = self._answer_in_epoch(header, request.draws)
                return replace(reply, draws=drawn)
        return reply

    def _answer_in_epoch(self, header: Envelope, request: Message) -> Message:
        memory = self.memory
        joined = memory.joined
        if joined is None:
            raise RefusedError("This node did not join this registration period.")
        draws = request.num_draws if isinstance(request, ParticipateRequest) else 0
        allowance = spend_day(self.policy, memory.allowance, self._today, num_draws=draws)

        def keep(joined: Membership) -> None:
            self.memory = Memory(header.sequence, memory.epochs, allowance, joined, joined.budget)

        return _ANSWERS[type(request)](self.policy, joined, request, keep)
