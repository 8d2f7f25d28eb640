"""Tests of a round of an epoch: what the nodes drew, and who replaces nodes that left."""

import numpy as np

from dubhe_flwr.protocol.coordinator.rounds import DeterminedRound, drawn_rounds
from dubhe_flwr.protocol.wire.draws import read_draws
from dubhe_flwr.protocol.wire.messages import ParticipateReply, ParticipateRequest

REGISTERED = (905, 2**63 + 2, 2**63 + 4, 17, 2**63 + 6, 5, 2**63 + 8, 88, 12)
READY = DeterminedRound(
    trained=(1, 4, 7),
    available=(1, 2, 3, 4, 5, 6, 7, 8),
    unwilling=(0,),
    num_tries=2,
    chosen=1,
)


def rows(chosen: tuple[int, ...]) -> list[int]:
    """Return the indices of nodes."""
    return [REGISTERED.index(node_id) for node_id in chosen]


def here(*away: int) -> frozenset[int]:
    """Return all nodes except these, by index."""
    return frozenset(node_id for row, node_id in enumerate(REGISTERED) if row not in away)


def test_bits_are_read_round_by_round() -> None:
    """Decisions are ordered by round, then by try, from the highest bit; silence is a no."""
    request = ParticipateRequest(b"", 9, 0, first_round=5, num_rounds=2, num_tries=5)
    first, second, *_ = REGISTERED
    replies = [
        ParticipateReply(bytes([0b00000_000, 0b00_000000]), bytes([0b10_000000])),
        ParticipateReply(bytes([0b10110_011, 0b01_111111]), bytes([0b01_111111])),
    ]
    drawn = drawn_rounds(REGISTERED, [second, first], read_draws(replies, request), first_round=5)
    assert list(drawn) == [5, 6]
    assert drawn[5].decisions.shape == (9, 5)
    assert drawn[5].decisions[0].tolist() == [True, False, True, True, False]
    assert drawn[6].decisions[0].tolist() == [False, True, True, False, True]
    assert not drawn[5].decisions[1:].any() | drawn[6].decisions[1:].any()
    assert [np.flatnonzero(drawn[r].available).tolist() for r in (5, 6)] == [[0], [1]]
    assert [drawn[r].unwilling for r in (5, 6)] == [(1,), (0,)]


def test_participants_are_ordered_by_alias() -> None:
    """All members train if all nodes are connected."""
    assert rows(READY.participants(REGISTERED, here(), 7, 3)) == [1, 4, 7]
    assert READY.willing(REGISTERED, here(3)) == [REGISTERED[row] for row in (1, 2, 4, 5, 6, 7, 8)]


def test_nodes_that_left_are_replaced() -> None:
    """Replacements are willing and connected, and drawn uniformly by seed and round."""
    present = here(4, 7, 8)
    seen = set()
    for seed in range(60):
        found = rows(READY.participants(REGISTERED, present, seed, 3))
        assert found == sorted({1, *found})
        assert len(found) == 3
        assert set(found) <= {1, 2, 3, 5, 6}
        seen.add(tuple(found))
    assert len(seen) == 6
    assert len({READY.participants(REGISTERED, present, 7, r) for r in range(30)}) > 3


def test_if_too_few_are_left_all_of_them_train() -> None:
    """All of them train, even if a float would round a 64-bit number."""
    others = frozenset(node_id + 1 for node_id in REGISTERED)
    present = others | {REGISTERED[1], REGISTERED[2], REGISTERED[0]}
    assert rows(READY.participants(REGISTERED, present, 7, 3)) == [1, 2]
    assert READY.participants(REGISTERED, frozenset(), 7, 3) == ()
