"""Decides which nodes the next epoch takes, and which of them are its committee.

Nodes may be left out for two reasons: more are connected than `max_registered`, or the last epochs
were refused, perhaps because a node lied. `Join` uses this module; its *ranks* are the positions of
the trusted keys with which nodes signed, by node.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from dubhe_flwr.core.randomness import generator, shuffled
from dubhe_flwr.protocol.coordinator.context import Context
from dubhe_flwr.protocol.vaults.committee import CANDIDATES
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.messages import COMMITTEE_SIZE


def num_taken(context: Context) -> int:
    """Return how many nodes the next epoch takes."""
    return _sizes(context)[-1]


def sample(context: Context, nodes: Sequence[int], num_others: int = 0) -> list[int]:
    """Return a sample of nodes in a random order, besides `num_others` others.

    After a refused epoch, each sample continues where the previous one ended, as if the nodes stood
    in a circle. So a lying node is in one of two samples at most, if these are halves or smaller.
    Before such samples repeat, the nodes are mixed, or two lying nodes could spoil all of them.
    """
    sizes = [size - num_others for size in _sizes(context)]
    start = lap = 0
    for last, size in pairwise(sizes[1:]):  # the epoch before the first halved one was not halved
        start += last
        if start + size > len(nodes) >= 2 * size:
            start, lap = 0, lap + 1
    if lap:
        nodes = shuffled(nodes, context.run.seed, "lap", context.server_round, lap)
    start %= max(1, len(nodes))
    return [*nodes[start:], *nodes[:start]][: sizes[-1]]


def committee_of(
    context: Context, announced: JoinRequest, aliases: Mapping[int, str], ranks: Mapping[int, int]
) -> tuple[int, ...]:
    """Return the committee's members, if the epoch has one; fewer if candidates are missing.

    The candidates are the nodes with the first six trusted keys, in their order, or without trusted
    keys six random nodes, drawn by alias, since node ids differ from run to run. The first three in
    this line are asked first. When it is another committee's turn, the three that were left out of
    the last one follow if there are six. A node that always fails therefore spoils at most four
    epochs in a row, and it is not asked again until the committee without it fails. An epoch that
    continues takes the first committee in turn whose members all know how the last one ended, but
    not the last in turn, which may have failed.
    """
    if not announced.has_committee:
        return ()
    run, settled = context.run, context.run.settled
    lots = {
        node_id: generator(run.seed, "committee", context.server_round, alias).random()
        for node_id, alias in aliases.items()
        if ranks.get(node_id, 0) < CANDIDATES
    }
    line = sorted(lots, key=lambda n: (ranks.get(n, n not in settled), lots[n]))
    threes: list[tuple[int, ...]] = [*combinations(line[:CANDIDATES], COMMITTEE_SIZE)]
    threes = threes or [tuple(line)]
    # The first and the last choice have no node in common if there are six, and so on inwards.
    pairs = zip(threes, reversed(threes), strict=True)
    turns = [three for pair in pairs for three in pair][: len(threes)]
    turn = run.committee_turn % len(turns)
    in_turn = [*turns[turn:], *turns[:turn]]
    known = [three for three in in_turn[:-1] if announced.continues and settled.issuperset(three)]
    members = [*known, *in_turn][0]
    return tuple(sorted(members, key=lambda node_id: ranks.get(node_id, 0)))


def registering(
    context: Context, committee: Sequence[int], nodes: Sequence[int], ranks: Mapping[int, int]
) -> list[int]:
    """Return the nodes that register: the committee, and a sample of the others.

    After a refused epoch, the other nodes with the first keys come last, so that the epoch leaves
    out a lying candidate unless it is a member.
    """
    last: list[int] = []
    if context.run.num_refused_epochs:
        candidates = (n for n in nodes if ranks.get(n, CANDIDATES) < CANDIDATES)
        last = [node_id for node_id in candidates if node_id not in committee]
    others = [n for n in nodes if n not in (*committee, *last)]
    line = [*committee, *sample(context, others, len(committee)), *last]
    return line[: num_taken(context)]


def _sizes(context: Context) -> list[int]:
    """Return how many nodes take part in each epoch since the last one that was not refused.

    Each epoch takes half the number of the previous one, but not fewer than the quorum or a
    committee, nor fewer than K unless K is more than half of the nodes.
    """
    settings, num_present = context.settings, len(context.round.present)
    most = min(num_present, settings.max_registered)
    least = max(settings.least_nodes, COMMITTEE_SIZE, min(settings.num_participants, most // 2))
    num_epochs = context.run.num_refused_epochs + 1
    return [min(most, max(least, most >> num_refused)) for num_refused in range(num_epochs)]
