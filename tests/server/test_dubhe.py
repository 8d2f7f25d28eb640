"""Dubhe for strategies with `configure_fit`, on the in-process runtime."""

import logging
from typing import Any

import numpy as np
import pytest
from flwr.common import (
    Code,
    EvaluateRes,
    FitIns,
    FitRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedXgbCyclic,
    FedYogi,
    Krum,
    QFedAvg,
)
from support import (
    LABEL_COUNTS,
    MODEL,
    NUM_NODES,
    SELECTION,
    Recorded,
    initial_parameters,
    numpy_client_app,
    strategy_server_app,
)

from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.server import Dubhe
from dubhe_flwr.simulation import InProcessGrid, run_in_process


class RecordedDubhe(Recorded, Dubhe):
    """Keeps its plans."""


def trained_partitions(results: list[tuple[int, dict[str, Any]]]) -> dict[str, str]:
    """Aggregate fit metrics to the list of partitions that trained, as Flower wants scalars."""
    return {"trained": ",".join(str(p) for p in sorted(int(m["partition"]) for _, m in results))}


def fed(kind: Any, **options: Any) -> Any:
    """Return a strategy of that kind that reports who trained."""
    return kind(
        fraction_evaluate=0.0,
        initial_parameters=initial_parameters(),
        fit_metrics_aggregation_fn=trained_partitions,
        **options,
    )


def evaluated(strategy: Dubhe) -> Any:
    """Return the wrapped strategy, whose evaluation a test looks into."""
    return strategy.strategy


PLAIN = {
    "FedAvg": lambda: fed(FedAvg),
    "FedAvg, a tenth": lambda: fed(FedAvg, fraction_fit=0.1),
    "FedAvg, too many": lambda: fed(FedAvg, min_fit_clients=50, min_available_clients=50),
    "FedProx": lambda: fed(FedProx, proximal_mu=0.1),
    "FedAdam": lambda: fed(FedAdam),
    "FedAdagrad": lambda: fed(FedAdagrad),
    "FedYogi": lambda: fed(FedYogi),
    "FedAvgM": lambda: fed(FedAvgM, server_momentum=0.9),
    "FedMedian": lambda: fed(FedMedian),
    "FedTrimmedAvg": lambda: fed(FedTrimmedAvg),
    "Krum": lambda: fed(Krum, num_malicious_clients=1, num_clients_to_keep=3),
    "Bulyan": lambda: fed(Bulyan, num_malicious_clients=0, to_keep=0),
    "QFedAvg": lambda: fed(QFedAvg, evaluate_fn=lambda _round, _arrays, _config: (1.0, {})),
}
DP: dict[str, Any] = {
    "server fixed": lambda s: DifferentialPrivacyServerSideFixedClipping(s, 0.1, 1.0, 6),
    "client fixed": lambda s: DifferentialPrivacyClientSideFixedClipping(s, 0.1, 1.0, 6),
    "server adaptive": lambda s: DifferentialPrivacyServerSideAdaptiveClipping(s, 0.1, 6),
    "client adaptive": lambda s: DifferentialPrivacyClientSideAdaptiveClipping(s, 0.1, 6),
}


def run(strategy: Any, num_rounds: int = 3, app: Any = None) -> list[str]:
    """Run a federation and return the partitions that trained, by round, as the grid saw them."""
    grid = TrainingGrid(app or numpy_client_app(), NUM_NODES)
    from flwr.app import Context, RecordDict

    context = Context(grid.run.run_id, 1, {}, RecordDict(), {})
    strategy_server_app(strategy, num_rounds)(grid, context)
    return grid.trained()


class TrainingGrid(InProcessGrid):
    """Notes which partition gets a training message in which batch of training."""

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        for message in messages:
            if message.metadata.message_type == "train":
                partition = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
                seen = self.__dict__.setdefault("seen", {})
                seen.setdefault(message.metadata.group_id, []).append(int(partition))
        return super().push_messages(messages)

    def trained(self) -> list[str]:
        return [str(sorted(partitions)) for _, partitions in sorted(self.__dict__["seen"].items())]


def as_text(selected: list[list[int]]) -> list[str]:
    """Return sets in the form of `run`."""
    return [str(sorted(partitions)) for partitions in selected]


