"""A committee member's part: it checks who joined, and opens sums."""

from dataclasses import replace

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.node.enter import seat_of
from dubhe_flwr.protocol.node.guards import appointed, registration_of
from dubhe_flwr.protocol.node.memory import Keep, Membership
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.settle import population_and_noise, simulated_noise
from dubhe_flwr.protocol.vaults.committee import Committee, Member
from dubhe_flwr.protocol.vaults.vault import Numbers
from dubhe_flwr.protocol.wire.messages import AppointReply, AppointRequest, OpenReply, OpenRequest
from dubhe_flwr.protocol.wire.terms import sum_name_of


def appoint(
    policy: NodePolicy, joined: Membership, request: AppointRequest, keep: Keep
) -> AppointReply:
    """Become a member of the committee, unless the node has registered already."""
    if joined.registered is not None:
        raise RefusedError("This node has already registered in this registration period.")
    joined = appointed(joined)
    keep(joined)
    reply, member = _vault(joined).appoint(seat_of(policy, joined), request)
    keep(replace(joined, member=member))
    return reply


def open_sum(policy: NodePolicy, joined: Membership, request: OpenRequest, keep: Keep) -> OpenReply:
    """Open each sum of the epoch once."""
    vault, registered, rule = _vault(joined), registration_of(joined), joined.terms.rule
    if joined.member is None:
        raise RefusedError("This node is not a member of the committee.")
    if request.number >= rule.num_sums(joined.terms.frame):
        raise RefusedError("The rule needs no further sum.")
    sum_name = sum_name_of(request.number)
    member = vault.check_open(joined.member, registered.keys, sum_name, request)
    keep(replace(joined, member=member))
    noise = _noise(policy, joined, member, request)
    return vault.release(member, member.group, sum_name, request, noise)


def _noise(
    policy: NodePolicy, joined: Membership, member: Member, request: OpenRequest
) -> Numbers | None:
    """Return the noise that the member adds to a sum."""
    num_clients = sum(byte.bit_count() for byte in request.covered)
    _, deviations = population_and_noise(
        joined, request.number, num_clients, member.num_registered, member.num_joined
    )
    if deviations is None:
        return None
    if policy.seed_in(joined.announced) is not None:
        return simulated_noise(joined, deviations, request.number, member.place)
    return _vault(joined).own_noise(member, request, deviations)


def _vault(joined: Membership) -> Committee:
    """Return the committee's vault; refuse in an epoch without one."""
    if not isinstance(joined.terms.vault, Committee):
        raise RefusedError("No committee opens the sums of this registration period.")
    return joined.terms.vault
