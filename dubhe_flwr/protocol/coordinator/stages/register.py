"""The stage `register`: nodes encrypt what the rule adds up, and their label distributions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.he.public_key import PublicKey, Unencrypted
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.stages.join import JoinedNodes
from dubhe_flwr.protocol.coordinator.stages.keygen import Keygen, KeyMade
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.messages import RegisterReply, SettleRequest, Stage
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, REGISTRATION


@dataclass(frozen=True)
class RegisteredNodes:
    """The nodes that registered, and have missed no exchange since."""

    joined: JoinedNodes  # the nodes that joined, these among them
    public_key: PublicKey | Unencrypted
    distributions: Mapping[int, bytes]  # encrypted p_l by node id, in the order of the aliases
    num_registered: int  # clients that the sum of the registrations covers
    last_sum: SettleRequest  # what the nodes are given next: the sum of what they told last


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

    def take(self, context: Context, replies: Replies) -> tuple[Context, RegisteredNodes | Keygen]:
        """Add up the registrations; ask another agent if its key opened for too few."""
        joined, public_key = self.made.joined, self.made.public_key
        layout = joined.invitation.terms.layout
        sizes = layout.field_bytes(REGISTRATION), layout.field_bytes(DISTRIBUTION)

        def refuse(_node_id: int, reply: RegisterReply) -> str | None:
            fits = (len(reply.registration), len(reply.distribution)) == sizes
            return None if fits else "wrong size of ciphertexts"

        accepted, report = accept_replies(self.batch, replies, refuse)
        settings, num_joined = context.settings, len(joined.members)
        enough = max(settings.least_nodes, (1.0 - settings.max_unregistered) * num_joined)
        # A key that does not open makes an error; another one helps no node that is silent.
        if num_joined - report.num_errors < enough and self.made.agents:
            context = context.reported(report)
            context = context.noted("The key of an agent did not open; another one is asked.")
            return Keygen.ask(context, joined, self.made.agents)
        # Both in one vector, so that a node counts with both or with none.
        vectors = {n: reply.registration + reply.distribution for n, reply in accepted.items()}
        num_ciphertexts = sum(map(layout.num_ciphertexts, (REGISTRATION, DISTRIBUTION)))
        context, members, total = context.summed(
            public_key, vectors, num_ciphertexts, report, "registered"
        )
        context, kept = _by_lot(context, joined, members)
        if len(kept) < len(members):
            of_registration = layout.num_ciphertexts(REGISTRATION)
            total = public_key.add_up((accepted[n].registration for n in kept), of_registration)
        left_out = joined.invitation.left_out | (members.keys() - kept)
        return context, RegisteredNodes(
            joined=replace(joined, invitation=replace(joined.invitation, left_out=left_out)),
            public_key=public_key,
            distributions={n: accepted[n].distribution for n in kept},
            num_registered=len(kept),
            last_sum=SettleRequest(total[: sizes[0]], len(kept), exchange=0),
        )


def _by_lot(
    context: Context, joined: JoinedNodes, nodes: Collection[int]
) -> tuple[Context, list[int]]:
    """Leave out a random tenth of the nodes, once a registration is of others than the one before.

    Two sums over all nodes but a few tell what these few registered. Those whom the lot did not ask
    to join count as left out; a small federation, and one of hardly more than K, spares fewer.
    """
    run, settings, kept = context.run, context.settings, list(nodes)
    has_varied = run.has_varied or run.last_registered not in {None, frozenset(kept)}
    number = len(kept) + len(joined.invitation.left_out)
    if has_varied and number >= 10 * settings.min_cohort:
        most = max(settings.least_nodes, settings.num_participants, number - number // 10)
        lots = generator(run.seed, "left out", context.server_round).permutation(len(kept))
        kept = [kept[lot] for lot in sorted(lots[:most])]
    run = replace(run, last_registered=frozenset(kept), has_varied=has_varied)
    return replace(context, run=run), kept
