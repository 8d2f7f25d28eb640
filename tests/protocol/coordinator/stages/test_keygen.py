"""Tests of the stage `keygen`: an agent makes the key of the epoch."""

import pytest
from protocol.server import agents_in_turn, altered, asked, federation, lost

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol.wire.roster import Roster


def test_at_most_seven_agents_are_asked() -> None:
    """When the seventh epoch fails, the server gives up the round."""
    nodes = federation()
    with altered(nodes, "keygen", lost), pytest.raises(QuorumError, match="No sum can be opened"):
        nodes.play(1)
    assert asked(nodes, "keygen") == agents_in_turn(nodes, purpose="keygen")[:7]
    assert len(nodes.play(2).participants) == 4


def test_the_mean_number_of_samples_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Server and agent compute it once; once per node, the time would grow quadratically."""
    computed: list[float | None] = []

    def told(roster: Roster) -> float | None:
        computed.append(12.0)
        return computed[-1]

    monkeypatch.setattr(Roster, "mean_examples", property(told))
    federation(equal_weights=False).play(1)
    assert len(computed) == 2
