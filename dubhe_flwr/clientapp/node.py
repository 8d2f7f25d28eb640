"""One node's answers to the stages, with its session kept in Flower's Context."""

from collections.abc import Callable, Mapping
from logging import WARNING
from typing import Final, cast

from flwr.app import ConfigRecord, Context
from numpy.typing import ArrayLike

from dubhe_flwr.adapter.exchange import log
from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import ClientSession, Fields, NodePolicy, SessionState

__all__ = ["LabelCounts", "Node", "Willing"]

LabelCounts = Callable[[Context], ArrayLike]
"""Returns the node's samples of each class, an int array of shape (C,)."""

Willing = Callable[[Context, int], bool]
"""Whether the node trains in that round; asked with round 0, whether it takes part at all."""

_RECORD: Final = "dubhe"
_STATE: Final = "session"


class Node:
    """Answers requests of the protocol for whichever node a Context belongs to.

    Parameters
    ----------
    label_counts : callable (Context) -> array_like of int, shape (C,)
        The node's samples of each class; called anew at each registration.
    willing : callable (Context, int) -> bool, optional (default: always)
        Whether the node trains in that round; asked with round 0, whether it takes part at all.
    seeded_draws : bool or callable (Context) -> bool (default: False)
        Draw from a seed that the server knows, so that a simulation repeats. Never in
        deployment: it lets the server narrow down the node's probability.
    min_cohort : int (default: 3)
        Fewest clients that any sum must cover which this node helps to decrypt.
    min_key_bits : int (default: 2048)
        Smallest Paillier modulus under which this node encrypts.
    """

    def __init__(
        self,
        label_counts: LabelCounts,
        *,
        willing: Willing | None = None,
        seeded_draws: bool | Callable[[Context], bool] = False,
        min_cohort: int = 3,
        min_key_bits: int = 2048,
    ) -> None:
        self.label_counts = label_counts
        self.willing = willing or (lambda _context, _server_round: True)
        self.seeded_draws = seeded_draws
        self.min_cohort = min_cohort
        self.min_key_bits = min_key_bits

    def handle(self, fields: Mapping[str, object], context: Context) -> Fields:
        """Answer one request and keep the session in `context.state`.

        Raises
        ------
        ProtocolError
            If the request is refused; the state is then unchanged.
        """
        session = ClientSession(self._policy(context), _kept_state(context))
        reply = session.handle(fields)
        if session.state is not None:
            context.state[_RECORD] = ConfigRecord({_STATE: session.state.to_bytes()})
        return reply

    def _policy(self, context: Context) -> NodePolicy:
        seeded = self.seeded_draws
        return NodePolicy(
            label_counts=lambda: self.label_counts(context),
            alias=str(context.node_config.get("partition-id", context.node_id)),
            willing=lambda server_round: self.willing(context, server_round),
            seeded_draws=seeded(context) if callable(seeded) else seeded,
            min_cohort=self.min_cohort,
            min_key_bits=self.min_key_bits,
        )


def _kept_state(context: Context) -> SessionState | None:
    """Return the session that the last request left; a node that cannot read it starts anew."""
    record = context.state.get(_RECORD)
    if record is None:
        return None
    try:
        return SessionState.from_bytes(cast("bytes", record[_STATE]))
    except (MalformedMessageError, KeyError):
        log(WARNING, "dubhe: the session kept by this node is not readable; it registers anew")
        return None
