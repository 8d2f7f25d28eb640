"""A ServerApp that ended or was killed continues when started again, in either API."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from apis import (
    TRAIN,
    Api,
    Killed,
    in_both_apis,
    initial_parameters,
    same,
    strategy_server_app,
)
from flwr.serverapp.strategy import Strategy

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.resume import Run
from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.rules import Paper
from dubhe_flwr.simulation import run_on_grid
from dubhe_lab.baselines import RandomSelector

NUM_ROUNDS = 4
FEW = 12
"""Nodes under encryption; half of them are selected."""
SEARCH: dict[str, Any] = {"rule": Paper((1, 2, 4), "search"), "registration_interval": 1}
ANEW: dict[str, Any] = {"registration_interval": 1, "simulation": "plain"}
"""Each round registers, so that a restart changes nothing."""

pytestmark = in_both_apis


@cache
def uninterrupted(api: Api) -> tuple[list[list[int]], Any]:
    """Return the sets and the model of four rounds, each of which registers."""
    strategy = api.dubhe(**ANEW)
    model = api.run(strategy, api.grid(), NUM_ROUNDS)
    return strategy.selected, model


def check_same_as_uninterrupted(api: Api, path: Path, make: Callable[..., Any]) -> None:
    """Run once without and once with a pause, and compare."""
    whole = make()
    model = api.run(whole, api.grid(), NUM_ROUNDS)
    grid, first, second = api.grid(), make(checkpoint_dir=path), make(checkpoint_dir=path)
    api.run(first, grid, 2)
    resumed = api.run(second, grid, NUM_ROUNDS)
    assert first.selected + second.selected == whole.selected
    assert same(resumed, model)
    assert [plan.server_round for plan in second.plans] == list(range(3, NUM_ROUNDS + 1))


def test_a_restart_of_a_random_selection_changes_nothing(api: Api, tmp_path: Path) -> None:
    """A restart leaves sets and model the same bit for bit."""
    at_random = partial(api.selection, RandomSelector(6, seed=3))
    check_same_as_uninterrupted(api, tmp_path / "kept", at_random)


@pytest.mark.parametrize("kind", ["FedAdam", "FedAvgM"])
def test_what_the_wrapped_strategy_keeps_survives(api: Api, tmp_path: Path, kind: str) -> None:
    """The wrapped strategy's moments and momentum survive a restart."""
    options = {"server_momentum": 0.9} if kind == "FedAvgM" else {}
    check_same_as_uninterrupted(
        api, tmp_path, lambda **o: api.dubhe(api.wrapped(kind, **options), **ANEW, **o)
    )


def test_the_clipping_norm_of_differential_privacy_survives(api: Api, tmp_path: Path) -> None:
    """The adaptive clipping norm survives a restart."""
    norms = []
    for num_rounds in (3, 5):
        wrapper = api.private("ServerSideAdaptive", api.wrapped())
        strategy = api.dubhe(wrapper, **ANEW, checkpoint_dir=tmp_path)
        strategy.rounds_left(num_rounds)
        norms.append(wrapper.clipping_norm)
        api.run(strategy, api.grid(), num_rounds)
        norms.append(wrapper.clipping_norm)
    assert norms[0] != norms[1] == norms[2] != norms[3]


