"""Tests of an epoch: who replaces nodes that left a round."""

from dubhe_flwr.protocol.coordinator.epoch import DeterminedRound

REGISTERED = (905, 2**63 + 2, 2**63 + 4, 17, 2**63 + 6, 5, 2**63 + 8, 88, 12)
READY = DeterminedRound(
    tries=((2, 3, 5), (1, 4, 7)), available=(1, 2, 3, 4, 5, 6, 7, 8), unwilling=(0,), chosen=1
)


def rows(chosen: tuple[int, ...]) -> list[int]:
    """Return the indices of nodes."""
    return [REGISTERED.index(node_id) for node_id in chosen]


def test_nodes_that_left_are_replaced() -> None:
    """Replacements are willing and connected, and drawn uniformly by seed and round."""
    present = frozenset(REGISTERED[row] for row in (0, 1, 2, 3, 5, 6))
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
