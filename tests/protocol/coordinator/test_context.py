"""Tests of the state that all stages share: its text, sums, the order of agents, the quorum."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from protocol.server import federation

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.he.secret_key import generate_secret_key
from dubhe_flwr.protocol import StageReport
from dubhe_flwr.protocol.coordinator.context import (
    Context,
    GivenUpError,
    RoundProgress,
    Run,
)
from dubhe_flwr.protocol.vaults import SumName
from dubhe_flwr.protocol.vaults.paillier import Paillier
from dubhe_flwr.protocol.vaults.plain import Plain
from dubhe_flwr.protocol.wire.messages import JoinRequest

ANNOUNCED = JoinRequest("paper", "{}", 4, 512, 20, 3, 99)
SETTINGS = federation().selector.settings  # type: ignore[attr-defined]
CONTEXT = Context(SETTINGS, Run(seed=7, server_round=8), RoundProgress())


@pytest.mark.parametrize("plain", [False, True])
def test_invalid_ciphertexts_stay_out_of_the_sum(plain: bool) -> None:
    """The valid ones are added up, at once if all are valid; with too few the round ends."""
    vault: Any = (Plain if plain else Paillier)(ANNOUNCED, {"a": Slots(1, 9), "b": Slots(1, 1)})
    secret = generate_secret_key(512)
    prime, modulus = secret.to_bytes(), secret.public_key.to_bytes()
    add_up = partial(vault.add_up, b"" if plain else modulus, ["a", "b"])

    def hidden(number: int, field: str) -> bytes:
        return bytes(vault.hide(modulus + prime, SumName(field), np.array([number])))

    valid = {n: hidden(n, "a") + hidden(1, "b") for n in range(7)}
    size = vault.vector_bytes("a")
    report = StageReport("register", 7, 7, {}, 10, 20)
    context, members, _ = CONTEXT.summed(add_up, valid, report, "here")
    assert (members, context.round.reports) == (valid, (report,))
    bad = b"\xff" * size if plain else bytes(size)
    spoilt = {3: valid[3][:size] + bad, 1: bad * 2, 4: valid[4][:size]}
    context, members, total = CONTEXT.summed(add_up, valid | spoilt, report, "here")
    assert set(members) == {0, 2, 5, 6}
    assert context.round.reports[-1].dropped == {"invalid ciphertext": 3}
    parts = {"a": total[:size], "b": total[size:]}
    read = [vault.read(modulus + prime, SumName(name), part, 4) for name, part in parts.items()]
    assert [int(numbers[0]) for numbers in read] == [13, 4]
    with pytest.raises(GivenUpError, match="3 invalid ciphertext at register"):
        CONTEXT.summed(add_up, spoilt, report, "here")


def test_agents_of_a_refused_epoch_come_last() -> None:
    """Such agents may be the reason for the refusal; without one, no agent is suspected."""
    nodes = (1, 2, 3, 4, 5, 6)
    first, second, *rest = CONTEXT.agents(nodes)
    with_used_agents = CONTEXT.with_used_agents([first])
    assert with_used_agents.agents(nodes) == (first, second, *rest)
    renewed = replace(with_used_agents, round=replace(with_used_agents.round, num_renewals=1))
    assert renewed.agents(nodes) == (second, *rest, first)


class TestQuorum:
    """If too few nodes are left, the round ends with a sentence that says what to do."""

    @staticmethod
    def sentence(context: Context, num_nodes: int = 2, what: str = "registered") -> str:
        """Return the sentence for a round with this few nodes left."""
        with pytest.raises(GivenUpError) as error:
            context.check_quorum(num_nodes, what, None)
        assert isinstance(error.value, QuorumError)
        assert error.value.context is context
        return str(error.value)

    def test_giving_up_says_what_was_dropped_at_each_stage(self) -> None:
        """How many nodes there are, how many are needed, and why the rest were dropped."""
        lost = {"no reply": [7, 8], "unwilling": [9]}
        context = CONTEXT.reported(StageReport("join", 9, 0, lost, 1, 1))
        context = context.reported(StageReport("register", 9, 0, {"error reply": range(4)}, 1, 1))
        context.check_quorum(3, "registered", None)
        assert self.sentence(context) == (
            "Round 8: 2 nodes are registered, fewer than quorum=3 (2 no reply at join, 1 unwilling "
            "at join, 4 error reply at register); wait for more nodes that are willing and "
            "eligible, raise stage_timeout if replies are late, or lower quorum (and min_cohort)."
        )
        assert "1 nodes are there, fewer than quorum=3 (no reply was dropped)" in self.sentence(
            CONTEXT, 1, "there"
        )
        with pytest.raises(GivenUpError, match=r"\(eligible\(\) left out 7\)"):
            CONTEXT.check_quorum(2, "willing", None, num_ineligible=7)
        more = replace(CONTEXT, settings=replace(CONTEXT.settings, quorum=5))
        more.check_quorum(5, "there", None)
        assert "fewer than quorum=5" in self.sentence(more, 4)
