"""The stage `appoint`: an agent, or three nodes as a committee, become the epoch's openers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dubhe_flwr.core.randomness import shuffled
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.epoch import JoinedNodes
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.refused import start_afresh, with_other_openers
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.vaults.committee import CANDIDATES
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE_SIZE,
    AppointReply,
    AppointRequest,
    RegisterRequest,
    Stage,
)


@dataclass(frozen=True)
class ReadyToRegister:
    """Nodes can register: the requests carry each node's sealed key."""

    joined: JoinedNodes
    # The agent or the committee; none in a simulation in the clear that starts afresh.
    openers: tuple[int, ...]
    public: bytes  # what the server needs to add up vectors
    requests: Mapping[int, RegisterRequest]


@dataclass(frozen=True)
class Appoint(Awaiting):
    """Nodes were asked to be the openers."""

    joined: JoinedNodes
    asked: AppointRequest

    @classmethod
    def begin(
        cls, context: Context, joined: JoinedNodes
    ) -> tuple[Context, "Appoint | ReadyToRegister | Join"]:
        """Ask the openers for a key, and for the state of the epoch continued, if any."""
        if joined.announced.in_the_clear and not joined.is_continued:
            # Use up a sequence number, as an encrypted simulation does, so that the next join
            # request has the same number in both.
            ready = _ready(joined, AppointRequest(joined.roster, ()), (), [AppointReply()])
            return context.counted(), ready
        openers = _openers(context, joined)
        if joined.is_continued:
            settled = context.run.settled & joined.replies.keys()
            # A simulation in the clear continues an epoch only where a committee could.
            if not settled.issuperset(openers) or len(settled) < joined.terms.num_members:
                return start_afresh(context)
        places = list(joined.replies)
        request = AppointRequest(joined.roster, tuple(map(places.index, openers)))
        asked = dict.fromkeys(openers, request)
        context, batch = context.batch(joined.identity, Stage.APPOINT, asked)
        return context, cls(batch, joined, request)

    def take(self, context: Context, replies: Replies) -> tuple[Context, ReadyToRegister | Join]:
        """Take the key and the signatures."""
        joined, asked, vault = self.joined, self.asked, self.joined.terms.vault
        openers = tuple(self.batch.requests)

        def refuse(node_id: int, reply: AppointReply) -> str | None:
            place = openers.index(node_id)
            if bool(reply.state) != (joined.is_continued and place == 0):
                return "no state of the last period"
            return vault.refuse(joined.identity, asked, place, reply, context.settings.trusted)

        told, report = accept_replies(self.batch, replies, refuse)
        context = context.reported(report)
        if lost := tuple(node_id for node_id in openers if node_id not in told):
            return with_other_openers(context, lost)
        return context, _ready(joined, asked, openers, list(told.values()))


def _openers(context: Context, joined: JoinedNodes) -> tuple[int, ...]:
    """Return the committee or, in an epoch without one, the agent; give up if there is none."""
    if not joined.announced.has_committee:
        # Nodes that know how the last epoch ended come first. After an epoch that failed in this
        # round, it is the next one's turn, since the agent may be the cause.
        drawn = shuffled(tuple(joined.replies), context.run.seed, "keygen", context.server_round)
        line = sorted(drawn, key=lambda node_id: node_id not in context.run.settled)
        return (line[context.round.num_renewals % len(line)],)
    context.check_quorum(
        len(joined.replies), "part of the registration period", None, least=COMMITTEE_SIZE
    )
    if len(joined.committee) < COMMITTEE_SIZE:
        context.give_up(
            f"{len(joined.committee)} of the first {CANDIDATES} trusted keys belong to nodes that "
            f"joined, but a committee needs {COMMITTEE_SIZE} members; at the top of the file of "
            "trusted keys, list the keys of nodes that are always connected.",
            None,
        )
    return joined.committee


def _ready(
    joined: JoinedNodes,
    asked: AppointRequest,
    openers: tuple[int, ...],
    replies: Sequence[AppointReply],
) -> ReadyToRegister:
    requests = joined.terms.vault.delivered(asked, replies)
    to_each = dict(zip(joined.replies, requests, strict=True))
    return ReadyToRegister(joined, openers, replies[0].public, to_each)