def test_a_state_is_json_and_loads_into_another_strategy(api: Api) -> None:
    """What state_dict returns can pass through JSON and be loaded, without a directory."""
    grid, first, second = api.grid(), *(api.dubhe(**ANEW) for _ in range(2))
    for strategy in (first.strategy, second.strategy):  # the state then has no arrays
        vars(strategy).pop("initial_parameters", None)
        strategy.initialize_parameters = lambda _manager: initial_parameters()
    api.run(first, grid, 2)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict()
    assert second.rounds_done == 2
    api.run(second, grid, NUM_ROUNDS)
    assert first.selected + second.selected == uninterrupted(api)[0]
    assert [plan.server_round for plan in second.plans] == [3, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(version=2), "version 2, not 1; load it with the version of dubhe-flwr"),
        (lambda s: s.pop("version"), "key 'version' is missing"),
        (lambda s: s.update(round=-1), "state.round: -1 is negative"),
        (lambda s: s["selector"].pop("seed"), "selector: key 'seed' is missing"),
        (lambda s: s["wrapped"].append({}), "has 2 nested strategies"),
        (lambda s: s.update(wrapped=[{"lr": 1}]), "has no 'lr'"),
        (lambda s: s.update(wrapped=[5]), "wrap the same strategies"),
        (lambda s: s.update(wrapped={}), "state.wrapped: a dict does not belong there"),
    ],
)
def test_an_unfit_state_is_refused_by_name(
    api: Api, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    """The error names the wrong key or version, and the strategy does not change."""
    saved = {**api.dubhe().state_dict(), "wrapped": [{}]}
    change(saved)
    fresh = api.dubhe()
    before = fresh.driver.run.state
    with pytest.raises(CheckpointError, match=message):
        fresh.load_state_dict(saved)
    assert fresh.driver.run.state == before
    assert fresh.rounds_done == 0


class Accountant:
    """Counts releases, as Flower's accountants do."""

    def __init__(self) -> None:
        self.spent = 0

    def state_dict(self) -> dict[str, Any]:
        return {"spent": self.spent}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.spent = saved["spent"]


def test_the_count_of_a_privacy_accountant_survives(api: Api) -> None:
    """A restart does not refill the privacy budget."""

    def private(accountant: Any) -> Any:
        wrapper = api.private("ServerSideFixed", api.wrapped())
        wrapper.accountant = accountant
        return api.dubhe(wrapper)

    before, after = Accountant(), Accountant()
    before.spent = 5
    saved = private(before).state_dict()
    private(after).load_state_dict(saved)
    assert after.spent == 5
    with pytest.raises(CheckpointError, match="has no 'accountant'"):
        private(None).load_state_dict(saved)


def counted(api: Api) -> tuple[Any, Any]:
    """Return a strategy that keeps a state, inside Flower's differential privacy."""

    class Counted(api.flower.FedAvg):  # type: ignore[name-defined, misc]
        count = 0

        def state_dict(self) -> dict[str, Any]:
            return {"count": self.count}

        def load_state_dict(self, saved: dict[str, Any]) -> None:
            self.count = saved["count"]
            if self.count < 0:
                raise ValueError("count is below 0")

    inner = Counted()
    return inner, api.private("ServerSideFixed", inner)


def test_a_wrapped_strategy_may_keep_its_own_state(api: Api) -> None:
    """A strategy's own state_dict and load_state_dict are used, however deep it is wrapped."""
    (inner, wrapper), (other, another) = counted(api), counted(api)
    inner.count = 5
    api.dubhe(another).load_state_dict(api.dubhe(wrapper).state_dict())
    assert other.count == 5


def test_a_state_that_an_inner_strategy_refuses_changes_no_outer_one(api: Api) -> None:
    """If one layer refuses a state, even half-way, all layers keep their old state."""
    inner, wrapper = counted(api)
    wrapper.m_t = 5
    strategy = api.dubhe(wrapper)
    saved = strategy.state_dict()
    saved["wrapped"] = [{"m_t": 7}, {"count": -1}]
    with pytest.raises(ValueError, match="below 0"):
        strategy.load_state_dict(saved)
    assert (wrapper.m_t, inner.count) == (5, 0)


def test_a_wrapper_outside_cannot_keep_a_run(api: Api, tmp_path: Path) -> None:
    """Dubhe must be the outermost strategy to keep checkpoints, and the error says so."""
    inner = api.dubhe(**ANEW, checkpoint_dir=tmp_path)
    outer = api.private("ServerSideFixed", inner)
    if api is TRAIN:
        with pytest.raises(SettingsError, match="outermost"):
            api.run(outer, api.grid(), 1)
    else:
        api.run(outer, api.grid(), 1)
        assert inner.rounds_left(5) == 4


def test_an_override_without_super_is_refused(api: Api, tmp_path: Path) -> None:
    """An override without super() would keep no checkpoint or overwrite it, so it is refused."""
    dubhe = partial(api.dubhe, **ANEW, checkpoint_dir=tmp_path)
    api.run(dubhe(), api.grid(), 2)
    strategies = [dubhe() for _ in range(2)]
    if api.is_fit:
        strategies[0].initialize_parameters = lambda **_: initial_parameters()
        strategies[1].evaluate = lambda *_, **__: None
    else:
        strategies = strategies[:1]
        strategies[0].start = partial(Strategy.start, strategies[0])
    for strategy in strategies:
        with pytest.raises(SettingsError, match=r"call super\(\)"):
            api.run(strategy, api.grid(), 6)
        assert dubhe().rounds_left(6) == 4


def test_loading_a_state_keeps_the_initial_model(api: Api) -> None:
    """A state saved after Flower forgot the initial model does not remove it."""
    before, after = api.dubhe(**ANEW), api.dubhe(**ANEW)
    api.run(before, api.grid(), 1)
    model = getattr(after.strategy, "initial_parameters", None)
    after.load_state_dict(before.state_dict())
    assert getattr(after.strategy, "initial_parameters", None) is model
    assert (model is not None) == api.is_fit


@pytest.mark.parametrize("nodes", ["the same nodes", "other nodes"])
def test_a_second_run_begins_anew(api: Api, nodes: str, caplog: pytest.LogCaptureFixture) -> None:
    """A second run uses nothing of the first: all nodes register, and the sets repeat."""
    strategy, grid = api.dubhe(), api.grid(num_nodes=FEW)
    api.run(strategy, grid, 3)
    first = list(strategy.selected)
    if api.is_fit:  # Flower's strategies forget it after the first use
        strategy.strategy.initial_parameters = initial_parameters()
    caplog.clear()
    other_nodes = api.grid(num_nodes=FEW)
    api.run(strategy, grid if nodes == "the same nodes" else other_nodes, 3)
    assert strategy.selected == first + first
    assert strategy.plans[3].stages[0].stage == "join"
    assert "refused" not in caplog.text
    assert strategy.rounds_done == 3


def test_a_second_run_goes_on_from_the_checkpoint(api: Api, tmp_path: Path) -> None:
    """Like a new process, a second run trains the remaining rounds from the saved model."""
    selected, model = uninterrupted(api)
    strategy, grid = api.dubhe(**ANEW, checkpoint_dir=tmp_path), api.grid()
    api.run(strategy, grid, 2)
    assert strategy.rounds_left(NUM_ROUNDS) == 2
    assert same(api.run(strategy, grid, NUM_ROUNDS), model)
    assert strategy.selected == selected
    again = api.dubhe(checkpoint_dir=tmp_path)  # which trains no more
    assert same(api.run(again, grid, NUM_ROUNDS), model)
    assert again.plan is None


def test_restarting_a_finished_run_is_logged(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A ServerApp that does not ask for rounds_left trains all rounds again, with a warning."""
    dubhe = partial(api.dubhe, **ANEW, checkpoint_dir=tmp_path)
    api.run(dubhe(), api.grid(), 2)
    again = dubhe()
    if api.is_fit:
        run_on_grid(strategy_server_app(again, 2), api.grid())
        assert again.rounds_done == 4
        (told,) = [line for line in caplog.messages if "come on top of" in line]
        assert "the 2 already done" in told
    else:
        api.run(again, api.grid(), 2)
        assert "come on top of" not in caplog.text
        assert "all 2 rounds of the run" in caplog.text


def test_a_run_after_one_that_failed_begins_anew(api: Api) -> None:
    """A new run forgets the failed run's exchanges, even if the nodes remember them."""
    strategy, grid = api.dubhe(), api.grid(num_nodes=FEW)
    grid.stop_after = "evaluate.dubhe_determine"
    with pytest.raises(Killed):
        api.run(strategy, grid, 3)
    if api.is_fit:
        strategy.strategy.initial_parameters = initial_parameters()
    api.run(strategy, grid, 3)
    assert strategy.plans[0].stages[0].stage == "join"
    assert [plan.server_round for plan in strategy.plans] == [1, 2, 3]


STAGES = ["join", "keygen", "register", "settle", "determine"]
"""Where the server is killed; with one exception, this happens in slow tests only."""


@cache
def uninterrupted_search(api: Api) -> tuple[list[list[int]], Any]:
    """Return the sets and the model of three rounds, each of which searches for thresholds."""
    strategy = api.dubhe(**SEARCH)
    model = api.run(strategy, api.grid(num_nodes=FEW), 3)
    return strategy.selected, model


def kill_in_round_2(
    api: Api, point: str, strategy: Any, grid: Any, patch: pytest.MonkeyPatch
) -> None:
    """Let a server end at a point of its second round as by a signal: nothing cleans up."""
    aggregate = "aggregate_fit" if api.is_fit else "aggregate_train"
    place, name, is_after = {
        "train": (strategy.strategy, aggregate, False),
        "checkpoint": (Path, "replace", False),
        "evaluate": (Run, "complete", True),
    }.get(point, (grid, "push_messages", True))
    real = getattr(place, name)

    def ending(*given: Any) -> Any:
        result = real(*given) if is_after else None
        is_here = place is not grid or grid.batches[-1][0] == f"evaluate.dubhe_{point}"
        if is_here and strategy.rounds_done == (1 if place is grid else 2):
            raise Killed
        return result if is_after else real(*given)

    patch.setattr(place, name, ending)


@pytest.mark.parametrize(
    "point",
    [
        *(pytest.param(s, marks=[pytest.mark.slow] * (s != "settle")) for s in STAGES),
        *("train", "checkpoint", "evaluate"),
    ],
)
def test_a_killed_server_app_resumes_every_time(
    api: Api, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed after a stage or training, before its checkpoint is in place, or right after.

    Every round begins an epoch here, so even after a kill the selected sets and the model equal
    a run without one, bit for bit.
    """
    whole, model = uninterrupted_search(api)
    killed, again = (api.dubhe(**SEARCH, checkpoint_dir=tmp_path) for _ in range(2))
    grid = api.grid(num_nodes=FEW)
    with monkeypatch.context() as patch:
        kill_in_round_2(api, point, killed, grid, patch)
        with pytest.raises(Killed):
            api.run(killed, grid, 3)
    assert same(api.run(again, api.grid(num_nodes=FEW), 3), model)
    first = 3 if point == "evaluate" else 2
    assert [plan.server_round for plan in again.plans] == list(range(first, 4))
    assert again.selected == whole[first - 1 :]
    assert CheckpointDirectory(tmp_path).open()["state"]["round"] == 3


def test_a_full_disk_ends_the_run_only_if_that_is_wanted(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each round logs the missing checkpoint as an error, and the last one stays valid."""
    dubhe, grid = partial(api.dubhe, **ANEW, checkpoint_dir=tmp_path), api.grid()
    api.run(dubhe(), grid, 1)

    def fail(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level("ERROR", logger="flwr"):
        patch.setattr(CheckpointDirectory, "save", fail)
        assert same(api.run(dubhe(), grid, NUM_ROUNDS), uninterrupted(api)[1])
        with pytest.raises(CheckpointError, match="cannot be written to"):
            api.run(dubhe(on_checkpoint_failure="raise"), grid, NUM_ROUNDS)
    (loud,) = [line for line in caplog.messages if "WITHOUT a checkpoint of round 4" in line]
    assert f"{tmp_path} cannot be written to (No space left on device); make room there" in loud
    again = dubhe()
    assert again.rounds_left(NUM_ROUNDS) == 3
    api.run(again, grid, NUM_ROUNDS)
    assert [plan.server_round for plan in again.plans] == [2, 3, 4]


def test_a_checkpoint_that_was_refused_is_refused_again(api: Api, tmp_path: Path) -> None:
    """A second start in the same process neither begins anew nor overwrites it."""
    dubhe = partial(api.dubhe, **ANEW, checkpoint_dir=tmp_path)
    api.run(dubhe(), api.grid(), 1)
    strategy = dubhe(seed=8)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="seed=8 is not the seed"):
            api.run(strategy, api.grid(), 2)
    assert dubhe().rounds_left(6) == 5


def test_a_simulation_in_the_clear_selects_as_one_under_encryption(api: Api) -> None:
    """A plain simulation sends only join requests; a second run begins with new nodes."""
    selected = []
    for simulation in ("encrypted", "plain"):
        strategy = api.dubhe(simulation=simulation, registration_interval=1)
        grids = [api.grid(num_nodes=FEW) for _ in range(2)]
        for grid in grids:
            api.run(strategy, grid, 2)
        selected.append(strategy.selected)
    assert len(selected[0]) == 4
    assert selected[0] == selected[1]
    assert [grid.stages for grid in grids] == [["join", "join"]] * 2
