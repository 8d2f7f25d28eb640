"""Tests of an epoch: who replaces nodes that left a round."""

from dubhe_flwr.protocol.coordinator.epoch import DeterminedRound

REGISTERED = (905, 17, 2**63 + 2, 5, 88)
READY = DeterminedRound(tries=((0, 4), (2, 3)), available=(1, 2, 3, 4), unwilling=(0,), chosen=1)


def test_nodes_that_left_are_replaced() -> None:
    """Replacements are willing and connected, and drawn uniformly by seed and round.

    If too few are left, all of them train, even if a float would round a 64-bit number.
    """
    present = frozenset(REGISTERED) - {5}
    for found in (
        {READY.participants(REGISTERED, present, seed, 3) for seed in range(30)},
        {READY.participants(REGISTERED, present, 7, server_round) for server_round in range(30)},
    ):
        assert found == {(17, 2**63 + 2), (2**63 + 2, 88)}
    for connected, rest in (({2**63 + 2, 905, 2**63 + 3}, (2**63 + 2,)), (set[int](), ())):
        assert READY.participants(REGISTERED, frozenset(connected), 7, 3) == rest
