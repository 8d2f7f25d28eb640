"""A ServerApp that ended or was killed continues when started again, in either API."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from apis import (
    FIT,
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
from dubhe_flwr.protocol.coordinator.stages.determine import Determine
from dubhe_flwr.simulation import run_on_grid
from dubhe_lab.baselines import RandomSelector

NUM_ROUNDS = 4
FEW = 12
"""Nodes under encryption; half of them are selected."""
ANEW: dict[str, Any] = {"registration_interval": 1, "simulation": "plain"}
"""Each round registers, so that a restart changes nothing."""

pytestmark = in_both_apis


@cache
def uninterrupted(api: Api) -> tuple[list[list[int]], Any]:
    """Return the sets and the model of four rounds, each of which registers."""
    strategy = api.dubhe(**ANEW)
    model = api.run(strategy, api.grid(), NUM_ROUNDS)
    return strategy.selected, model


@pytest.mark.parametrize("kind", ["random selection", "FedAdam", "FedAvgM"])
def test_a_restart_changes_nothing(api: Api, tmp_path: Path, kind: str) -> None:
    """Sets, model, moments and momentum are the same bit for bit, with any selector."""

    def make(**options: Any) -> Any:
        if kind == "random selection":
            return api.selection(RandomSelector(6, seed=3), **options)
        momentum = {"server_momentum": 0.9} if kind == "FedAvgM" else {}
        return api.dubhe(api.wrapped(kind, **momentum), **ANEW, **options)

    whole, grid = make(), api.grid()
    model = api.run(whole, api.grid(), NUM_ROUNDS)
    first, second = make(checkpoint_dir=tmp_path), make(checkpoint_dir=tmp_path)
    api.run(first, grid, 2)
    assert same(api.run(second, grid, NUM_ROUNDS), model)
    assert first.selected + second.selected == whole.selected
    assert [plan.server_round for plan in second.plans] == [3, 4]


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
    api.run(first, grid, 2)
    model = getattr(second.strategy, "initial_parameters", None)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert getattr(second.strategy, "initial_parameters", None) is model  # the first has forgotten
    assert (model is not None) == api.is_fit
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


class Keeps:
    """Keeps a number, as Flower's accountants do, and accepts none below 0."""

    number = 0

    def state_dict(self) -> dict[str, Any]:
        return {"number": self.number}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.number = saved["number"]
        if self.number < 0:
            raise ValueError("number is below 0")


def keeping(api: Api, spent: int, number: int) -> tuple[Any, Any]:
    """Return Flower's differential privacy with an accountant, around a strategy with a state."""
    inner = type("Own", (Keeps, api.flower.FedAvg), {})()
    wrapper = api.private("ServerSideFixed", inner)
    wrapper.accountant = Keeps()
    wrapper.accountant.number, inner.number = spent, number
    return wrapper, inner


def test_each_layer_keeps_its_own_state(api: Api) -> None:
    """A restart refills no privacy budget; if one layer refuses, all layers keep their state."""
    saved = api.dubhe(keeping(api, 5, 6)[0]).state_dict()
    wrapper, inner = keeping(api, 0, 0)
    strategy = api.dubhe(wrapper)
    strategy.load_state_dict(saved)
    assert (wrapper.accountant.number, inner.number) == (5, 6)
    saved["wrapped"] = [{"accountant": {"number": 7}}, {"number": -1}]
    with pytest.raises(ValueError, match="below 0"):
        strategy.load_state_dict(saved)
    assert (wrapper.accountant.number, inner.number) == (5, 6)
    wrapper.accountant = None
    with pytest.raises(CheckpointError, match="has no 'accountant'"):
        strategy.load_state_dict(saved)
    inner.state_dict = lambda: None  # which could not be loaded
    with pytest.raises(CheckpointError, match=r"Own.state_dict returned a NoneType; return a dict"):
        strategy.state_dict()


def test_a_run_that_would_keep_no_checkpoint_is_refused(api: Api, tmp_path: Path) -> None:
    """An override without super(), or a wrapper with its own start, does not overwrite one."""
    dubhe = partial(api.dubhe, **ANEW, checkpoint_dir=tmp_path)
    api.run(dubhe(), api.grid(), 2)
    one, other = dubhe(), dubhe()
    if api.is_fit:
        one.initialize_parameters = lambda **_: initial_parameters()
        other.evaluate = lambda *_, **__: None
    else:
        one.start = partial(Strategy.start, one)
        other = api.private("ServerSideFixed", other)
    for strategy in (one, other):
        with pytest.raises(SettingsError, match=r"outermost .* call super\(\).* loop of your own"):
            api.run(strategy, api.grid(), 6)
        assert dubhe().rounds_left(6) == 4
    if api.is_fit:
        api.run(api.private("ServerSideFixed", dubhe()), api.grid(), 1)
        assert dubhe().rounds_left(6) == 3


@cache
def encrypted(api: Api) -> list[list[int]]:
    """Return the sets of three rounds under encryption."""
    strategy = api.dubhe()
    api.run(strategy, api.grid(num_nodes=FEW), 3)
    selected: list[list[int]] = strategy.selected
    return selected


