"""Tests of the way in which a selector's state becomes JSON and comes back."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from protocol.examples import FOREIGN_VALUES
from protocol.federation import Federation, dubhe, epoch_of, fingerprint, skewed_counts

from dubhe_flwr.errors import CheckpointError, QuorumError
from dubhe_flwr.protocol import CoordinatorState, from_json
from dubhe_flwr.protocol.saved import to_json


def played(num_rounds: int = 2, **settings: Any) -> Federation[CoordinatorState]:
    """Return a federation after some rounds."""
    options: dict[str, Any] = {
        "num_participants": 4,
        "reference_set": (1, 2, 4),
        "thresholds": {1: 0.6, 2: 0.3},
        "tries": 3,
        "rounds_per_draw": 3,
    }
    federation = dubhe(skewed_counts(12), **options | settings)
    for server_round in range(1, num_rounds + 1):
        federation.play(server_round)
    return federation


def saved(federation: Federation[CoordinatorState]) -> Any:
    """Return the state of the server after its way through a file."""
    return json.loads(json.dumps(federation.selector.state_dict(federation.state)))


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in nested dictionaries."""
    if not isinstance(data, dict):
        return [path]
    return [leaf for key, item in data.items() for leaf in leaves(item, (*path, key))]


def parent(data: Any, path: tuple[Any, ...]) -> Any:
    """Return the dictionary that holds the value at a path."""
    for key in path[:-1]:
        data = data[key]
    return data


@pytest.mark.parametrize(
    "settings", [{}, {"determination": "grouped", "group_size": 3}, {"participation": "calibrated"}]
)
def test_epoch_and_drawn_rounds_come_back_as_they_were(settings: dict[str, Any]) -> None:
    """Every field of them, with types, shapes and orders."""
    federation = played(**settings)
    restored = federation.selector.load_state_dict(saved(federation), interrupted=False)
    for name in ("seed", "sequence", "server_round", "epoch", "rounds"):
        there, here = getattr(restored, name), getattr(federation.state, name)
        assert fingerprint(there) == fingerprint(here), name
    assert len(restored.rounds) == 2
    assert restored.restored
    assert (restored.batch, restored.enrolment) == (None, None)


def test_after_an_interruption_only_the_seed_and_the_numbers_come_back() -> None:
    """Nodes may have answered what the state does not know of, so its epoch is over."""
    federation = played()
    restored = federation.selector.load_state_dict(saved(federation), interrupted=True)
    assert (restored.epoch, restored.rounds, restored.restored) == (None, {}, False)
    assert restored.seed == federation.state.seed
    assert restored.server_round == 2


def test_where_too_few_of_the_registered_are_back_all_register() -> None:
    """Other nodes may have come in their place; only after a restart is that no error."""
    federation = played(0, rounds_per_draw=1, max_unregistered=1.0, quorum=6)
    first, later = federation.ids[:6], federation.ids[1:7]
    federation.play(1, first)
    federation.state = federation.selector.load_state_dict(saved(federation), interrupted=False)
    plan = federation.play(2, later)
    assert not plan.fallback
    assert set(plan.participants) <= set(later)
    assert "do not know the epoch of the checkpoint" in " ".join(plan.notes)
    assert plan.stages[0].stage == "join"
    assert set(epoch_of(federation).registered) == set(later)


def test_without_a_restart_that_is_an_error() -> None:
    """Who left may come back, and two sums of registries would differ by two nodes only."""
    federation = played(0, rounds_per_draw=1, max_unregistered=1.0, quorum=6)
    federation.play(1, federation.ids[:6])
    with pytest.raises(QuorumError, match="5 nodes are registered and there, fewer than quorum=6"):
        federation.play(2, federation.ids[1:7])


def test_what_a_search_found_comes_back() -> None:
    """Thresholds, and who was there when they were searched: they tell when to search again."""
    federation = played(1, thresholds="search")
    assert federation.state.searched == set(federation.ids)
    for interrupted in (False, True):
        load = federation.selector.load_state_dict
        restored = load(saved(federation), interrupted=interrupted)
        assert restored.searched == federation.state.searched
        assert restored.thresholds == federation.state.thresholds is not None


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize(
    "now", [{"thresholds": {1: 0.33, 2: 0.12}}, {"reference_set": (1, 4), "thresholds": "search"}]
)
def test_what_a_search_found_yields_to_what_is_set_now(
    now: dict[str, Any], *, interrupted: bool
) -> None:
    """Thresholds that the operator gives, or a grid without them, take the place of the old."""
    before = saved(played(1, thresholds="search"))
    federation = played(0, **now)
    federation.state = federation.selector.load_state_dict(before, interrupted=interrupted)
    assert federation.state.thresholds is None
    plan = federation.play(2)
    assert list(plan.thresholds) == [1, 2][: len(now.get("reference_set", (1, 2, 4))) - 1]
    assert plan.thresholds == now["thresholds"] or now["thresholds"] == "search"
    assert plan.stages[0].stage == "join"


def test_once_nodes_have_answered_a_restart_is_over() -> None:
    """Later losses in the same epoch are an error again, as if there had been no restart."""
    federation = played(1, rounds_per_draw=1, max_unregistered=1.0)
    federation.state = federation.selector.load_state_dict(saved(federation), interrupted=False)
    assert federation.state.restored
    federation.play(2)
    assert not federation.state.restored
    with pytest.raises(QuorumError, match="2 nodes are registered and there"):
        federation.play(3, federation.ids[:2])


