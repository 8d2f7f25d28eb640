"""Dubhe around Flower's strategies on the in-process runtime, in both APIs."""

import asyncio
import logging
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
from apis import (
    FIT,
    MODEL,
    NUM_NODES,
    SELECTION,
    TRAIN,
    WRAPPERS,
    Api,
    in_both_apis,
    initial_parameters,
)
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.client.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.common import FitIns
from flwr.server import ClientManager, SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from supernodes import SuperNodes

from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.serverapp import _SelectedGrid
from dubhe_flwr.simulation import InProcessGrid
from dubhe_flwr.testing import Fault, FaultyGrid

IN_BOTH: dict[str, dict[str, Any]] = {
    "FedAvg": {}, "FedProx": {"proximal_mu": 0.1}, "FedAdam": {}, "FedAdagrad": {}, "FedYogi": {},
    "FedAvgM": {"server_momentum": 0.9}, "FedMedian": {}, "FedTrimmedAvg": {},
}  # fmt: skip
OF_FIT: dict[str, dict[str, Any]] = {
    "Krum": {"num_malicious_clients": 1, "num_clients_to_keep": 3},
    "Bulyan": {"num_malicious_clients": 0, "to_keep": 0},
    "QFedAvg": {},
}
OF_TRAIN: dict[str, dict[str, Any]] = {
    "Krum": {"num_malicious_nodes": 1},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 3},
    "Bulyan": {"num_malicious_nodes": 0},
    "QFedAvg": {"client_learning_rate": 0.1},
}
PLAIN: dict[str, Any] = {"simulation": "plain"}
"""Without encryption, which is faster and selects the same sets."""
DP_MODS = {"ClientSideFixed": (fixedclipping_mod,), "ClientSideAdaptive": (adaptiveclipping_mod,)}


def managed(grid: InProcessGrid) -> ClientManager:
    """Return the clients of a grid as in the older API."""
    manager = SimpleClientManager()
    for node_id in grid.get_node_ids():
        manager.register(GridClientProxy(node_id, grid, grid.run.run_id))
    return manager


@pytest.mark.parametrize(
    ("api", "kind", "options"),
    [
        *((api, kind, options) for api in (FIT, TRAIN) for kind, options in IN_BOTH.items()),
        *((FIT, kind, options) for kind, options in OF_FIT.items()),
        *((TRAIN, kind, options) for kind, options in OF_TRAIN.items()),
        *((api, "FedAvg", api.wanting(fraction=0.1)) for api in (FIT, TRAIN)),
        *((api, "FedAvg", api.wanting(least=50)) for api in (FIT, TRAIN)),
    ],
    ids=str,
)
def test_any_strategy_trains_exactly_the_chosen(api: Api, kind: str, options: Any) -> None:
    """Exactly the selected K train in every round, whatever the wrapped strategy asks for."""
    strategy = api.dubhe(api.wrapped(kind, **options), **PLAIN)
    grid = api.grid()
    api.run(strategy, grid, 2)
    assert grid.got("train") == [sorted(selected) for selected in strategy.selected]
    assert [len(set(selected)) for selected in strategy.selected] == [6, 6]


