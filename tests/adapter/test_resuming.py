"""A ServerApp that ends, by itself or not, and is started again goes on, in either API."""

import json
import logging
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.server import strategy as fit
from flwr.serverapp import strategy as train
from numpy.typing import NDArray
from support import (
    NUM_NODES,
    SELECTION,
    Recorded,
    initial_parameters,
    main_server_app,
    message_client_app,
    numpy_client_app,
    strategy_server_app,
)

from dubhe_flwr.adapter.wrapped import layers
from dubhe_flwr.baselines import RandomSelector
from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.protocol import Memory
from dubhe_flwr.server import Dubhe as FitDubhe
from dubhe_flwr.server import Selection as FitSelection
from dubhe_flwr.serverapp import Dubhe
from dubhe_flwr.serverapp import Selection as TrainSelection
from dubhe_flwr.simulation import InProcessGrid

NUM_ROUNDS = 5


class RecordedFit(Recorded, FitDubhe):
    """Keeps its plans."""


class RecordedTrain(Recorded, Dubhe):
    """Keeps its plans."""


class Killed(BaseException):
    """Ends a ServerApp as a signal would: nothing on the way catches it."""


def kill(*_arguments: Any) -> Any:
    """End the ServerApp."""
    raise Killed


class StoppingGrid(InProcessGrid):
    """Ends the ServerApp once the nodes have answered the first message of a kind."""

    stop_after = ""

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        message_ids = super().push_messages(messages)
        if self.stop_after and any(m.metadata.message_type == self.stop_after for m in messages):
            self.stop_after = ""
            raise Killed
        return message_ids


