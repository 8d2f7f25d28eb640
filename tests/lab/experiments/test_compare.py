"""A comparison trains every method alike, repeats from its seed and reveals no client's data."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_comparison import run, small_settings

from dubhe_flwr.errors import DubheError
from dubhe_lab.experiments.apps import RecordedSelection
from dubhe_lab.experiments.compare import compare
from dubhe_lab.experiments.scenario import Scenario, scenario_of
from dubhe_lab.experiments.settings import COMPARED
from dubhe_lab.report.results import ComparisonResults, MethodResult
from dubhe_lab.training.client import TorchClient


@pytest.fixture(scope="module")
def results() -> ComparisonResults:
    """Return the results of the default methods with `small_settings()`."""
    return run(small_settings())


def without_times(results: ComparisonResults) -> dict[str, MethodResult]:
    """Return the results that must repeat."""
    return {
        name: replace(method, selection_seconds=0.0, training_seconds=0.0)
        for name, method in results.methods.items()
    }


def test_series_have_a_value_for_each_round(results: ComparisonResults) -> None:
    """Accuracy and loss begin with the initial model, which all methods share."""
    assert list(results.methods) == list(COMPARED)
    for method in results.methods.values():
        assert method.num_rounds == 3
        assert len(method.accuracy) == len(method.loss) == 4
        assert len(method.emd) == len(method.local_emd) == 3
        assert all(value is not None and 0 <= value <= 1 for value in method.accuracy)
        assert all(0 <= value <= 2 for value in (*method.emd, *method.local_emd))
        assert sum(method.class_proportions.mean) == pytest.approx(1)
        assert 5 / 24 <= method.coverage <= 15 / 24
        assert not method.notes
    assert len({method.loss[0] for method in results.methods.values()}) == 1
    # From the first round on, each method trains different clients.
    assert len({method.loss[1] for method in results.methods.values()}) == len(COMPARED)


def test_nodes_accept_the_size_of_keys_that_is_set() -> None:
    """Key bits above the usual limit of nodes are no reason for them to stay out."""
    own = {"key_bits": 8192, "num_rounds": 1, "encrypted": False}
    assert not run(small_settings(methods=("dubhe-paper",), **own)).methods["dubhe-paper"].notes


def test_bytes_count_models_and_selection(results: ComparisonResults) -> None:
    """K models travel each way per round; selection adds to that, and most for Dubhe."""
    settings = small_settings()
    arrays = scenario_of(settings).new_model().state_dict().values()
    least = sum(4 * array.numel() for array in arrays) * 5 * 3
    for method in results.methods.values():
        updates_up = method.bytes_up - method.selection_bytes_up
        updates_down = method.bytes_down - method.selection_bytes_down
        assert least < updates_up < 1.2 * least
        assert updates_up == updates_down
    random, dubhe = results.methods["random"], results.methods["dubhe"]
    assert 0 < random.selection_bytes_up < dubhe.selection_bytes_up
    # Every node sends at least two ciphertexts of 128 bytes.
    assert dubhe.selection_bytes_up > 24 * 2 * 128


def test_the_config_lets_the_run_be_repeated(results: ComparisonResults) -> None:
    """The config holds all settings, and the versions and command line of the run."""
    config = results.config
    assert {"dataset", "methods", "num_clients", "seed", "rho", "emd", "key_bits"} <= set(config)
    assert set(config["versions"]) == {"python", "dubhe_flwr", "flwr", "torch", "numpy", "phe"}
    assert config["device"] == "cpu"
    assert config["command"]
    assert config["date"].endswith("+00:00")


def test_results_hold_no_single_client(results: ComparisonResults, tmp_path: Path) -> None:
    """The file holds no row of label counts and no list over clients."""
    results.save(tmp_path / "results.json")
    lengths = set()

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                visit(item)
        if isinstance(value, list):
            lengths.add(len(value))
            assert not any(isinstance(item, list | dict) for item in value)

    visit(json.loads((tmp_path / "results.json").read_text(encoding="utf-8")))
    # No notes, three rounds, four evaluations, ten classes.
    assert lengths == {0, 3, 4, 10}


def test_the_same_seed_gives_the_same_results(results: ComparisonResults) -> None:
    """Accuracies and selected data repeat to the last bit."""
    assert without_times(run(small_settings())) == without_times(results)


def test_another_seed_gives_other_results(results: ComparisonResults) -> None:
    """The seed reaches data, model and selection of every method."""
    other = without_times(run(small_settings(seed=1)))
    for name, method in without_times(results).items():
        assert other[name].emd != method.emd
        assert other[name].loss[0] != method.loss[0]


def test_fewer_evaluations_change_nothing_else() -> None:
    """Skipped evaluations are None; everything else equals a run that evaluates every round."""
    told: list[float | None] = []
    settings = small_settings(methods=("greedy",), num_rounds=8)
    every = without_times(compare(settings))["greedy"]
    few = replace(settings, evaluate_every=7)
    some = without_times(compare(few, lambda *of: told.append(of[2])))["greedy"]
    evaluated = (0, 4, 5, 6, 7, 8)  # the last five, and every seventh
    series = ("accuracy", "loss", "balanced_accuracy", "worst_recall")
    for found, whole in ((getattr(some, name), getattr(every, name)) for name in series):
        assert found == tuple(
            value if number in evaluated else None for number, value in enumerate(whole)
        )
    assert tuple(told) == some.accuracy
    assert some.final_accuracy == every.final_accuracy
    assert replace(some, **{name: getattr(every, name) for name in series}) == every


def test_clients_are_told_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients get the round number, from which each round's training draws its randomness."""
    told: list[object] = []
    original = TorchClient.fit

    def fit(self: TorchClient, parameters: Any, config: Any) -> Any:
        told.append(config["server-round"])
        return original(self, parameters, config)

    monkeypatch.setattr(TorchClient, "fit", fit)
    run(small_settings(methods=("random",), num_rounds=2))
    assert told == [1] * 5 + [2] * 5


def test_a_client_that_fails_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing client ends the comparison, since all methods must train K clients."""
    original = Scenario.client

    def client(self: Scenario, partition: int) -> Any:
        if partition % 2:
            raise ValueError("no data")
        return original(self, partition)

    monkeypatch.setattr(Scenario, "client", client)
    with pytest.raises(DubheError, match=r"Round 1: \d of 5 clients failed to train"):
        run(small_settings(methods=("random",)))


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_that_ends_early_is_an_error(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app that exits, with any code, or stops early raises `DubheError`."""

    def evaluate(self: RecordedSelection, server_round: int, parameters: Any) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(RecordedSelection, "evaluate", evaluate)
    with pytest.raises(DubheError, match=f"exit code {code};"):
        run(small_settings(methods=("random",)))
    monkeypatch.setattr("dubhe_lab.experiments.compare.simulate", lambda *_, **__: None)
    with pytest.raises(DubheError, match="The run ended after 0 of 3 rounds;"):
        run(small_settings(methods=("random",)))
