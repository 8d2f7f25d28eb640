"""A committee member's part: it opens sums."""

from dataclasses import replace

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.node.guards import registration_of
from dubhe_flwr.protocol.node.memory import Keep, Membership
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.settle import population_and_noise, simulated_noise
from dubhe_flwr.protocol.vaults.committee import Committee
from dubhe_flwr.protocol.vaults.vault import Member, Numbers
from dubhe_flwr.protocol.wire.messages import OpenReply, OpenRequest
from dubhe_flwr.protocol.wire.terms import sum_name_of


def open_sum(policy: NodePolicy, joined: Membership, request: OpenRequest, keep: Keep) -> OpenReply:
    """Open each sum of the epoch once."""
    registered, rule, vault = registration_of(joined), joined.terms.rule, joined.terms.vault
    if joined.member is None or not isinstance(vault, Committee):
        raise RefusedError("This node is not a member of a committee.")
    if request.number >= rule.num_sums(joined.terms.frame):
        raise RefusedError("The rule needs no further sum.")
    sum_name = sum_name_of(request.number)
    member = vault.check_open(joined.member, registered.keys, sum_name, request)
    keep(replace(joined, member=member))
    noise = _noise(policy, joined, vault, member, request)
    return vault.release(member, member.group, sum_name, request, noise)


def _noise(
    policy: NodePolicy, joined: Membership, vault: Committee, member: Member, request: OpenRequest
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
    return vault.own_noise(member, request, deviations)
