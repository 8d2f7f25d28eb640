"""Decides which nodes the next epoch takes, and which of them are its committee.

Nodes may be left out for two reasons: more are connected than `max_registered`, or the last epochs
were refused, perhaps because a node lied. `Join` uses this module; its *ranks* are the positions of
the trusted keys with which nodes signed, by node.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from dubhe_flwr.core.randomness import generator, shuffled
from dubhe_flwr.protocol.coordinator.context import Context
from dubhe_flwr.protocol.vaults.committee import CANDIDATES
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.messages import COMMITTEE_SIZE


def num_taken(context: Context) -> int:
    """Return how many nodes the next epoch takes.

    After a refused epoch, it takes half the number of the one before, but not fewer than a
    committee, nor fewer than K unless K is more than half of the nodes. It takes at least the
    quorum and, unless that is more than four fifths of the nodes, one more: a node that lied may
    then stop answering.
    """
    settings, num_present = context.settings, len(context.round.present)
    most, quorum = min(num_present, settings.max_registered), settings.least_nodes
    spare = max(quorum, min(quorum + 1, 4 * most // 5))
    least = max(spare, COMMITTEE_SIZE, min(settings.num_participants, most // 2))
    return min(most, max(least, most >> context.run.num_refused_epochs))


def sample(
    context: Context, nodes: Sequence[int], num_others: int = 0, last: Collection[int] = ()
) -> list[int]:
    """Return a sample of nodes in a random order, besides `num_others` others.

    The fewer epochs a node may have spoilt, the earlier it comes. If the numbers are equal, those
    in `last` come last, and the others are mixed each time. Otherwise two lying nodes could spoil
    all samples.
    """
    run, num_refused = context.run, context.run.num_refused_epochs
    if num_refused:
        nodes = shuffled(nodes, run.seed, "mixed", context.server_round, num_refused)
    line = sorted(nodes, key=lambda n: (run.doubts.get(n, 0), n in last))
    return line[: num_taken(context) - num_others]


def committee_of(
    context: Context, announced: JoinRequest, aliases: Mapping[int, str], ranks: Mapping[int, int]
) -> tuple[tuple[int, ...], int]:
    """Return the committee's members, if the epoch has one, and its position among all committees.

    There are fewer members if candidates are missing. The candidates are the nodes with the first
    six trusted keys, in their order, or without trusted keys six random nodes, drawn by alias,
    since node ids differ from run to run. The first three in this line are asked first. When it is
    another committee's turn, the three that were left out of the last one follow if there are six.
    But a committee comes later if one of its members may have spoilt at least two epochs more than
    another candidate. An epoch that continues takes the first committee in turn whose members all
    know how the last one ended, but not the last in turn, which may have failed.
    """
    if not announced.has_committee:
        return (), context.run.committee_turn
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
    # Two liars could spoil more epochs if a single doubt counted: committees would repeat sooner.
    usual = 1 + min((run.doubts.get(n, 0) for n in line), default=0)
    most = [max([usual, *(run.doubts.get(n, 0) for n in three)]) for three in turns]
    in_turn = sorted([*range(turn, len(turns)), *range(turn)], key=most.__getitem__)
    known = [at for at in in_turn[:-1] if announced.continues and settled.issuperset(turns[at])]
    position = [*known, *in_turn][0]
    return tuple(sorted(turns[position], key=lambda n: ranks.get(n, 0))), position


def registering(
    context: Context, committee: Sequence[int], nodes: Sequence[int], ranks: Mapping[int, int]
) -> list[int]:
    """Return the nodes that register: the committee, and a sample of the others.

    After a refused epoch, nodes with the first keys are left out if possible. A liar among them can
    then spoil only epochs that it opens.
    """
    others, last = [node_id for node_id in nodes if node_id not in committee], list[int]()
    if context.run.num_refused_epochs:
        last = [node_id for node_id in others if ranks.get(node_id, CANDIDATES) < CANDIDATES]
    return [*committee, *sample(context, others, len(committee), last)]