@pytest.mark.parametrize("data", [[], "state", None, 7])
def test_what_is_no_dictionary_is_no_state(data: Any) -> None:
    """The error says what was given and where."""
    with pytest.raises(CheckpointError, match=f"selector: {type(data).__name__} is no dictionary"):
        played(0).selector.load_state_dict(data, interrupted=False)


@pytest.mark.parametrize("interrupted", [False, True])
def test_who_declined_stays_out_of_rounds_by_chance(interrupted: bool) -> None:
    """A round that is given up after a restart drafts whom it would have drafted without."""
    federation = played(0, on_failure="random", rounds_per_draw=1)
    out = federation.ids[:8]
    for node_id in out:
        policy = federation.policies[node_id]
        federation.policies[node_id] = replace(policy, willing=lambda _round: False)
    federation.play(1)
    federation.alter_request = lambda _stage, _node_id, _request: None
    before, text = federation.state, saved(federation)
    without = federation.play(2)
    federation.state = before
    federation.state = federation.selector.load_state_dict(text, interrupted=interrupted)
    plan = federation.play(2)
    assert without.fallback
    assert plan.fallback
    assert not {*plan.participants} & {*out}
    assert set(plan.participants) == set(without.participants)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_round_by_chance_is_the_same_after_a_restart(interrupted: bool) -> None:
    """The aliases of an epoch are known even where it cannot go on."""
    federation = played(2, on_failure="random", rounds_per_draw=1)
    federation.alter_request = lambda _stage, _node_id, _request: None
    text = saved(federation)
    without = federation.play(3)
    federation.state = federation.selector.load_state_dict(text, interrupted=interrupted)
    plan = federation.play(3)
    assert without.fallback
    assert plan.fallback
    assert (plan.participants, plan.aliases) == (without.participants, without.aliases)


@pytest.mark.parametrize("stage", ["join", "keygen", "register", "participate", "determine"])
def test_in_the_middle_of_an_exchange_no_epoch_is_saved(stage: str) -> None:
    """A state that awaits replies cannot go on, whatever the caller says."""
    federation = played(0)
    federation.until(stage)
    state = saved(federation)
    assert (state["epoch"], state["rounds"]) == (None, {})


def test_every_key_must_be_there_and_be_known() -> None:
    """Wherever a key is missing or too many, the error names it and its place."""
    federation = played()
    whole = saved(federation)
    load = federation.selector.load_state_dict
    for path in leaves(whole):
        place, name = parent(whole, path), path[-1]
        by_number = name.isdigit()  # nodes and rounds may be any
        value = place.pop(name)
        if not by_number:
            with pytest.raises(CheckpointError, match=rf"selector.*'{name}' is missing"):
                load(whole, interrupted=False)
            place["extra"] = value
            with pytest.raises(CheckpointError, match=r"'(extra|" + name + ")' is"):
                load(whole, interrupted=False)
            del place["extra"]
        place[name] = value
    assert load(whole, interrupted=False).epoch is not None


def test_a_value_of_another_type_is_refused() -> None:
    """Nothing but the package's own error comes out."""
    federation = played()
    whole = saved(federation)
    for path in leaves(whole):
        place, name = parent(whole, path), path[-1]
        before = place[name]
        for value in (
            *FOREIGN_VALUES,
            [[1]],
            [None],
            "not base64!",
            -1,
            {"shape": [9], "bits": ""},
        ):
            place[name] = value
            with suppress(CheckpointError):
                federation.selector.load_state_dict(whole, interrupted=False)
        place[name] = before


@pytest.mark.parametrize(
    ("kind", "data"), [(NDArray[np.int64], [2**70]), (float, 10**400)], ids=["array", "float"]
)
def test_a_number_beyond_its_type_is_refused(kind: Any, data: Any) -> None:
    """JSON holds numbers of any size."""
    with pytest.raises(CheckpointError, match="changed or damaged"):
        from_json(kind, data, "number")


@pytest.mark.parametrize(
    "data",
    [
        {"shape": [9], "bits": "AA=="},
        {"shape": [8], "bits": "AAA="},
        {"shape": [0], "bits": "AA=="},
        {"shape": [-1], "bits": "AA=="},
        {"shape": [-2, -2], "bits": "AA=="},
    ],
)
def test_bits_of_another_number_are_refused(data: Any) -> None:
    """As many bytes as the shape needs, neither fewer nor more."""
    with pytest.raises(CheckpointError, match="changed or damaged"):
        from_json(NDArray[np.bool_], data, "bits")


@given(arrays(np.bool_, array_shapes(max_dims=3, min_side=0, max_side=9)))
def test_bits_come_back(array: NDArray[np.bool_]) -> None:
    """Whatever their shape."""
    read = from_json(NDArray[np.bool_], json.loads(json.dumps(to_json(array))), "bits")
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert (read == array).all()


@dataclass(frozen=True)
class Sample:
    """One field of each type that the protocol's states have."""

    name: str
    yes: bool
    number: int
    share: float
    key: bytes
    maybe: bytes | None
    numbers: tuple[int, ...]
    shares: tuple[float, ...]
    nodes: frozenset[int]


@given(st.builds(Sample, share=st.floats(allow_nan=False), shares=st.just((0.1, 1e-300))))
def test_plain_values_come_back(sample: Sample) -> None:
    """Bit for bit, floats included."""
    assert from_json(Sample, json.loads(json.dumps(to_json(sample))), "sample") == sample