@pytest.mark.parametrize("name", PLAIN)
def test_any_strategy_trains_exactly_the_determined_clients(name: str) -> None:
    """Whatever the wrapped strategy asks for, the determined K train in every round."""
    strategy = RecordedDubhe(PLAIN[name](), **SELECTION)
    trained = run(strategy)
    assert trained == as_text(strategy.selected)
    assert [len(set(selected)) for selected in strategy.selected] == [6, 6, 6]


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", DP)
def test_privacy_wrappers_work_inside_and_outside(name: str, place: str) -> None:
    """Flower's DP wrappers may be wrapped by Dubhe, and may wrap it."""
    from flwr.client.mod import adaptiveclipping_mod, fixedclipping_mod

    mod = {"client fixed": (fixedclipping_mod,), "client adaptive": (adaptiveclipping_mod,)}
    app = numpy_client_app(mods=mod.get(name, ()))
    if place == "inside":
        outer = inner = RecordedDubhe(DP[name](fed(FedAvg)), **SELECTION)
    else:
        inner = RecordedDubhe(fed(FedAvg), **SELECTION)
        outer = DP[name](inner)
    assert run(outer, app=app) == as_text(inner.selected)


def test_selected_data_is_less_biased_than_random() -> None:
    """Over a run, the selected clients' classes are closer to uniform than random ones'."""
    strategy = RecordedDubhe(fed(FedAvg), **SELECTION)
    run(strategy, num_rounds=20)
    shares = LABEL_COUNTS / LABEL_COUNTS.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(1)

    def distance(selected: Any) -> float:
        return float(np.abs(shares[selected].mean(axis=0) - 0.25).sum())

    dubhe = np.mean([distance(selected) for selected in strategy.selected])
    random = np.mean([distance(rng.choice(NUM_NODES, 6, replace=False)) for _ in range(500)])
    assert dubhe < 0.7 * random


def test_same_seed_same_sets_and_other_seed_other_sets() -> None:
    """The seed fixes who is selected, whatever the node ids are; another seed changes it."""
    chosen = []
    for selection_seed, grid_seed in [(7, 0), (7, 1), (8, 0)]:
        strategy = RecordedDubhe(fed(FedAvg), **{**SELECTION, "seed": selection_seed})
        run_in_process(
            strategy_server_app(strategy, 3), numpy_client_app(), NUM_NODES, seed=grid_seed
        )
        chosen.append(strategy.selected)
    assert chosen[0] == chosen[1]
    assert chosen[0] != chosen[2]


def test_without_a_seed_runs_differ() -> None:
    """Without a seed, choices and draws come from the operating system."""
    chosen = []
    for _ in range(2):
        strategy = RecordedDubhe(fed(FedAvg), **{**SELECTION, "seed": None})
        run(strategy)
        chosen.append(strategy.selected)
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize("equal_weights", [True, False])
def test_equal_weights_override_what_clients_report(equal_weights: bool) -> None:
    """Eq. 1: the plain mean of the models; switched off, the wrapped strategy's own weights."""
    strategy = RecordedDubhe(fed(FedAvg), **SELECTION, equal_weights=equal_weights)
    models: list[Any] = []
    evaluated(strategy).evaluate_fn = lambda _round, arrays, _config: models.append(arrays)
    run(strategy, num_rounds=1)
    partitions = np.array(strategy.selected[0])
    weights = np.ones(6) if equal_weights else 10 + partitions
    np.testing.assert_allclose(models[-1][0], 1 + np.average(partitions, weights=weights))


def test_the_model_is_the_same_bit_for_bit() -> None:
    """Replies are aggregated in the order of the plan, so that sums round the same way."""
    models: list[list[bytes]] = []
    for _ in range(2):
        strategy = RecordedDubhe(fed(FedAvg), **SELECTION)
        seen: list[bytes] = []
        evaluated(strategy).evaluate_fn = lambda _r, arrays, _c, seen=seen: seen.append(
            arrays[0].tobytes()
        )
        run(strategy, num_rounds=4)
        models.append(seen)
    assert models[0] == models[1]