class Api:
    """What differs between the two APIs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Any = fit if name == "fit" else train

    def grid(self) -> StoppingGrid:
        """Return nodes that wait for a ServerApp."""
        app = numpy_client_app() if self.name == "fit" else message_client_app()
        return StoppingGrid(app, NUM_NODES)

    def wrapped(self, kind: str = "FedAvg", **options: Any) -> Any:
        """Return a strategy of Flower."""
        if self.name == "fit":
            options["initial_parameters"] = initial_parameters()
        return getattr(self.module, kind)(fraction_evaluate=0.0, **options)

    def strategy(self, wrapped: Any = None, **options: Any) -> Any:
        """Return Dubhe around it."""
        kind = RecordedFit if self.name == "fit" else RecordedTrain
        return kind(wrapped or self.wrapped(), **{**SELECTION, **options})

    def run(
        self, strategy: Any, grid: InProcessGrid, num_rounds: int = NUM_ROUNDS
    ) -> list[NDArray[Any]]:
        """Run a ServerApp to the end of the given round and return the model."""
        context = Context(grid.run.run_id, 1, {}, RecordDict(), {})
        if self.name == "train":
            main_server_app(strategy, num_rounds)(grid, context)
            return context.state.array_records["arrays"].to_numpy_ndarrays()
        models: list[Any] = []

        def evaluate(_round: int, arrays: Any, _config: Any) -> tuple[float, dict[str, Any]]:
            models.append(arrays)
            return 1.0, {}

        layers(strategy)[-1].evaluate_fn = evaluate
        strategy_server_app(strategy, strategy.rounds_left(num_rounds))(grid, context)
        return list(models[-1])


@pytest.fixture(params=["fit", "train"])
def api(request: pytest.FixtureRequest) -> Api:
    """Return each of the two APIs."""
    return Api(request.param)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="flwr")


def same(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> bool:
    """Tell whether two models are the same bit for bit."""
    return [a.tobytes() for a in one] == [b.tobytes() for b in other]


def check_same_as_uninterrupted(
    api: Api, path: Path, make: Callable[..., Any], stop_after: int = 2
) -> None:
    """Run once without and once with a pause, and compare."""
    whole = make()
    model = api.run(whole, api.grid())
    grid, first, second = api.grid(), make(checkpoint_dir=path), make(checkpoint_dir=path)
    api.run(first, grid, stop_after)
    resumed = api.run(second, grid)
    assert first.selected + second.selected == whole.selected
    assert same(resumed, model)
    assert [plan.server_round for plan in second.plans] == list(
        range(stop_after + 1, NUM_ROUNDS + 1)
    )
    assert second.plans[0].epoch == first.plans[-1].epoch


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rounds_per_draw": 3},
        {"participation": "calibrated"},
        {"determination": "grouped", "group_size": 3, "tries": 3},
        {"registration_interval": 3, "tries": 3},
    ],
    ids=lambda options: " ".join(map(str, options.values())) or "paper",
)
def test_with_no_failure_in_between_nothing_changes(
    api: Api, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Selected sets and model are the same bit for bit, and the epoch goes on."""
    check_same_as_uninterrupted(api, tmp_path / "kept", lambda **o: api.strategy(**options, **o))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("FedAdam", {}),
        ("FedYogi", {}),
        ("FedAdagrad", {}),
        ("FedAvgM", {"server_momentum": 0.9}),
        ("FedMedian", {}),
    ],
)
def test_what_the_wrapped_strategy_keeps_survives(
    api: Api, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    """Moments and momentum go on where they were."""
    check_same_as_uninterrupted(
        api, tmp_path, lambda **o: api.strategy(api.wrapped(kind, **options), **o)
    )


@pytest.mark.parametrize("kind", ["Fixed", "Adaptive"])
def test_noise_and_clipping_of_differential_privacy_go_on(
    api: Api, tmp_path: Path, kind: str
) -> None:
    """Noise comes from numpy's generator, whose state survives as the clipping norm does."""

    def make(**options: Any) -> Any:
        np.random.seed(7)  # noqa: NPY002 - the generator that Flower uses
        wrapper = getattr(api.module, f"DifferentialPrivacyServerSide{kind}Clipping")
        arguments = (0.1, 1.0, 6) if kind == "Fixed" else (0.1, 6)
        return api.strategy(wrapper(api.wrapped(), *arguments), **options)

    whole = make()
    model = api.run(whole, api.grid())
    grid, first = api.grid(), make(checkpoint_dir=tmp_path)
    api.run(first, grid, 2)
    np.random.seed(8)  # noqa: NPY002 - the generator that Flower uses
    assert same(api.run(api.strategy(make().strategy, checkpoint_dir=tmp_path), grid), model)


STAGES = ["join", "keygen", "register", "moments", "calibrate", "participate", "determine"]


@pytest.mark.parametrize(
    ("at_round", "stage"),
    [
        *((1, stage) for stage in ("join", "train")),
        *((2, stage) for stage in ("participate", "determine", "train")),
        *((3, stage) for stage in STAGES),  # in this round nodes register anew
    ],
)
def test_after_a_kill_in_any_stage_a_new_epoch_begins(
    api: Api, tmp_path: Path, stage: str, at_round: int
) -> None:
    """Nodes that have answered more than the checkpoint knows do not stop the run."""
    options = {
        "checkpoint_dir": tmp_path,
        "participation": "calibrated",
        "registration_interval": 2,
    }
    grid = api.grid()
    earlier: list[bytes] = []
    if at_round > 1:
        before = api.strategy(**options)
        api.run(before, grid, at_round - 1)
        earlier = [plan.epoch for plan in before.plans]
    killed = api.strategy(**options)
    if stage == "train":  # what ends a training thread of the other API does not end its server
        killed.strategy.aggregate_fit = killed.strategy.aggregate_train = kill
    else:
        grid.stop_after = f"evaluate.dubhe_{stage}"
    with pytest.raises(Killed):
        api.run(killed, grid)
    resumed = api.strategy(**options)
    model = api.run(resumed, grid)
    assert [plan.server_round for plan in resumed.plans] == list(range(at_round, NUM_ROUNDS + 1))
    assert [len(set(plan.participants)) for plan in resumed.plans] == [6] * len(resumed.plans)
    assert not {plan.epoch for plan in resumed.plans} & set(earlier)
    assert [
        report.dropped for plan in resumed.plans for report in plan.stages if report.dropped
    ] == []
    assert float(model[0][0]) > 0.0


def test_nodes_that_forgot_the_epoch_register_anew(api: Api, tmp_path: Path) -> None:
    """Where a new run gave the nodes an empty memory, the next round begins a new epoch."""
    first = api.strategy(checkpoint_dir=tmp_path)
    api.run(first, api.grid(), 2)
    second = api.strategy(checkpoint_dir=tmp_path)
    api.run(second, api.grid())
    assert [plan.server_round for plan in second.plans] == [3, 4, 5]
    assert len({plan.epoch for plan in second.plans}) == 1
    assert second.plans[0].epoch != first.plans[-1].epoch
    assert "the epoch ends and all register" in second.plans[0].notes[0]
    assert [plan.notes for plan in second.plans[1:]] == [(), ()]


def test_nodes_with_other_ids_register_anew(api: Api, tmp_path: Path) -> None:
    """Nodes without keys of their own get new ids in a new run."""
    api.run(api.strategy(checkpoint_dir=tmp_path, rounds_per_draw=5), api.grid(), 2)
    grid = InProcessGrid(api.grid()._client_app, NUM_NODES, seed=1)
    second = api.strategy(checkpoint_dir=tmp_path, rounds_per_draw=5)
    api.run(second, grid)
    assert [len(plan.participants) for plan in second.plans] == [6, 6, 6]


def test_other_settings_begin_a_new_epoch(api: Api, tmp_path: Path) -> None:
    """Nodes agreed to the parameters of their epoch; others are announced anew."""
    grid = api.grid()
    api.run(api.strategy(checkpoint_dir=tmp_path), grid, 2)
    second = api.strategy(checkpoint_dir=tmp_path, num_participants=7)
    api.run(second, grid)
    assert [len(plan.participants) for plan in second.plans] == [7, 7, 7]
    assert second.plans[0].stages[0].stage == "join"


def test_a_run_that_is_complete_trains_no_more(api: Api, tmp_path: Path) -> None:
    """Started once more, it returns the model that it had."""
    grid = api.grid()
    model = api.run(api.strategy(checkpoint_dir=tmp_path), grid)
    again = api.strategy(checkpoint_dir=tmp_path)
    assert same(api.run(again, grid), model)
    assert not hasattr(again, "plans")


def test_another_seed_is_refused(api: Api, tmp_path: Path) -> None:
    """The choices of a run come from one seed."""
    api.run(api.strategy(checkpoint_dir=tmp_path), api.grid(), 1)
    with pytest.raises(CheckpointError, match="seed=8 is not the seed 7"):
        api.strategy(checkpoint_dir=tmp_path, seed=8).rounds_left(5)


def test_a_random_seed_survives(api: Api, tmp_path: Path) -> None:
    """Where the operating system gave the seed, the next process goes on with it."""
    grid = api.grid()
    first = api.strategy(checkpoint_dir=tmp_path, seed=None)
    api.run(first, grid, 1)
    second = api.strategy(checkpoint_dir=tmp_path, seed=None)
    assert second.driver.run.state.seed != first.driver.run.state.seed
    second.rounds_left(5)
    assert second.driver.run.state.seed == first.driver.run.state.seed


def test_a_state_is_json_and_loads_into_another_strategy(api: Api) -> None:
    """Without a directory: what state_dict returns passes through JSON and is taken up."""
    whole = api.strategy(rounds_per_draw=5)
    api.run(whole, api.grid())
    grid, first, second = (
        api.grid(),
        api.strategy(rounds_per_draw=5),
        api.strategy(rounds_per_draw=5),
    )
    wrapped = [strategy.strategy for strategy in (first, second)]
    for strategy in wrapped:
        vars(strategy).pop("initial_parameters", None)
        strategy.initialize_parameters = lambda _manager: initial_parameters()
    api.run(first, grid, 2)
    text = json.dumps(first.state_dict())
    second.load_state_dict(json.loads(text), interrupted=False)
    assert second.state_dict() == first.state_dict()
    assert second.rounds_done == 2
    api.run(second, grid)
    assert first.selected + second.selected == whole.selected
    assert [plan.server_round for plan in second.plans] == [3, 4, 5]


def test_a_state_holds_no_key(api: Api) -> None:
    """Neither a secret key nor a node's private key is in it; the server has none."""
    grid, strategy = api.grid(), api.strategy()
    api.run(strategy, grid, 2)
    text = json.dumps(strategy.state_dict()["selector"])
    for context in grid.contexts.values():
        session = Memory.from_fields(context.state.config_records["dubhe"])
        for secret in (session.secret_key, session.recipient_key):
            assert len(secret) >= 32
            assert b64encode(secret).decode().rstrip("=")[:-1] not in text
            assert secret.hex() not in text
            assert str(int.from_bytes(secret, "big")) not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(version=3), "version 3, not 2; load it with the version"),
        (
            # As version 1 was: it did not tell whose labels moved.
            lambda s: (s.update(version=1), s["selector"]["epoch"].pop("moved")),
            "version 1, not 2; load it with the version of dubhe-flwr that wrote it",
        ),
        (lambda s: s.update(version=None), "version None, not 2"),
        (lambda s: s.pop("version"), "key 'version' is missing"),
        (lambda s: s.pop("selector"), "key 'selector' is missing"),
        (lambda s: s.update(more=1), "key 'more' is unknown"),
        (lambda s: s.update(round=-1), "-1 is no round"),
        (lambda s: s["selector"].pop("seed"), "selector: key 'seed' is missing"),
        (lambda s: s["selector"].update(more=1), "selector: key 'more' is unknown"),
        (lambda s: s["selector"]["epoch"].pop("identity"), "selector.epoch: key 'identity'"),
        (lambda s: s["selector"]["epoch"].update(identity=7), "selector.epoch.identity: 'int'"),
        (lambda s: s["selector"]["epoch"]["parameters"].pop("seed"), "parameters: key 'seed'"),
        (lambda s: s["wrapped"].append({"dict": []}), "of 2 strategies"),
        (lambda s: s.update(wrapped=[{"dict": [["lr", 1]]}]), "has no 'lr'"),
    ],
)
def test_an_unfit_state_is_refused_by_name(
    api: Api, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    """The error says which key or version is wrong, and the strategy stays as it was."""
    strategy = api.strategy()
    api.run(strategy, api.grid(), 1)
    saved = json.loads(json.dumps({**strategy.state_dict(), "wrapped": [{"dict": []}]}))
    change(saved)
    fresh = api.strategy()
    before = fresh.driver.run.state
    with pytest.raises(CheckpointError, match=message):
        fresh.load_state_dict(saved)
    assert fresh.driver.run.state == before
    assert fresh.rounds_done == 0


def test_random_selection_goes_on_too(api: Api, tmp_path: Path) -> None:
    """A selector that needs no more than its seed chooses the same clients."""

    class FitRandom(Recorded, FitSelection):
        pass

    class TrainRandom(Recorded, TrainSelection):
        pass

    kind: Any = FitRandom if api.name == "fit" else TrainRandom
    check_same_as_uninterrupted(
        api, tmp_path, lambda **o: kind(api.wrapped(), RandomSelector(6, seed=3), **o)
    )


class Counting:
    """A mixin for a strategy with a state of its own."""

    count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.count = saved["count"]


def test_a_wrapped_strategy_may_keep_its_own_state(api: Api) -> None:
    """One with state_dict and load_state_dict is asked for it, wherever it is wrapped."""

    class Counted(Counting, api.module.FedAvg):  # type: ignore[name-defined, misc]
        pass

    def make() -> tuple[Any, Any]:
        inner = Counted()
        wrapper = api.module.DifferentialPrivacyServerSideFixedClipping(inner, 0.1, 1.0, 6)
        return inner, api.strategy(wrapper)

    inner, strategy = make()
    inner.count = 5
    other, fresh = make()
    fresh.load_state_dict(strategy.state_dict())
    assert other.count == 5


def test_a_wrapper_outside_cannot_keep_a_run(tmp_path: Path) -> None:
    """The Message API hands the model to the outermost strategy only; Dubhe says so."""
    api = Api("train")
    inner = api.strategy(checkpoint_dir=tmp_path)
    outer = train.DifferentialPrivacyServerSideFixedClipping(inner, 0.1, 1.0, 6)
    with pytest.raises(SettingsError, match="outermost"):
        api.run(outer, api.grid(), 1)


@pytest.mark.parametrize("nodes", ["the same nodes", "other nodes"])
def test_a_second_run_begins_anew(api: Api, nodes: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of the first run's epoch is used: all nodes register, and the sets repeat."""
    strategy, grid = api.strategy(), api.grid()
    api.run(strategy, grid, 3)
    first = list(strategy.selected)
    if api.name == "fit":  # Flower's strategies forget it after their first use
        strategy.strategy.initial_parameters = initial_parameters()
    caplog.clear()
    api.run(strategy, grid if nodes == "the same nodes" else api.grid(), 3)
    assert strategy.selected == first + first
    assert strategy.plans[3].stages[0].stage == "join"
    assert "refused" not in caplog.text
    assert strategy.rounds_done == 3


def test_a_second_run_goes_on_from_the_checkpoint(api: Api, tmp_path: Path) -> None:
    """As a new process would: the rounds that are still to come, with the model so far."""
    whole = api.strategy()
    model = api.run(whole, api.grid(), 5)
    strategy, grid = api.strategy(checkpoint_dir=tmp_path), api.grid()
    api.run(strategy, grid, 3)
    assert strategy.rounds_left(5) == 2
    assert same(api.run(strategy, grid, 5), model)
    assert strategy.selected == whole.selected


def test_a_run_after_one_that_failed_begins_anew(api: Api) -> None:
    """What was exchanged before the failure is forgotten."""
    strategy, grid = api.strategy(), api.grid()
    grid.stop_after = "evaluate.dubhe_register"
    with pytest.raises(Killed):
        api.run(strategy, grid, 3)
    if api.name == "fit":
        strategy.strategy.initial_parameters = initial_parameters()
    api.run(strategy, api.grid(), 3)
    assert strategy.plans[0].stages[0].stage == "join"
    assert len(strategy.selected) == 3
