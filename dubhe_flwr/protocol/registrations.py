"""What nodes registered: a sum of their registries, and their encrypted label distributions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dubhe_flwr.he import PublicKey, homomorphic_sum
from dubhe_flwr.protocol.messages import RegisterReply
from dubhe_flwr.protocol.parameters import DISTRIBUTION, REGISTRY, EpochParameters
from dubhe_flwr.protocol.plan import Batch, Replies, StageReport
from dubhe_flwr.protocol.summing import sum_replies
from dubhe_flwr.protocol.vectors import VectorCollector, Vectors

__all__ = ["Registrations", "read_registrations"]


@dataclass(frozen=True, slots=True)
class Registrations:
    """What nodes registered, all of them validly.

    Parameters
    ----------
    node_ids : tuple of int
        The nodes, in the order of their aliases.
    overall_registry : bytes
        Encrypted ``R_A``; empty if there are no nodes.
    distributions : Vectors
        Encrypted ``p_l`` of each node, in that order.
    replies : mapping of int to RegisterReply
        What each of them registered; empty unless it is still needed.
    """

    node_ids: tuple[int, ...]
    overall_registry: bytes
    distributions: Vectors
    replies: Mapping[int, RegisterReply] = field(default_factory=dict, repr=False)

    def of(
        self, node_ids: Collection[int], parameters: EpochParameters, public_key: PublicKey
    ) -> "Registrations":
        """Return what some of the nodes registered, whose replies were kept."""
        kept = _Kept(parameters.layout.field_bytes(DISTRIBUTION), keep_replies=True)
        for node_id in self.node_ids:
            if node_id in node_ids:
                kept.take(node_id, self.replies[node_id])
        registries = (reply.registry for reply in kept.replies.values())
        num_ciphertexts = parameters.layout.num_ciphertexts(REGISTRY)
        return Registrations(
            tuple(kept.node_ids),
            homomorphic_sum(public_key, registries, num_ciphertexts) if kept.node_ids else b"",
            kept.distributions.vectors(),
            kept.replies,
        )


def read_registrations(
    batch: Batch,
    replies: Replies,
    parameters: EpochParameters,
    public_key: PublicKey,
    *,
    keep_replies: bool,
) -> tuple[Registrations, StageReport]:
    """Read the replies to a request to register one by one; the registries are summed, not kept.

    Parameters
    ----------
    batch : Batch
        The requests, in the order of the aliases.
    replies : mapping
        As received.
    parameters : EpochParameters
        Of the epoch.
    public_key : PublicKey
        Of the epoch.
    keep_replies : bool
        Keep what each node registered, because some may yet be left out.
    """
    layout = parameters.layout
    registry_bytes = layout.field_bytes(REGISTRY)
    distribution_bytes = layout.field_bytes(DISTRIBUTION)

    def vector_of(reply: RegisterReply) -> bytes | None:
        fits = len(reply.registry) == registry_bytes
        # Both in one vector, so that a node counts with both or with none.
        return (
            reply.registry + reply.distribution
            if fits and len(reply.distribution) == distribution_bytes
            else None
        )

    kept = _Kept(distribution_bytes, keep_replies=keep_replies)
    num_ciphertexts = layout.num_ciphertexts(REGISTRY) + layout.num_ciphertexts(DISTRIBUTION)
    total, report = sum_replies(batch, replies, public_key, num_ciphertexts, vector_of, kept)
    overall_registry = total.value()[:registry_bytes] if total.num_addends else b""
    return (
        Registrations(
            tuple(kept.node_ids), overall_registry, kept.distributions.vectors(), kept.replies
        ),
        report,
    )


class _Kept:
    """The nodes in the order in which they are read, and what is kept of them."""

    def __init__(self, distribution_bytes: int, *, keep_replies: bool) -> None:
        self._distribution_bytes = distribution_bytes
        self._keep_replies = keep_replies
        self.clear()

    def clear(self) -> None:
        self.node_ids: list[int] = []
        self.distributions = VectorCollector(self._distribution_bytes)
        self.replies: dict[int, RegisterReply] = {}

    def take(self, node_id: int, reply: RegisterReply) -> None:
        self.node_ids.append(node_id)
        self.distributions.add(reply.distribution)
        if self._keep_replies:
            self.replies[node_id] = reply