def test_training_instruction_names_the_epoch() -> None:
    """Each FitIns says to which epoch it belongs."""
    configs: list[Any] = []
    inner = fed(FedAvg)

    def note(results: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        configs.extend(metrics for _, metrics in results)
        return {}

    inner.fit_metrics_aggregation_fn = note
    strategy = RecordedDubhe(inner, **SELECTION)
    run(strategy, num_rounds=1)
    assert {config["dubhe-epoch"] for config in configs} == {strategy.plans[0].epoch.hex()}


def test_override_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A fraction below 1 is overridden with one line, not one a round."""
    with caplog.at_level(logging.INFO, logger="flwr"):
        run(RecordedDubhe(fed(FedAvg, fraction_fit=0.1), **SELECTION))
    assert sum("overridden" in record.message for record in caplog.records) == 1


def test_one_batch_a_stage() -> None:
    """The stages of a first round are seven batches, of a later one two, before training."""
    batches: list[str] = []

    class CountingGrid(TrainingGrid):
        def push_messages(self, messages: Any) -> Any:
            messages = list(messages)
            batches.append(messages[0].metadata.message_type)
            return super().push_messages(messages)

    from flwr.app import Context, RecordDict

    grid = CountingGrid(numpy_client_app(), NUM_NODES)
    strategy = RecordedDubhe(fed(FedAvg), **SELECTION)
    strategy_server_app(strategy, 2)(grid, Context(grid.run.run_id, 1, {}, RecordDict(), {}))
    stages = [kind.removeprefix("evaluate.dubhe_") for kind in batches if kind != "train"]
    assert stages == [
        *("join", "keygen", "register", "moments", "calibrate", "participate", "determine"),
        *("participate", "determine"),
    ]


class PlainProxy(ClientProxy):
    """A ClientProxy without a Grid: hands messages to the ClientApp one by one."""

    def __init__(self, cid: str, grid: InProcessGrid, node_id: int) -> None:
        super().__init__(cid)
        self._grid, self._node_id = grid, node_id

    def evaluate(self, ins: Any, timeout: float | None, group_id: int | None) -> EvaluateRes:
        from flwr.app import Message
        from flwr.compat.common.recorddict_compat import (
            evaluateins_to_recorddict,
            recorddict_to_evaluateres,
        )

        content = evaluateins_to_recorddict(ins, keep_input=True)
        message = Message(content, dst_node_id=self._node_id, message_type="evaluate")
        (reply,) = self._grid.send_and_receive([message])
        if reply.has_error():
            raise ValueError(reply.error.reason)
        return recorddict_to_evaluateres(reply.content)

    def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        raise NotImplementedError

    get_parameters = fit = reconnect = get_properties


def test_proxies_without_a_grid_are_asked_by_evaluate_ins() -> None:
    """Where a ClientProxy has no Grid, the stages travel as plain EvaluateIns."""
    grid = InProcessGrid(numpy_client_app(), NUM_NODES)
    manager = SimpleClientManager()
    for partition, node_id in enumerate(grid.contexts):
        manager.register(PlainProxy(f"client-{partition}", grid, node_id))
    strategy = RecordedDubhe(FedAvg(), **SELECTION)
    instructions = strategy.configure_fit(1, initial_parameters(), manager)
    by_grid = RecordedDubhe(fed(FedAvg), **SELECTION)
    run(by_grid, num_rounds=1)
    assert strategy.selected == by_grid.selected
    assert sorted(client.cid for client, _ in instructions) == sorted(
        f"client-{partition}" for partition in strategy.selected[0]
    )


@pytest.mark.parametrize("evaluate_on", ["all", "selected"])
def test_evaluation_on_all_or_on_the_selected(evaluate_on: Any) -> None:
    """Evaluation is the wrapped strategy's, on all clients or on those that trained."""
    evaluated: list[set[int]] = []

    def note(results: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        evaluated.append({int(metrics["partition"]) for _, metrics in results})
        return {}

    inner = FedAvg(initial_parameters=initial_parameters(), evaluate_metrics_aggregation_fn=note)
    strategy = RecordedDubhe(inner, **SELECTION, evaluate_on=evaluate_on)
    run(strategy, num_rounds=2)
    everyone = [set(range(NUM_NODES))] * 2
    wanted = everyone if evaluate_on == "all" else [set(s) for s in strategy.selected]
    assert evaluated == wanted


def test_a_strategy_that_trains_one_by_one_is_refused() -> None:
    """FedXgbCyclic has no round to balance; the refusal names a way out."""
    with pytest.raises(SettingsError, match="FedXgbBagging"):
        Dubhe(FedXgbCyclic(), **SELECTION)


def test_accounting_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Where privacy is accounted, one warning says that the selection depends on data."""
    strategy = fed(FedAvg)
    strategy.accountant = object()
    with caplog.at_level(logging.WARNING, logger="flwr"):
        Dubhe(strategy, **SELECTION)
    assert sum("epsilon" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"num_participants": NUM_NODES + 1}, "above the 24 nodes"),
        ({"rule": "paper"}, "is not a participation rule"),
        ({"min_cohort": 7}, "min_cohort=7 is above num_participants=6"),
    ],
)
def test_wrong_settings_are_refused_before_the_first_message(
    change: dict[str, Any], sentence: str
) -> None:
    """The refusal names the value and the remedy, and no node hears of it."""
    grid = InProcessGrid(numpy_client_app(), NUM_NODES)

    def push(messages: Any) -> Any:
        raise AssertionError(f"sent {messages}")

    grid.push_messages = push  # type: ignore[method-assign]
    from flwr.app import Context, RecordDict

    with pytest.raises(SettingsError, match=sentence):
        strategy_server_app(Dubhe(fed(FedAvg), **{**SELECTION, **change}, wait_timeout=0.0), 1)(
            grid, Context(grid.run.run_id, 1, {}, RecordDict(), {})
        )


def test_nodes_with_unfit_data_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """No data, negative counts, a wrong number of classes or an exception: the run goes on."""

    def counts(context: Any) -> Any:
        partition = int(context.node_config["partition-id"])
        unfit: dict[int, Any] = {0: [0, 0, 0, 0], 1: [1, -1, 2, 2], 2: [3, 3], 3: [0.5] * 4}
        if partition == 4:
            raise RuntimeError("no such file: 17 samples of class 3")
        return unfit.get(partition, LABEL_COUNTS[partition])

    strategy = RecordedDubhe(fed(FedAvg), **SELECTION)
    with caplog.at_level(logging.DEBUG):
        run(strategy, app=numpy_client_app(counts))
    assert not set(range(5)) & {p for selected in strategy.selected for p in selected}
    assert dict(strategy.plans[0].stages[0].dropped) == {
        "no data": 1,
        "invalid label counts": 3,
        "wrong number of classes": 1,
    }
    assert "17 samples" not in caplog.text


def test_too_few_nodes_are_a_typed_error() -> None:
    """Below the quorum, the error says how many are left, and why."""
    app = numpy_client_app(lambda _context: [0, 0, 0, 0])
    with pytest.raises(QuorumError, match="24 no data at join"):
        run(RecordedDubhe(fed(FedAvg), **SELECTION), app=app)


def test_other_attributes_are_the_wrapped_strategys() -> None:
    """What is not the selection's business is answered by the wrapped strategy."""
    strategy = Dubhe(FedAvg(fraction_fit=0.5), **SELECTION)
    assert strategy.fraction_fit == 0.5
    assert repr(strategy) == "Dubhe(FedAvg(accept_failures=True))"
    with pytest.raises(AttributeError):
        _ = strategy.no_such_thing


def test_failed_training_costs_only_its_own_contribution() -> None:
    """A client that raises in training is missing from the mean, and the run goes on."""
    strategy = RecordedDubhe(fed(FedAvg), **SELECTION)

    class OneFails(TrainingGrid):
        def _answer(self, message: Any) -> Any:
            if message.metadata.message_type == "train":
                partition = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
                if partition == strategy.selected[0][0]:
                    return super()._answer(
                        message.__class__(message.content, dst_node_id=1, message_type="train")
                    )
            return super()._answer(message)

    from flwr.app import Context, RecordDict

    models: list[Any] = []
    evaluated(strategy).evaluate_fn = lambda _round, arrays, _config: models.append(arrays)
    grid = OneFails(numpy_client_app(), NUM_NODES)
    strategy_server_app(strategy, 1)(grid, Context(grid.run.run_id, 1, {}, RecordDict(), {}))
    np.testing.assert_allclose(models[-1][0], 1 + np.mean(strategy.selected[0][1:]))


def test_parameters_reach_the_clients_unchanged() -> None:
    """The instruction is the wrapped strategy's own, for the selected clients."""
    grid = InProcessGrid(numpy_client_app(), NUM_NODES)
    manager = SimpleClientManager()
    for partition, node_id in enumerate(grid.contexts):
        manager.register(PlainProxy(f"client-{partition}", grid, node_id))
    strategy = Dubhe(FedAvg(on_fit_config_fn=lambda r: {"round": r}), **SELECTION)
    parameters = ndarrays_to_parameters(MODEL)
    for _, instruction in strategy.configure_fit(1, parameters, manager):
        assert isinstance(instruction, FitIns)
        assert instruction.config["round"] == 1
        np.testing.assert_array_equal(parameters_to_ndarrays(instruction.parameters)[1], MODEL[1])


def test_results_of_strangers_do_not_crash_aggregation() -> None:
    """A result of a client outside the plan is aggregated last, as the wrapped strategy would."""
    strategy = Dubhe(FedAvg(), **SELECTION)
    proxy = PlainProxy("stranger", InProcessGrid(numpy_client_app(), 1), 2)
    result = FitRes(Status(Code.OK, ""), Parameters([], "numpy.ndarray"), 5, {})
    parameters, metrics = strategy.aggregate_fit(1, [(proxy, result)], [])
    assert parameters is not None
    assert metrics == {}