@pytest.mark.parametrize("kept", ["attributes", "list", "dict"])
def test_a_strategy_may_switch_between_several(kept: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each of them trains all selected clients in its rounds, and its state is saved."""
    own, grid = TRAIN.wrapped(), TRAIN.grid()
    first, second = TRAIN.wrapped(), TRAIN.wrapped("FedAdam", fraction_train=0.5)
    third = TRAIN.wrapped(fraction_train=0.0)  # only evaluates
    if kept == "attributes":
        own.first, own.second, own.third = first, second, third
    else:
        own.kept = [first, second, third] if kept == "list" else {1: first, 2: second, 3: third}
    own.configure_train, own.aggregate_train = second.configure_train, second.aggregate_train
    strategy = TRAIN.dubhe(own, **PLAIN)
    TRAIN.run(strategy, grid, 1)
    assert grid.got("train") == [sorted(selected) for selected in strategy.selected]
    assert "m_t" in strategy.state_dict()["wrapped"][2]
    assert "does not train exactly" not in caplog.text


@in_both_apis
@pytest.mark.parametrize("kind", WRAPPERS)
def test_privacy_wrappers_work_inside(
    api: Api, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Flower's DP wrappers work inside, with one warning about epsilon; another K is refused."""
    with pytest.raises(SettingsError, match=r"num_sampled_clients=5 .* Dubhe's num_participants=6"):
        api.dubhe(api.private(kind, api.wrapped(), 5))
    own = api.wrapped()  # a user's own wrapper may keep the strategy in any attribute
    own.itself, own.kind, own.log = own, type(own), MagicMock()
    own.inner = api.private(kind, api.wrapped(), 5)
    with pytest.raises(SettingsError, match="num_sampled_clients=5"):
        api.dubhe(own)
    api.dubhe(api.wrapped())
    assert "dubhe:" not in caplog.text
    strategy = api.dubhe(api.private(kind, api.wrapped()), **PLAIN)
    (told,) = (line for line in caplog.messages if line.startswith("dubhe:"))
    assert f"DifferentialPrivacy{kind}Clipping: clients are not sampled uniformly" in told
    grid = api.grid(mods=DP_MODS.get(kind, ()))
    api.run(strategy, grid, 2)
    assert grid.got("train") == [sorted(selected) for selected in strategy.selected]
    assert caplog.text.count("clients are not sampled uniformly") == 1


@in_both_apis
@pytest.mark.parametrize("kind", WRAPPERS)
def test_privacy_wrappers_work_outside(
    api: Api, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Flower's DP wrappers work outside; another K is refused before the first message."""
    inner, grid = api.dubhe(**PLAIN), api.grid(mods=DP_MODS.get(kind, ()))
    api.run(api.private(kind, inner), grid, 2)
    assert grid.got("train") == [sorted(selected) for selected in inner.selected]
    assert caplog.text.count("clients are not sampled uniformly") == 1
    # Dubhe finds the wrapper that calls it through another one in between.
    outer = api.private(kind, api.private("ServerSideFixed", api.dubhe(**PLAIN)), 7)
    untouched = api.grid(mods=DP_MODS.get(kind, ()))
    with pytest.raises(SettingsError, match=r"num_sampled_clients=7 differs from Dubhe's num_part"):
        api.run(outer, untouched, 1)
    assert not untouched.batches


def test_the_norm_of_the_older_adaptive_wrapper_survives() -> None:
    """It changes in each round, under a name of its own."""
    first, second = (FIT.flower.DPFedAvgAdaptive(FIT.wrapped(), 6) for _ in range(2))
    first.clip_norm = 0.3
    FIT.dubhe(second).load_state_dict(FIT.dubhe(first).state_dict())
    assert second.clip_norm == 0.3


@in_both_apis
def test_a_skipped_round_does_not_ask_the_wrapped_strategy(api: Api) -> None:
    """It may send messages to nobody; adaptive clipping divides by the number of replies."""
    strategy, grid = api.dubhe(**PLAIN, on_failure="random", wait_timeout=0), api.grid()
    strategy.strategy.configure_fit = strategy.strategy.configure_train = None
    grid.get_node_ids = list
    if api.is_fit:
        assert strategy.configure_fit(1, initial_parameters(), managed(grid)) == []
        return
    assert strategy.configure_train(1, ArrayRecord(MODEL), ConfigRecord(), grid) == []
    strategy.strategy.aggregate_train = None
    assert strategy.aggregate_train(1, [])[0] is None


def test_a_strategy_may_need_its_own_client_manager() -> None:
    """It gets one of its class, with its attributes and methods, but with the selected clients.

    Whatever number of clients it asks for, it gets all that meet its criterion.
    """
    criterion: Any = SimpleNamespace(select=lambda client: client.node_id % 2)

    class Manager(SimpleClientManager):
        rate = 0.5

        def sample(self, *_: Any, **own: Any) -> Any:
            raise NotImplementedError(own)

    class Own(FIT.flower.FedAvg):  # type: ignore[misc, name-defined]
        def configure_fit(self, _round: int, parameters: Any, manager: Manager) -> Any:
            assert isinstance(manager, Manager)
            instruction = FitIns(parameters, {"rate": manager.rate})
            assert len(manager) == len(manager.all()) == 6
            assert manager.wait_for(99)
            chosen = manager.sample(99, criterion=criterion, phase="fit")
            return [(client, instruction) for client in chosen]

    manager = Manager()
    manager.clients = managed(FIT.grid()).all()
    vars(manager)["all"] = manager.all  # as Flower's own loop does
    strategy = FIT.dubhe(Own(), **PLAIN)
    made = strategy.configure_fit(1, initial_parameters(), manager)
    odd = [node_id for node_id in strategy.plan.participants if node_id % 2]
    assert [(client.node_id, ins.config["rate"]) for client, ins in made] == [(n, 0.5) for n in odd]
    assert 0 < len(odd) < 6


def test_a_strategy_gets_the_client_managers_own_clients() -> None:
    """It may compare them, for instance to evaluate on those that did not train."""
    strategy = FIT.dubhe(FIT.wrapped(fraction_evaluate=1.0), **PLAIN)
    manager = managed(SuperNodes(FIT.client_app(), NUM_NODES))
    for server_round in (1, 2):
        trained = strategy.configure_fit(server_round, initial_parameters(), manager)
        evaluated = strategy.configure_evaluate(server_round, initial_parameters(), manager)
        clients = [client for client, _ in trained]
        assert len([client for client, _ in evaluated if client in clients]) == 6
        assert all(type(client.grid.other) is SuperNodes for client in clients)


def test_a_seed_fixes_the_sets() -> None:
    """A seed fixes the sets for any node ids and API; another seed, or none, changes them."""

    def selected(api: Api, seed: int | None, ids: int = 0) -> list[list[int]]:
        strategy = api.dubhe(seed=seed, **PLAIN)
        api.run(strategy, api.grid(seed=ids))
        sets: list[list[int]] = strategy.selected
        return sets

    first = selected(FIT, 7)
    assert selected(FIT, 7, ids=1) == selected(TRAIN, 7, ids=3) == first
    assert len({str(first), *(str(selected(FIT, seed)) for seed in (8, None, None))}) == 4


@in_both_apis
@pytest.mark.parametrize("equal_weights", [True, False])
def test_equal_weights_override_what_clients_report(
    api: Api, equal_weights: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Equal weights give the plain mean (eq. 1); otherwise the wrapped strategy's weights hold."""
    strategy = api.dubhe(**PLAIN, equal_weights=equal_weights, num_participants=20)
    model = api.run(strategy, api.grid(), 2)
    partitions = np.array(strategy.selected)
    weights = np.ones((2, 20)) if equal_weights else 10 + partitions
    moved = np.average(partitions, axis=1, weights=weights)
    np.testing.assert_allclose(model[0], 2 + moved.sum())
    assert partitions.max() > 10 + 2 * partitions.min()
    assert not [r for r in caplog.records if r.levelname == "WARNING" and "weight" in r.message]


def test_equal_weights_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A strategy of an app's own may weight clients by a metric that Dubhe does not know."""
    wrapped = TRAIN.wrapped(weighted_by_key="samples")
    wrapped.aggregate_train = lambda *_: (ArrayRecord(MODEL), None)
    TRAIN.run(TRAIN.dubhe(wrapped, **PLAIN, equal_weights=True), TRAIN.grid(), 2)
    assert caplog.text.count("equal_weights has no effect: no reply has a metric 'samples'") == 1


def test_the_users_strategy_keeps_its_settings() -> None:
    """Overrides last for one call, and what the strategy itself assigns is kept."""

    class Own(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
        """Counts its calls."""

        calls = 0

        def configure_train(self, *arguments: Any) -> Any:
            self.calls += 1
            self.seen = {"fraction": self.fraction_train}
            self.min_available_nodes = 5
            return super().configure_train(*arguments)

    inner = Own(fraction_train=0.1, min_train_nodes=9, min_available_nodes=11)
    wrapper = TRAIN.private("ServerSideFixed", inner)
    before = {**vars(inner)}, {**vars(wrapper)}
    strategy, grid = TRAIN.dubhe(wrapper), TRAIN.grid()
    TRAIN.run(strategy, grid, 2)
    assert (inner.calls, inner.seen) == (2, {"fraction": 1.0})
    assigned = {"calls": 2, "seen": {"fraction": 1.0}, "min_available_nodes": 5}
    assert {**vars(inner)} == {**before[0], **assigned}
    assert vars(wrapper).keys() == before[1].keys()
    assert wrapper.strategy is inner
    assert grid.got("evaluate", NUM_NODES) == [list(range(NUM_NODES))] * 2


def test_a_round_only_evaluates_if_the_fraction_of_training_nodes_is_0(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Flower logs that it skips the training, and does; this is no resampling."""
    strategy, grid = TRAIN.dubhe(TRAIN.wrapped(fraction_train=0.0), **PLAIN), TRAIN.grid()
    TRAIN.run(strategy, grid, 1)
    assert "Federated training will be skipped" in caplog.text
    assert not grid.got("train")
    assert "does not train exactly" not in caplog.text


@in_both_apis
def test_only_the_eligible_train(api: Api) -> None:
    """Only eligible nodes train, even if the draw was made before; no answer is refused."""
    allowed: dict[int, list[int]] = {}

    def eligible(server_round: int, node_ids: Any) -> list[int]:
        allowed[server_round] = list(node_ids)[server_round::2]
        return allowed[server_round]

    strategy, grid = api.dubhe(**PLAIN, rounds_per_draw=3), api.grid()
    strategy.eligible = eligible
    api.run(strategy, grid)
    for plan in strategy.plans:
        assert len(set(plan.participants)) == 6
        assert set(plan.participants) <= set(allowed[plan.server_round])
    strategy.eligible = lambda _round, _node_ids: None
    with pytest.raises(SettingsError, match=r"eligible\(\) returned nothing"):
        strategy.select(4, managed(grid) if api.is_fit else grid)


@in_both_apis
def test_too_few_nodes_are_refused_before_the_first_message(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """Fewer nodes than K are refused, and the error says how to simulate more."""
    grid, sentence = api.grid(), r"the number of nodes, 24; .*--federation-config 'num"
    with caplog.at_level("INFO", logger="flwr"), pytest.raises(SettingsError, match=sentence):
        api.run(api.dubhe(num_participants=NUM_NODES + 1), grid)
    assert grid.batches == []
    assert [line for line in caplog.messages if "dubhe:" in line] == []


def test_waiting_for_the_simulation_engine_ends_when_nodes_stop_coming(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once no more nodes connect, a wrong number fails after seconds, not a minute."""
    seconds = 0.0

    def sleep(longer: float) -> None:
        nonlocal seconds
        seconds += longer

    def wait(number: int) -> None:
        TRAIN.dubhe(num_participants=number).driver.plan_round(
            1,
            present=lambda: range(min(24, int(2 * seconds))),  # two more in each second
            send=lambda *_: {},
            patience=lambda: 3.0,
        )

    clock = SimpleNamespace(monotonic=lambda: seconds, perf_counter=lambda: seconds, sleep=sleep)
    monkeypatch.setattr("dubhe_flwr.adapter.driver.time", clock)
    with pytest.raises(QuorumError, match="no reply at join: 10"):
        wait(10)
    assert seconds == pytest.approx(5, abs=0.3)
    seconds = 0.0
    with pytest.raises(SettingsError, match="the number of nodes, 24"):
        wait(30)
    assert seconds == pytest.approx(15, abs=0.5)  # three after the last one connected


@in_both_apis
def test_waiting_for_nodes_ends(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """After wait_timeout the server goes on with the connected nodes, and logs it."""
    strategy = api.dubhe(**PLAIN, expected_nodes=NUM_NODES + 1, wait_timeout=0.1)
    grid = api.grid()
    grid.is_complete = False
    with caplog.at_level(logging.INFO, logger="flwr"):
        api.run(strategy, grid, 1)
    waits = [line for line in caplog.messages if "expected nodes" in line or "waiting" in line]
    assert waits == [
        "dubhe: waiting for 25 nodes; 24 connected so far",
        "dubhe: 24 of 25 expected nodes connected within 0 s; continuing with these",
    ]


@in_both_apis
@pytest.mark.parametrize("num_left", [0, 2])
def test_a_round_waits_while_fewer_than_the_quorum_are_connected(
    api: Api, num_left: int, caplog: pytest.LogCaptureFixture
) -> None:
    """When connections break between two rounds, no round is lost, and the run goes on."""
    strategy, grid = api.dubhe(**PLAIN), api.grid()
    grid.is_complete = False
    breaks = iter([[*grid.contexts][:num_left]] * 3)
    grid.get_node_ids = lambda: next(breaks if strategy.rounds_done else iter(()), [*grid.contexts])
    with caplog.at_level(logging.INFO, logger="flwr"):
        api.run(strategy, grid)
    assert f"dubhe: waiting for 6 nodes; {num_left} connected so far" in caplog.messages
    assert [len(plan.participants) for plan in strategy.plans] == [6, 6, 6]


@in_both_apis
def test_failed_training_costs_only_its_own_contribution(api: Api) -> None:
    """A client that raises in training is missing from the mean, and the run goes on."""
    strategy, fault = api.dubhe(**PLAIN), Fault("error", "train", times=1)
    model = api.run(strategy, FaultyGrid(api.grid(), [fault]), 1)
    (selected,) = strategy.selected
    assert any(np.allclose(model[0], 1 + np.mean([*{*selected} - {one}])) for one in selected)
    assert strategy.driver.metrics["selection-clients"] == 5


@in_both_apis
@pytest.mark.parametrize("server_round", [0, -1, 1.0, "1", None])
def test_a_round_is_a_whole_number_from_1(api: Api, server_round: Any) -> None:
    """An app's own loop may count from 0, or swap the arguments."""
    grid = api.grid()
    with pytest.raises(SettingsError, match="must be a whole number: rounds count from 1"):
        api.dubhe(**PLAIN).select(server_round, managed(grid) if api.is_fit else grid)


@in_both_apis
def test_select_serves_a_custom_training_loop(api: Api) -> None:
    """Select returns the clients of Flower's loop, trains none, and begins anew with round 1."""
    run, own = api.dubhe(**PLAIN), api.dubhe(**PLAIN)
    api.run(run, api.grid())
    grid = api.grid()
    nodes = managed(grid) if api.is_fit else grid
    plans = [own.select(server_round, nodes) for server_round in (1, 2, 3)]
    assert [[int(alias) for alias in plan.aliases] for plan in plans] == run.selected
    assert [plan.server_round for plan in plans] == [1, 2, 3]
    assert set(plans[0].participants) <= set(grid.get_node_ids())
    assert grid.got("train") == []
    again = own.select(1, nodes)
    assert again.participants == plans[0].participants
    assert again.stages[0].stage == "join"


def test_the_wrapped_strategy_makes_the_instructions() -> None:
    """Model, config and the round of the whole run reach the selected nodes, as after a restart."""
    fit, train = FIT.dubhe(FIT.wrapped(on_fit_config_fn=lambda r: {"round": r})), TRAIN.dubhe()
    for strategy in (fit, train):
        strategy.load_state_dict({**strategy.state_dict(), "round": 2})
    parameters, arrays = initial_parameters(), ArrayRecord(MODEL)
    made = fit.configure_fit(1, parameters, managed(FIT.grid()))
    assert {client.node_id for client, _ in made} == set(fit.plan.participants)
    assert all(ins.parameters is parameters and ins.config == {"round": 3} for _, ins in made)
    messages = list(train.configure_train(1, arrays, ConfigRecord({"lr": 0.1}), TRAIN.grid()))
    assert {message.metadata.dst_node_id for message in messages} == set(train.plan.participants)
    for message in messages:
        assert message.content["arrays"] == arrays
        assert message.content["config"] == ConfigRecord({"lr": 0.1, "server-round": 3})


@pytest.mark.parametrize(("api", "number"), [(FIT, 3), (TRAIN, 3), (TRAIN, 12)], ids=str)
def test_a_strategy_that_resamples_is_logged(
    api: Api, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Resampling is logged once, and the metrics have the number of clients that trained.

    Two models on each node are no resampling.
    """
    wrapped, method = api.wrapped(), "configure_fit" if api.is_fit else "configure_train"
    configure = getattr(wrapped, method)
    setattr(wrapped, method, lambda *given: [*configure(*given), *configure(*given)][:number])
    wrapped.strategy = "a name of its own"
    strategy = api.dubhe(wrapped, **PLAIN)
    api.run(strategy, api.grid(), 2)
    told = [text for text in caplog.messages if "the wrapped strategy" in text]
    assert len(told) == (number < 6)
    assert all("not train exactly the selected clients; configure it to train" in t for t in told)
    assert strategy.driver.metrics["selection-clients"] == min(number, 6)


@in_both_apis
def test_a_strategy_may_skip_rounds(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """It is not said to resample, but the log says that the selected clients do not train."""
    wrapped, method = api.wrapped(), "configure_fit" if api.is_fit else "configure_train"
    configure = getattr(wrapped, method)
    setattr(wrapped, method, lambda *given: configure(*given) if given[0] % 2 else [])
    strategy, grid = api.dubhe(wrapped, **PLAIN), api.grid()
    with caplog.at_level("INFO", logger="flwr"):
        api.run(strategy, grid)
    (told,) = [text for text in caplog.messages if "the wrapped strategy" in text]
    assert "trains no client in this round" in told
    assert grid.got("train") == [sorted(chosen) for chosen in strategy.selected[::2]]


@in_both_apis
def test_an_error_of_the_wrapped_strategy_says_what_it_was_given(api: Api) -> None:
    """A strategy that samples more nodes itself ends with an error that does not explain itself."""
    strategy = api.dubhe(**PLAIN)
    sampling = Mock(side_effect=ValueError("Sample larger than population"))
    strategy.strategy.configure_fit = strategy.strategy.configure_train = sampling
    with pytest.raises(ValueError, match="Sample larger") as found:
        api.run(strategy, api.grid(), 1)
    assert "sees only the 6 selected nodes" in found.value.__notes__[0]


@in_both_apis
def test_a_strategy_that_waits_for_other_nodes_ends_the_run(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait without end; to ask often, slowly, or in each round is no waiting."""
    seconds, kept = [0.0], list[Any]()
    monkeypatch.setattr("dubhe_flwr.adapter.wrapped.monotonic", lambda: seconds[0])

    def asks(nodes: Any, times: int, pause: float) -> None:
        for _ in range(times):
            assert (nodes.num_available() if api.is_fit else len(nodes.get_node_ids())) == 6
            seconds[0] += pause

    def configured(server_round: int, *given: Any) -> Any:
        kept.append(given[-1])
        times, pause = {1: (100, 0.0), 2: (2, 100.0), 3: (50, 2.0)}[server_round]
        asks(given[-1], times, pause)
        return configure(server_round, *given)

    wrapped, method = api.wrapped(), "configure_fit" if api.is_fit else "configure_train"
    configure = getattr(wrapped, method)
    setattr(wrapped, method, configured)
    strategy, grid = api.dubhe(wrapped, **PLAIN), api.grid()
    api.run(strategy, grid, 2)
    asks(kept[0], 50, 2.0)
    with pytest.raises(SettingsError, match="waits for more nodes than the 6 that are selected"):
        api.run(strategy, grid)


def test_a_strategy_sees_the_names_of_the_selected_nodes() -> None:
    """Flower's own Grid knows more of a node than its id."""
    named: Any = SimpleNamespace(
        get_nodes=lambda: [SimpleNamespace(node_id=node_id, name="a") for node_id in (1, 2)]
    )
    assert [node.name for node in _SelectedGrid(named, [2, 3], Mock()).get_nodes()] == ["a"]


@in_both_apis
def test_settings_made_later_reach_the_wrapped_strategy(api: Api) -> None:
    """Many apps set functions on a finished strategy; what is Dubhe's own stays with it."""
    inner = api.wrapped(fraction_evaluate=1.0)
    inner.driver = "of the strategy's own"
    strategy = api.dubhe(inner, **PLAIN)
    strategy.fraction_evaluate, strategy.driver, strategy.mine = 0.0, strategy.driver, 1
    grid = api.grid()
    api.run(strategy, grid, 1)
    assert grid.got("evaluate") == []
    assert inner.driver == "of the strategy's own"
    assert "mine" not in vars(inner)
    private = api.dubhe(api.private("ServerSideFixed", inner), **PLAIN)
    private.fraction_evaluate = 0.5
    assert inner.fraction_evaluate == 0.5


@in_both_apis
@pytest.mark.parametrize(("num_left", "num_waits"), [(0, 2), (2, 2), (0, 0)])
def test_each_round_of_a_long_outage_waits(
    api: Api, num_left: int, num_waits: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A round that was given up does not count as one with all its nodes.

    An in-process Grid has all its nodes from the start, so waiting brings none back.
    """
    strategy, grid = api.dubhe(**PLAIN, on_failure="random", wait_timeout=0.1), api.grid()
    grid.is_complete = not num_waits
    everybody = [*grid.contexts]
    grid.get_node_ids = lambda: everybody[: num_left if strategy.rounds_done in {1, 2} else None]
    with caplog.at_level(logging.INFO, logger="flwr"):
        api.run(strategy, grid, 4)
    waiting = f"dubhe: waiting for 6 nodes; {num_left} connected so far"
    assert caplog.messages.count(waiting) == num_waits
    assert [len(plan.participants) for plan in strategy.plans] == [6, num_left, num_left, 6]


def test_a_node_that_leaves_after_its_selection_is_not_blamed_on_the_strategy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The ClientManager no longer has it, so the wrapped strategy cannot train it."""
    manager = managed(FIT.grid())

    def leave(plan: Any, _seconds: float) -> None:
        manager.unregister(manager.all()[str(plan.participants[0])])

    strategy = FIT.dubhe(**PLAIN, on_selection=leave)
    assert len(strategy.configure_fit(1, initial_parameters(), manager)) == 5
    assert "the wrapped strategy" not in caplog.text


class OwnStart(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
    """Runs the rounds by itself, like Flower's advanced-pytorch example, and counts clients."""

    count = 0

    def start(
        self,
        grid: Any,
        model: Any,
        rounds: int,
        *,
        timeout: float = 60,
        note: str = "",
        evaluate_fn: Any = lambda _round, _model: None,
    ) -> Any:
        evaluate_fn(0, model)
        self.summary()
        for server_round in range(1, rounds + 1):
            messages = self.configure_train(server_round, model, ConfigRecord(), grid)
            model, metrics = self.aggregate_train(server_round, grid.send_and_receive(messages))
            self.count += metrics["selection-clients"]
            evaluate_fn(server_round, model)
        return rounds, timeout, note


def test_a_start_of_the_wrapped_strategy_runs_the_rounds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets the arguments that it has, runs with Dubhe's selection, and resumes.

    It calls what an app has put in place of `configure_train`.
    """
    grid, selected, called = TRAIN.grid(), [], list[int]()

    def configure_train(*given: Any) -> Any:
        called.append(given[0])
        return OwnStart.configure_train(wrapped, *given)

    for num_rounds, rounds_left in ((3, 3), (4, 1)):
        wrapped = OwnStart()
        wrapped.configure_train = configure_train
        strategy = TRAIN.dubhe(wrapped, **PLAIN, checkpoint_dir=tmp_path)
        with caplog.at_level("INFO", logger="flwr"):
            found: Any = strategy.start(grid, ArrayRecord(MODEL), num_rounds, note="kept")
        assert found == (rounds_left, 60, "kept")
        assert strategy.strategy.count == 6 * rounds_left
        selected += [sorted(chosen) for chosen in strategy.selected]
    assert grid.got("train") == selected
    assert called == [1, 2, 3, 4]
    assert "Dubhe around OwnStart" in caplog.text
    assert "NOT selected" not in caplog.text


def test_a_start_that_does_not_let_dubhe_select_is_noticed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It trains all nodes, as it would without Dubhe, so the log has to say so."""

    class Everyone(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
        def start(self, grid: Any, model: Any, *_: Any, **__: Any) -> Any:
            message = RecordDict({"arrays": model, "config": ConfigRecord({})})
            sent = [Message(message, node_id, "train") for node_id in grid.get_node_ids()]
            return self.aggregate_train(1, grid.send_and_receive(sent))

    class Delegating(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
        def start(self, *given: Any) -> Any:
            return TRAIN.flower.FedAvg().start(*given)

    for wrapped in (Everyone(), Delegating()):
        caplog.clear()
        grid = TRAIN.grid()
        TRAIN.dubhe(wrapped).start(grid, ArrayRecord(MODEL), 1)
        assert grid.got("train", 24) == [list(range(24))]
        assert "round 1 was NOT selected by Dubhe: it was not asked" in caplog.text


def test_a_start_may_run_its_rounds_later(caplog: pytest.LogCaptureFixture) -> None:
    """If it is a coroutine or yields each round's result, no round has begun when it returns."""

    class Later(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
        def rounds(self, grid: Any, model: Any) -> Any:
            for server_round in (1, 2):
                messages = self.configure_train(server_round, model, ConfigRecord(), grid)
                yield self.aggregate_train(server_round, grid.send_and_receive(messages))

    class Yielding(Later):
        def start(self, grid: Any, model: Any, *_: Any) -> Any:
            yield from self.rounds(grid, model)

    class Coroutine(Later):
        async def start(self, grid: Any, model: Any, *_: Any) -> Any:
            return list(self.rounds(grid, model))

    for wrapped, finish in ((Yielding(), list), (Coroutine(), asyncio.run)):
        strategy, grid = TRAIN.dubhe(wrapped, **PLAIN), TRAIN.grid()
        assert len(finish(strategy.start(grid, ArrayRecord(MODEL)))) == 2
        assert grid.got("train") == [sorted(selected) for selected in strategy.selected]
    assert "NOT selected" not in caplog.text


@pytest.mark.parametrize("keeps_checkpoints", [True, False])
def test_a_start_of_another_name_selects_too(tmp_path: Path, keeps_checkpoints: bool) -> None:
    """All methods of the wrapped strategy that run rounds let Dubhe select."""

    class Run(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
        def run(self, grid: Any, num_rounds: int) -> str:
            start = self.start if keeps_checkpoints else super().start
            self.result = start(grid, ArrayRecord(MODEL), num_rounds)
            return type(self).__name__

    options = {**PLAIN, **({"checkpoint_dir": tmp_path} if keeps_checkpoints else {})}
    strategy, grid = TRAIN.dubhe(Run(fraction_evaluate=0.0), **options), TRAIN.grid()
    assert strategy.run(grid, 2) == "Run"
    assert grid.got("train") == [sorted(selected) for selected in strategy.selected]
    assert strategy.result.train_metrics_clientapp[2]["selection-clients"] == 6


def test_an_own_server_that_does_not_let_dubhe_select_is_noticed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may call neither configure_fit nor aggregate_fit, but it evaluates."""
    strategy = FIT.dubhe(**PLAIN)
    for server_round in range(4):
        strategy.evaluate(server_round, initial_parameters())
        if server_round == 2:
            strategy.aggregate_fit(3, [], [])
    told = [text.split(" was NOT selected")[0] for text in caplog.messages if "NOT" in text]
    assert told == ["dubhe: round 2", "dubhe: round 3"]


def test_a_strategy_may_register_its_subclasses_and_close_what_it_opened() -> None:
    """A class of ours would replace the app's own in its next run, and each object close a file."""
    known: dict[str, Any] = {}
    closed = Mock()

    class Registered(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
        def __init_subclass__(cls, name: str) -> None:
            known[name] = cls

    class Own(Registered, name="own"):
        def started(self, *given: Any) -> Any:
            return self.start(*given)

        def __del__(self) -> None:
            closed()

    strategy, grid = TRAIN.dubhe(known["own"](fraction_evaluate=0.0), **PLAIN), TRAIN.grid()
    strategy.started(grid, ArrayRecord(MODEL), 1)
    assert grid.got("train") == [sorted(strategy.selected[0])]
    assert known == {"own": Own}
    assert not closed.called


class Saved(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
    """Pickles itself, as an app does that keeps a strategy with its model."""

    def saved(self) -> bytes:
        return pickle.dumps(self)


def test_a_method_may_pickle_the_strategy() -> None:
    """What it writes is the wrapped strategy, without Dubhe."""
    written = TRAIN.dubhe(Saved(fraction_evaluate=0.25)).saved()
    loaded: Any = pickle.loads(written)  # noqa: S301 - its own
    assert type(loaded) is Saved
    assert loaded.fraction_evaluate == 0.25


def test_methods_may_take_and_return_more_than_flowers() -> None:
    """A strategy's own start passes on what its methods want, and gets what they return.

    It may take a config in place of the number of rounds.
    """

    class Talkative(TRAIN.flower.FedAvg):  # type: ignore[misc, name-defined]
        def start(self, grid: Any, model: Any, config: dict[str, int]) -> Any:
            messages = self.configure_train(1, model, ConfigRecord(), grid, 4, rate=5)
            assert self.configure_evaluate(1, model, ConfigRecord(), grid, 7) == 7
            assert self.aggregate_evaluate(1, [], rate=8) == 8
            return self.aggregate_train(1, grid.send_and_receive(messages), "more", note="text")

        def configure_train(self, *given: Any, rate: int) -> Any:
            assert (given[4], rate) == (4, 5)
            return super().configure_train(*given[:4])

        def aggregate_train(self, server_round: int, replies: Any, more: str, note: str) -> Any:
            arrays, metrics = super().aggregate_train(server_round, replies)
            return arrays, {**metrics, "note": note}, more

        def configure_evaluate(self, *given: Any) -> Any:
            return given[4]

        def aggregate_evaluate(self, *_: Any, rate: int) -> Any:
            return rate

    strategy, model = TRAIN.dubhe(Talkative(), **PLAIN), ArrayRecord(MODEL)
    result: Any = strategy.start(TRAIN.grid(), model, {"rounds": 1})
    assert result[1]["note"] == "text"
    assert result[1]["selection-clients"] == 6
    assert result[2:] == ("more",)


@pytest.mark.parametrize("answer", [ArrayRecord(MODEL), {"arrays": 1}, (ArrayRecord(MODEL), 0.5)])
def test_aggregation_may_return_what_only_an_own_start_knows(answer: Any) -> None:
    """Without a record of metrics, nothing is added to it."""
    strategy = TRAIN.dubhe(**PLAIN)
    strategy.strategy.aggregate_train = lambda *_: answer
    strategy.select(1, TRAIN.grid())
    assert strategy.aggregate_train(1, []) is answer


def test_an_own_server_may_pass_and_get_more_than_flowers() -> None:
    """In the API with `server_fn`, too, and a strategy may return no metrics."""
    own = SimpleNamespace(
        configure_fit=lambda *given: [(client, given[3]) for client in given[2].sample(0)],
        aggregate_fit=lambda *given: (given[0], None, given[3]),
        configure_evaluate=lambda *given: given[3],
        aggregate_evaluate=lambda *given: given[3],
        evaluate=lambda *given: given[2],
    )
    strategy = FIT.dubhe(**PLAIN)
    strategy.strategy = own
    configured = strategy.configure_fit(1, initial_parameters(), managed(FIT.grid()), "more")
    assert [more for _, more in configured] == ["more"] * 6
    assert strategy.aggregate_fit(1, [], [], "more")[2:] == ("more",)
    assert strategy.aggregate_fit(1, [], [], "more")[1]["selection-clients"] == 0
    assert strategy.configure_evaluate(1, initial_parameters(), None, "more") == "more"
    assert strategy.aggregate_evaluate(1, [], [], "more") == "more"
    assert strategy.evaluate(1, initial_parameters(), "more") == "more"


@pytest.mark.parametrize("options", [FIT.wanting(fraction=0.1), {"min_fit_clients": 50}])
def test_a_strategy_may_make_as_many_instructions_as_it_asks_for(options: Any) -> None:
    """In the API with `server_fn`, a strategy may pair an instruction with each client.

    An app's Server may call any method of its strategy, and Dubhe selects in it.
    """

    class Pairing(FIT.flower.FedAvg):  # type: ignore[misc, name-defined]
        def configure_fit(self, _round: int, parameters: Any, manager: Any) -> Any:
            number, least = self.num_fit_clients(manager.num_available())
            clients = manager.sample(number, least)
            return [(clients[index], FitIns(parameters, {})) for index in range(number)]

        def train(self, *given: Any) -> Any:
            return self.configure_fit(*given), self.aggregate_fit(1, [], [])

    strategy = FIT.dubhe(Pairing(**options), **PLAIN)
    paired, (_, metrics) = strategy.train(1, initial_parameters(), managed(FIT.grid()))
    assert [client.node_id for client, _ in paired] == list(strategy.plan.participants)
    assert metrics["selection-clients"] == 0


def test_a_custom_start_without_evaluate_fn(tmp_path: Path) -> None:
    """It runs, unless there is something to call after each round."""

    class Brief(OwnStart):
        def start(self, grid: Any, model: Any, rounds: int) -> Any:  # type: ignore[override]
            return super().start(grid, model, rounds, timeout=1.0)

    def start(given: Any, **options: Any) -> Any:
        strategy = TRAIN.dubhe(Brief(), **PLAIN, **options)
        return strategy.start(TRAIN.grid(), ArrayRecord(MODEL), 2, **given)

    assert start({}) == (2, 1.0, "")
    with pytest.raises(SettingsError, match=r"Brief.start takes no evaluate_fn, .*; add it to"):
        start({}, checkpoint_dir=tmp_path)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'evaluate_fn'"):
        start({"evaluate_fn": lambda _round, _arrays: None})


def test_the_number_of_rounds_of_a_custom_start_has_rounds_in_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No other number is taken for it. The Grid comes first, and is known, whatever its name."""

    class Day(OwnStart):
        rounds = 1

        def start(self, g: Any, model: Any, day: int, evaluate_fn: Any) -> Any:  # type: ignore[override]
            super().start(g, model, self.rounds, evaluate_fn=evaluate_fn)
            return day

    class Short(OwnStart):
        def start(self, g: Any, n_rounds: int) -> Any:  # type: ignore[override]
            return super().start(g, ArrayRecord(MODEL), n_rounds)

    class Open(OwnStart):
        def start(self, g: Any, model: Any, n_rounds: int, **named: Any) -> Any:  # type: ignore[override]
            return super().start(g, model, n_rounds, **named)

    grid = TRAIN.grid()
    for _ in range(2):  # the second one resumes
        strategy = TRAIN.dubhe(Day(), **PLAIN, checkpoint_dir=tmp_path)
        assert strategy.start(grid, ArrayRecord(MODEL), 1, lambda *_: None) == 1
    assert "the app's rounds come on top of the 1 already done" in caplog.text
    strategy = TRAIN.dubhe(Short(), **PLAIN)
    with caplog.at_level("INFO", logger="flwr"):
        assert strategy.start(grid, 2) == (2, 60, "")
    assert strategy.driver.run.last == 2
    for num_rounds, num_left in ((1, 1), (3, 2)):
        strategy = TRAIN.dubhe(Open(), **PLAIN, checkpoint_dir=tmp_path / "open")
        assert strategy.start(grid, ArrayRecord(MODEL), num_rounds) == (num_left, 60, "")
    assert "is not Flower's own Grid" not in caplog.text


def test_a_custom_start_keeps_its_own_arguments(tmp_path: Path) -> None:
    """They may come in another order than Flower's, with other defaults; it resumes all the same.

    One that takes any arguments gets them as the app passes them.
    """

    class Own(OwnStart):
        def start(self, grid: Any, num_rounds: int = 2, rate: float = 0.5, **named: Any) -> Any:  # type: ignore[override]
            model = named.pop("initial_arrays", None)
            super().start(grid, model or ArrayRecord(MODEL), num_rounds, **named)
            return num_rounds, rate, model is None

    class Passing(Own):
        def start(self, *given: Any, **named: Any) -> Any:
            return super().start(*given, **named)

    def start(wrapped: Any, *given: Any, **named: Any) -> Any:
        return TRAIN.dubhe(wrapped, **PLAIN, checkpoint_dir=folder).start(*given, **named)

    folder, grid = None, TRAIN.grid()
    assert start(Own(), grid) == (2, 0.5, True)
    assert start(Own(), grid, 1, 0.1) == (1, 0.1, True)
    assert start(Passing(), grid=grid, rate=0.1, num_rounds=1) == (1, 0.1, True)
    folder = tmp_path
    assert start(Own(), grid, 1) == (1, 0.5, True)
    assert start(Own(), grid) == (1, 0.5, False)
    assert start(Own(), grid, num_rounds=4) == (2, 0.5, False)


@in_both_apis
def test_other_attributes_come_from_the_wrapped_strategy(api: Api) -> None:
    """Attributes that do not concern the selection are the wrapped strategy's."""
    wrapped = api.wrapped(**api.wanting(fraction=0.5))
    strategy = api.ours.Dubhe(wrapped, **SELECTION)
    assert 0.5 in {getattr(strategy, name, None) for name in ("fraction_fit", "fraction_train")}
    assert repr(strategy) == f"Dubhe({wrapped!r})"
    with pytest.raises(AttributeError):
        _ = strategy.no_such_thing
    with pytest.raises(AttributeError, match=r"with server_fn, import Dubhe from"):
        getattr(strategy, "start" if api is FIT else "initialize_parameters")


def test_the_summary_says_how_nodes_are_selected(caplog: pytest.LogCaptureFixture) -> None:
    """The summary lists the layers from the outside in, then the wrapped strategy's settings."""
    wrapped = TRAIN.private("ServerSideFixed", TRAIN.flower.FedAvg(fraction_train=0.3))
    strategy = TRAIN.ours.Dubhe(wrapped, **SELECTION)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="flwr"):
        strategy.summary()
    assert caplog.messages[:2] == [
        "\t├──> Dubhe around DifferentialPrivacyServerSideFixedClipping around FedAvg:",
        "\t│\t├── Participants (K): 6 | equal weights: True",
    ]
    assert caplog.messages[6] == "\t│\t└── Nodes: simulated, encrypted | seed: 7"
    for told in (strategy.settings.rule.describe(), "Tries(number=4)", "every 50 rounds"):
        assert told in caplog.text
    assert "Key: 512 bits | smallest cohort: 3" in caplog.text
    assert "0.30" in caplog.text
