"""The stage `register`: nodes encrypt what the rule adds up, and their label distributions."""

from collections.abc import Mapping
from dataclasses import dataclass

from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.stages.join import JoinedNodes
from dubhe_flwr.protocol.coordinator.stages.keygen import Keygen, KeyMade
from dubhe_flwr.protocol.coordinator.stages.refused import CommitteeLost
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.messages import RegisterReply, SettleRequest, Stage
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, REGISTRATION


@dataclass(frozen=True)
class RegisteredNodes:
    """The nodes that registered, and have missed no exchange since."""

    joined: JoinedNodes  # the nodes that joined, these among them
    public: bytes  # what the server needs to add up
    # Hidden p_l by node id, in the order of the aliases; empty where there is no agent.
    distributions: Mapping[int, bytes]
    num_registered: int  # clients that the sum of the registrations covers
    last_sum: SettleRequest  # what the nodes are given next: the sum of what they told last
    committee: tuple[int, ...] = ()  # its members, where one opens the sums


@dataclass(frozen=True)
class Register(Awaiting):
    """Nodes were sent their sealed keys."""

    made: KeyMade

    @classmethod
    def begin(cls, context: Context, made: KeyMade) -> tuple[Context, "Register"]:
        """Send each node its sealed key."""
        context, batch = context.batch(
            made.joined.invitation.identity, Stage.REGISTER, made.requests
        )
        return context, cls(batch, made)

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, RegisteredNodes | Keygen | CommitteeLost]:
        """Add up the registrations; ask another agent if its key opened for too few."""
        joined, public = self.made.joined, self.made.public
        terms = joined.invitation.terms
        fields = [name for name in (REGISTRATION, DISTRIBUTION) if name in terms.vault.fields]
        size, *of_agent = map(terms.vault.vector_bytes, fields)

        def refuse(_node_id: int, reply: RegisterReply) -> str | None:
            told = [] if reply.distribution is None else [len(reply.distribution)]
            fits = len(reply.registration) == size and told == of_agent
            return None if fits else "wrong size of ciphertexts"

        accepted, report = accept_replies(self.batch, replies, refuse)
        settings, num_joined = context.settings, len(joined.members)
        enough = max(settings.least_nodes, (1.0 - settings.max_unregistered) * num_joined)
        # A key that does not open makes an error; another one helps no node that is silent.
        if num_joined - report.num_errors < enough and self.made.agents:
            context = context.reported(report)
            context = context.noted("The key of an agent did not open; another one is asked.")
            return Keygen.ask(context, joined, self.made.agents)
        if num_joined - report.num_errors < enough and self.made.committee:
            return context.reported(report), CommitteeLost(self.made.committee)
        # Both in one vector, so that a node counts with both or with none.
        vectors = {
            n: reply.registration + (reply.distribution or b"") for n, reply in accepted.items()
        }
        adder = terms.vault.adder(public, *fields)
        context, members, total = context.summed(adder, vectors, report, "registered")
        volunteers = joined.invitation.announced.num_volunteers(len(members))
        if (remark := terms.rule.remark(volunteers)) is not None:
            context = context.noted(remark)
        return context, RegisteredNodes(
            joined=joined,
            public=public,
            distributions={n: accepted[n].distribution or b"" for n in members},
            num_registered=len(members),
            last_sum=SettleRequest(total[:size], len(members), exchange=0),
            committee=self.made.committee,
        )
