"""Tests of what a node keeps: it comes back from its fields, and shows nobody what it holds."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import MalformedMessageError, RefusedError
from dubhe_flwr.protocol import SessionState
from dubhe_flwr.protocol.messages import JoinRequest
from dubhe_flwr.protocol.session_state import REMEMBERED_EPOCHS

JOIN = JoinRequest((1, 2, 10), (0.7, 0.1), 20, 2048, 1000, 3, 1000, 500, -1)
STATE = SessionState(
    epoch=b"\xab" * 16,
    sequence=5,
    past_epochs=b"\x01" * 16 + b"\xab" * 16,
    parameters=JOIN,
    recipient_key=b"recipient key 31415",
    distribution=(31415, 27182),
    slots=(27182, 31415),
    candidate=1,
    modulus=b"modulus 31415",
    secret_key=b"secret 31415",
    registry_digest=b"digest",
    moments_digest=b"31415 moments",
    probability_digest=b"digest of 31415",
    num_registered=31415,
    probability=0.31415,
    num_draws=31415,
    num_sums=31415,
)


@given(
    slots=st.lists(st.integers(0, 4095)).map(tuple),
    distribution=st.lists(st.integers(0, 2**20)).map(tuple),
    probability=st.floats(0, 1),
    secret_key=st.binary(),
    num_draws=st.integers(0, 2**63 - 1),
)
def test_round_trip(**changes: object) -> None:
    """A node finds after a request what it kept before."""
    state = replace(STATE, **changes)  # type: ignore[arg-type]
    assert SessionState.from_fields(state.to_fields()) == state


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 1},
        {"version": None},
        {"sequence": "5"},
        {"epoch": None},
        {"slots": b"1234567"},
        {"places": b""},
        {"parameters.num-participants": None},
        {"parameters.num-participants": 0},
        {"parameters.thresholds": [0.7, 0.1]},
    ],
)
def test_what_cannot_be_read_is_refused_without_a_detail(damage: dict[str, object]) -> None:
    """Another version, or damaged fields, give one error that shows nothing that was kept."""
    kept = {k: v for k, v in (STATE.to_fields() | damage).items() if v is not None}
    with pytest.raises(MalformedMessageError, match=r"^The kept session is not readable\.$"):
        SessionState.from_fields(kept)


def test_a_node_that_kept_nothing_readable_is_told_so() -> None:
    """No field at all is no session either."""
    with pytest.raises(MalformedMessageError, match="not readable"):
        SessionState.from_fields({})


def test_repr_hides_everything_secret() -> None:
    """Only the epoch and the number of the request are shown."""
    assert repr(STATE) == str(STATE) == "SessionState(epoch=abababab, sequence=5, <hidden>)"


def test_a_node_that_has_just_been_asked_has_nothing_yet() -> None:
    """No data, no key, no sum read, no draw spent; and no thresholds are settled."""
    state = SessionState(b"\xab" * 16, 5, b"\xab" * 16, JOIN, b"key")
    assert (state.distribution, state.slots, state.candidate) == ((), (), -1)
    assert (state.modulus, state.secret_key) == (b"", b"")
    assert (state.blocks_digest, state.registry_digest, state.moments_digest) == (b"", b"", b"")
    assert (state.expectations_digest, state.probability_digest) == (b"", b"")
    assert (state.num_registered, state.probability, state.expected) == (0, 0.0, False)
    assert (state.num_draws, state.num_sums) == (0, 0)


@pytest.mark.parametrize("write", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_never_pickled(write: Callable[[SessionState], object]) -> None:
    """It holds the epoch's secret key and p_l; only its fields are kept, at the node."""
    with pytest.raises(TypeError, match="never pickled"):
        write(STATE)


def test_without_a_key_nothing_is_decrypted() -> None:
    """A node that was lost while all registered says why it does not answer."""
    with pytest.raises(RefusedError, match=r"^This node has not registered in that epoch\.$"):
        replace(STATE, modulus=b"", secret_key=b"").decrypt("registry", bytes(512), 3)


def test_past_epochs_are_remembered_whole() -> None:
    """An id is found at its place only, not where two others meet."""
    first, second = bytes(range(16)), bytes(range(16, 32))
    state = replace(STATE, past_epochs=first + second)
    assert state.remembers(first)
    assert state.remembers(second)
    assert not state.remembers((first + second)[8:24])
    assert not state.remembers(b"\xab" * 16)
    assert not replace(STATE, past_epochs=b"").remembers(first)


def test_memory_is_long_enough() -> None:
    """A request to join is refused for many epochs after its own."""
    assert REMEMBERED_EPOCHS == 64
