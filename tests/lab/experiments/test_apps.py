"""A recorded selection reports figures for the clients it chose."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.common import Code, FitRes, Parameters, Status
from flwr.server.strategy import FedAvg
from small_comparison import run, small_settings

from dubhe_flwr.errors import DubheError
from dubhe_flwr.protocol import Plan, StageReport
from dubhe_lab.baselines import OortSelector, RandomSelector
from dubhe_lab.baselines.roll_call import Past, Report
from dubhe_lab.data import Federation
from dubhe_lab.experiments.apps import RecordedSelection
from dubhe_lab.experiments.findings import federation_summary
from dubhe_lab.report.methods import SEEING_LOSSES
from dubhe_lab.training.client import TorchClient

FEDERATION = Federation("letters", np.array([[4, 0], [0, 4], [2, 2], [3, 1]]))
MODEL = Parameters([b"12345", b"678"], "numpy.ndarray")


class Averaging(FedAvg):
    """Evaluates the model on the server."""

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        return MODEL, {}

    def evaluate(self, server_round: int, parameters: Any) -> Any:
        return 2.0 - server_round, {"accuracy": server_round / 10}


def updated() -> Any:
    """Return a client's training result."""

    class Proxy:
        cid = "71"

    return Proxy(), FitRes(Status(Code.OK, ""), MODEL, 4, {})


def test_the_summary_describes_the_drawn_federation() -> None:
    """The summary describes the drawn data: nine of sixteen samples are of the first class."""
    summary = federation_summary(FEDERATION)
    assert (summary.num_clients, summary.num_classes, summary.num_samples) == (4, 2, 4)
    assert summary.class_proportions == (9 / 16, 7 / 16)
    assert summary.rho == pytest.approx(9 / 7)
    assert summary.name.startswith("letters-1.3/")


def test_a_result_records_all_rounds() -> None:
    """Skews, evaluations, bytes, seconds and notes of two rounds match figures computed by hand."""
    told: list[tuple[int, float | None]] = []
    recorded = RecordedSelection(
        Averaging(),
        RandomSelector(2, seed=0),
        expected_nodes=4,
        on_round=lambda *round_and_accuracy: told.append(round_and_accuracy),
    )
    report = StageReport("participate", 4, 3, {"no reply": [4]}, bytes_down=100, bytes_up=30)
    plans = [
        Plan(1, (71, 72), ("0", "3"), stages=(report, report)),
        Plan(
            2, (72, 73), ("3", "1"), notes=("Something happened.",), stages=(report,), fallback=True
        ),
    ]
    recorded.evaluate(0, MODEL)
    for plan in plans:
        recorded.driver.options.on_selection(plan, 0.5)  # type: ignore[misc]
        recorded.aggregate_fit(plan.server_round, [updated(), updated()], [])
        recorded.evaluate(plan.server_round, MODEL)
    result = recorded.result(FEDERATION, 2)
    # p_o is (7/8, 1/8) in round 1 and (3/8, 5/8) in round 2.
    assert result.num_rounds == 2
    assert result.emd == pytest.approx((0.75, 0.25))
    assert result.local_emd == pytest.approx((0.25, 0.75))
    assert result.mean_emd == pytest.approx(0.5)
    assert result.coverage == 0.75
    assert result.class_proportions.mean == pytest.approx((0.625, 0.375))
    assert result.class_proportions.sd == pytest.approx((0.25, 0.25))
    # Round 0 is the initial model.
    assert result.loss == (2.0, 1.0, 0.0)
    assert result.accuracy == (0.0, 0.1, 0.2)
    assert told == [(0, 0.0), (1, 0.1), (2, 0.2)]
    # Two clients exchange a model of 8 bytes in each round.
    assert result.selection_seconds == 1.0
    assert (result.selection_bytes_up, result.selection_bytes_down) == (90, 300)
    assert (result.bytes_up, result.bytes_down) == (90 + 2 * 2 * 8, 300)
    dropped = "Replies dropped at participate: 1 (no reply)."
    assert result.notes == (
        *[f"Round 1: {dropped}"] * 2, "Round 2: Something happened.", f"Round 2: {dropped}",
    )  # fmt: skip
    assert result.fallback_rounds == (2,)


@pytest.fixture(scope="module")
def of_losses() -> dict[str, Any]:
    """Run the loss-based methods in a small federation; return results and evaluating clients."""
    asked: dict[str, list[tuple[str, Any]]] = {}
    original = {name: getattr(TorchClient, name) for name in ("fit", "evaluate")}
    results = {}
    with pytest.MonkeyPatch.context() as patch:
        for method in SEEING_LOSSES:
            calls = asked.setdefault(method, [])

            def note(name: str, calls: Any) -> Any:
                def called(client: TorchClient, parameters: Any, config: Any) -> Any:
                    answer = original[name](client, parameters, config)
                    calls.append((name, client.alias, answer))
                    return answer

                return called

            for name in original:
                patch.setattr(TorchClient, name, note(name, calls))
            settings = small_settings(methods=(method,), evaluate_every=3)
            results[method] = run(settings).methods[method]
    return {"asked": asked, "results": results}


def test_evaluations_are_run_and_counted(of_losses: dict[str, Any]) -> None:
    """Power-of-Choice asks 2 K = 10 clients in each of 3 rounds, AFL all 24 once, Oort none."""
    for method, number in (("powd", 30), ("afl", 24), ("oort", 0)):
        result = of_losses["results"][method]
        calls = [call[0] for call in of_losses["asked"][method]]
        assert result.evaluations == calls.count("evaluate") == number
        assert result.messages == 24 + number  # the roll call
        assert calls.count("fit") == 15
        # A model of 4810 numbers of 4 bytes each travels to every client that evaluates it.
        model = (result.bytes_down - result.selection_bytes_down) / 15
        assert result.selection_bytes_down == pytest.approx(number * model, abs=24 * 200)
        assert 4 * 4810 <= model < 4 * 4810 + 1000
        assert result.notes == ()


def test_the_candidates_with_the_highest_losses_train(of_losses: dict[str, Any]) -> None:
    """The five participants of a round are the candidates with the highest of its ten losses."""
    calls = of_losses["asked"]["powd"]
    for start in range(0, 45, 15):
        told, trained = calls[start : start + 10], calls[start + 10 : start + 15]
        assert {name for name, *_ in told} == {"evaluate"}
        by_loss = sorted(told, key=lambda call: call[2][0])
        assert {call[1] for call in trained} == {call[1] for call in by_loss[-5:]}


def test_training_losses_reach_the_selector() -> None:
    """The selector gets the losses that each trained client reported."""
    selector = OortSelector(2, seed=0)
    recorded = RecordedSelection(
        Averaging(), selector, expected_nodes=4, on_round=lambda *_round_and_accuracy: None
    )
    state = selector.initial_state()
    recorded.driver.run.state = replace(state, aliases={71: "0", 72: "3"}, past=Past(1))
    client, result = updated()
    client.node_id = 72
    result.metrics |= {"loss": 0.5, "rms-loss": 0.75}
    recorded.aggregate_fit(1, [(client, result)], [])
    assert recorded.driver.run.state.past.reports == {"3": Report(1, 0.5, 0.75)}


def test_a_client_that_fails_to_evaluate_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how many clients failed to evaluate."""

    def fail(*_: object) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr(TorchClient, "evaluate", fail)
    with pytest.raises(DubheError, match="10 of 10 clients failed to evaluate the model"):
        run(small_settings(methods=("powd",)))