@pytest.mark.parametrize(
    ("simulation", "before"),
    [
        ("encrypted", "the same nodes"),
        ("plain", "other nodes"),
        ("encrypted", "nodes of a killed run"),
    ],
)
def test_a_second_run_begins_anew(
    api: Api,
    simulation: str,
    before: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It uses nothing of the one before, even if the nodes remember: all nodes register.

    A simulation in the clear selects the same clients, and sends only join requests.
    """
    strategy, grid = api.dubhe(simulation=simulation), api.grid(num_nodes=FEW)
    if before == "nodes of a killed run":
        with monkeypatch.context() as patch:
            patch.setattr(Determine, "take", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                api.run(strategy, grid, 3)
    else:
        api.run(strategy, grid, 3)
    if api.is_fit:  # Flower's strategies forget it after the first use
        strategy.strategy.initial_parameters = initial_parameters()
    strategy.plans.clear()
    caplog.clear()
    grid = api.grid(num_nodes=FEW) if before == "other nodes" else grid
    api.run(strategy, grid, 3)
    assert "this strategy starts again, so all nodes register again" in caplog.text
    asked = [kind for kind, _ in grid.batches if "dubhe" in kind]
    assert (asked == ["evaluate.dubhe_join"]) == (simulation == "plain")
    assert strategy.selected == encrypted(api)
    assert strategy.plans[0].stages[0].stage == "join"
    assert "refused" not in caplog.text
    assert strategy.rounds_done == 3


def test_a_resumed_run_may_begin_its_first_round_again(api: Api) -> None:
    """A round that failed, for instance because no node was connected, forgets no loaded state."""
    strategy, grid = api.dubhe(wait_timeout=0), api.grid()
    strategy.load_state_dict({**strategy.state_dict(), "round": 2})
    grid.get_node_ids = list
    with pytest.raises(SettingsError, match="connect more"):
        api.run(strategy, grid, 3)
    del grid.get_node_ids
    api.run(strategy, grid, 3)
    assert [plan.server_round for plan in strategy.plans] == [3]


def test_a_second_run_goes_on_from_the_checkpoint(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Like a new process, it trains the remaining rounds from the saved model, if there are any."""
    selected, model = uninterrupted(api)
    dubhe, grid = partial(api.dubhe, **ANEW, checkpoint_dir=tmp_path), api.grid()
    strategy = dubhe()
    api.run(strategy, grid, 2)
    assert strategy.rounds_left(NUM_ROUNDS) == 2
    assert same(api.run(strategy, grid, NUM_ROUNDS), model)
    assert strategy.selected == selected
    again = dubhe()
    assert same(api.run(again, grid, NUM_ROUNDS), model)
    assert again.plan is None
    assert f"all {NUM_ROUNDS} rounds of the run" in caplog.text
    assert "come on top of" not in caplog.text
    if api.is_fit:  # a ServerApp that does not ask for rounds_left
        run_on_grid(strategy_server_app(again := dubhe(), 2), grid)
        assert again.rounds_done == again.driver.run.last == NUM_ROUNDS + 2
        run_on_grid(strategy_server_app(again, 2), grid)
        told = [line for line in caplog.messages if "come on top of" in line]
        assert f"the {NUM_ROUNDS} already done" in told[0]
        assert f"the {NUM_ROUNDS + 2} already done" in told[1]


@pytest.mark.parametrize("point", ["training", "checkpoint", "round"])
def test_a_killed_server_app_resumes_every_time(
    api: Api, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed after training, before its checkpoint is in place, or at the end of a round.

    Sets and model equal those of a run without a kill, bit for bit.
    """
    whole, model = uninterrupted(api)
    killed, again = (api.dubhe(**ANEW, checkpoint_dir=tmp_path) for _ in range(2))
    aggregate = "aggregate_fit" if api.is_fit else "aggregate_train"
    places: dict[str, tuple[Any, str]] = {
        "training": (killed.strategy, aggregate),
        "checkpoint": (Path, "replace"),
        "round": (Run, "complete"),
    }
    place, name = places[point]
    real = getattr(place, name)

    def ending(*given: Any) -> Any:
        if killed.rounds_done < 2:
            return real(*given)
        if point == "round":
            real(*given)
        raise Killed  # as by a signal: nothing cleans up

    with monkeypatch.context() as patch:
        patch.setattr(place, name, ending)
        with pytest.raises(Killed):
            api.run(killed, api.grid(), NUM_ROUNDS)
    assert same(api.run(again, api.grid(), NUM_ROUNDS), model)
    first = 3 if point == "round" else 2
    assert [plan.server_round for plan in again.plans] == list(range(first, NUM_ROUNDS + 1))
    assert again.selected == whole[first - 1 :]
    assert CheckpointDirectory(tmp_path).open()["state"]["round"] == NUM_ROUNDS


def test_a_full_disk_does_not_end_the_run(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each round logs the missing checkpoint as an error, and the last one stays valid.

    A disk that is full at the start is refused.
    """
    dubhe, grid = partial(api.dubhe, **ANEW, checkpoint_dir=tmp_path), api.grid()
    api.run(dubhe(), grid, 1)
    real, last = CheckpointDirectory.save, 1

    def fail(directory: CheckpointDirectory, content: Any) -> None:
        if content["state"]["round"] > last:
            raise OSError(28, "No space left on device")
        real(directory, content)

    with monkeypatch.context() as patch, caplog.at_level("ERROR", logger="flwr"):
        patch.setattr(CheckpointDirectory, "save", fail)
        assert same(api.run(dubhe(), grid, NUM_ROUNDS), uninterrupted(api)[1])
        last = 0
        with pytest.raises(CheckpointError, match=r"cannot be written to .*; make room there"):
            api.run(dubhe(), grid, NUM_ROUNDS)
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


def test_a_run_of_the_other_api_is_refused(api: Api, tmp_path: Path) -> None:
    """Its model would reach no client, so each round would train nobody."""
    other = TRAIN if api.is_fit else FIT
    other.run(other.dubhe(**ANEW, checkpoint_dir=tmp_path), other.grid(), 1)
    with pytest.raises(CheckpointError, match="began in Flower's other API; resume it there"):
        api.run(api.dubhe(**ANEW, checkpoint_dir=tmp_path), api.grid(), 2)
