"""Tests of the server's state and the small changes that each stage makes to it."""

import pytest

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import CoordinatorState, Stage, StageReport
from dubhe_flwr.protocol.messages import HelloRequest
from dubhe_flwr.protocol.registrations import Registrations
from dubhe_flwr.protocol.state import check_quorum, noted, reported, send
from dubhe_flwr.protocol.vectors import Vectors


def test_before_the_first_round_there_is_nothing() -> None:
    """Nobody is there, nothing was asked, and no checkpoint was read."""
    state = CoordinatorState(seed=1)
    assert (state.sequence, state.server_round, state.attempt, state.num_renewals) == (0, 0, 0, 0)
    assert (state.batch, state.enrolment, state.epoch, state.thresholds) == (None,) * 4
    assert (state.restored, state.notes, state.stages) == (False, (), ())


def test_what_is_shown_has_no_answers_of_nodes() -> None:
    """Megabytes of ciphertexts in a log help nobody."""
    assert "expectations" not in repr(CoordinatorState(seed=1))
    assert "replies" not in repr(Registrations((), b"", Vectors(1, b"")))


def test_each_batch_has_a_number_of_its_own() -> None:
    """Numbers rise from batch to batch, so that an old reply is known."""
    state, batch = send(CoordinatorState(seed=1), bytes(16), Stage.JOIN, {4: HelloRequest()})
    assert (batch.header.epoch, batch.header.stage, batch.header.sequence) == (bytes(16), "join", 1)
    assert type(batch.header.stage) is str
    assert batch.requests == {4: HelloRequest()}
    assert state.batch is batch
    state, batch = send(state, bytes(16), Stage.KEYGEN, {})
    assert (state.sequence, batch.header.sequence) == (2, 2)


def test_notes_and_reports_add_up() -> None:
    """Each is put behind the others, in a new state."""
    first = CoordinatorState(seed=1)
    report = StageReport("join", 1, 1, {}, 10, 20)
    state = reported(noted(noted(first, "a"), "b"), report)
    assert (state.notes, state.stages) == (("a", "b"), (report,))
    assert (first.notes, first.stages) == ((), ())


def test_quorum_sentence() -> None:
    """It says how many there are, how many are needed, what became of the rest, and what to do."""
    state = CoordinatorState(seed=1, server_round=8)
    state = reported(state, StageReport("join", 9, 6, {"no reply": 2, "unwilling": 1}, 0, 0))
    state = reported(state, StageReport("register", 6, 2, {"error reply": 4}, 0, 0))
    check_quorum(state, 3, "registered", 3)
    with pytest.raises(QuorumError) as error:
        check_quorum(state, 2, "registered", 3)
    assert str(error.value) == (
        "Round 8: 2 nodes are registered, fewer than quorum=3 (2 no reply at join, 1 unwilling at "
        "join, 4 error reply at register); wait for more nodes or lower the quorum."
    )


def test_the_sentence_names_what_the_nodes_ask_for() -> None:
    """Waiting for more nodes helps nobody where nodes refuse the parameters."""
    state = CoordinatorState(seed=1, server_round=1)
    state = reported(state, StageReport("join", 9, 0, {"refuses parameters": 9}, 0, 0))
    with pytest.raises(QuorumError, match=r"raise key_bits or min_cohort .*min_key_bits"):
        check_quorum(state, 0, "joined", 3)


def test_quorum_sentence_without_a_loss() -> None:
    """Where nothing was dropped it says so."""
    with pytest.raises(QuorumError, match=r"1 nodes are there, .* \(no reply was dropped\)"):
        check_quorum(CoordinatorState(seed=1), 1, "there", 2)
