"""Tests of the selection metrics in Flower's results and of the `on_selection` callback."""

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from apis import MODEL, SELECTION, TRAIN
from flwr.app import ArrayRecord, ConfigRecord

from dubhe_flwr.core.distribution import distance_to_uniform, global_distribution
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.simulation import known_labels


def run(num_rounds: int, on_selection: Any) -> tuple[Any, Any]:
    """Train nine nodes; return the strategy, and the metrics of its rounds."""
    strategy = TRAIN.dubhe(num_participants=3, simulation="plain", on_selection=on_selection)
    result = strategy.start(TRAIN.grid(num_nodes=9), ArrayRecord(MODEL), num_rounds=num_rounds)
    return strategy, result.train_metrics_clientapp


def test_selection_metrics_join_those_the_app_reports() -> None:
    """The result has the app's and the selection's metrics; coverage rises; the callback agrees."""
    seen: list[tuple[Plan, float]] = []
    strategy, metrics = run(4, lambda plan, seconds: seen.append((plan, seconds)))
    assert [plan.server_round for plan, _ in seen] == list(metrics) == [1, 2, 3, 4]
    covered = set()
    for (plan, seconds), told in zip(seen, metrics.values(), strict=True):
        covered |= set(plan.aliases)
        assert told["train_loss"] == 1.0
        assert told["selection-clients"] == 3
        assert told["selection-coverage"] == len(covered) / 9
        assert told["selection-seconds"] == seconds
        assert told["selection-bytes"] == plan.bytes_up + plan.bytes_down
    second = strategy.start(TRAIN.grid(num_nodes=9), ArrayRecord(MODEL), num_rounds=1)
    assert second.train_metrics_clientapp[1]["selection-coverage"] == 3 / 9


def test_a_round_that_was_not_selected_has_no_metrics_of_an_earlier_one() -> None:
    """An app may train all nodes in some rounds; their metrics would describe another round."""

    class WarmUp(TRAIN.ours.Dubhe):  # type: ignore[misc, name-defined]
        def configure_train(self, server_round: int, *given: Any) -> Any:
            if server_round == all_nodes_in:
                return self.strategy.configure_train(server_round, *given)
            return super().configure_train(server_round, *given)

    strategy = WarmUp(TRAIN.wrapped(), num_participants=3, simulation="plain")
    for all_nodes_in in (2, 1):  # the second run begins without a selection
        result = strategy.start(TRAIN.grid(num_nodes=9), ArrayRecord(MODEL), num_rounds=3)
        told = result.train_metrics_clientapp
        names = {name for name in told[all_nodes_in] if name.startswith("selection-")}
        assert names == {"selection-clients"}
        assert told[all_nodes_in]["selection-clients"] == 9
        assert told[3]["selection-clients"] == 3
    assert told[2]["selection-coverage"] == 3 / 9


def test_rounds_may_overlap(caplog: pytest.LogCaptureFixture) -> None:
    """An app's own loop may select rounds ahead, and aggregate a later one first."""
    seen: list[Plan] = []
    options = {"simulation": "plain", "on_selection": lambda plan, _: seen.append(plan)}
    strategy, grid = TRAIN.dubhe(num_participants=3, **options), TRAIN.grid(num_nodes=9)
    sent = []
    for server_round in (1, 2, 3):
        messages = strategy.configure_train(server_round, ArrayRecord(MODEL), ConfigRecord(), grid)
        sent.append(list(grid.send_and_receive(messages)))
    for plan, replies in zip(reversed(seen), reversed(sent), strict=True):
        for reply in replies:
            _, metrics = strategy.aggregate_train(plan.server_round, [reply])
            assert metrics["selection-bytes"] == plan.bytes_up + plan.bytes_down
            assert metrics["selection-clients"] == 1
    assert "NOT selected" not in caplog.text


def test_known_labels_measures_the_distances() -> None:
    """The metrics have the distance of the selected data and of random selections."""
    counts = np.array([np.roll([9, 2, 1], client) for client in range(9)])
    strategy, metrics = run(1, known_labels(counts))
    chosen = counts[[int(alias) for alias in strategy.plan.aliases]]
    assert metrics[1]["selection-distance"] == distance_to_uniform(global_distribution(chosen))
    every = [
        distance_to_uniform(global_distribution(counts[list(clients)]))
        for clients in combinations(range(9), 3)
    ]
    assert metrics[1]["random-distance"] == pytest.approx(np.mean(every), abs=0.15)
    tell, plan = known_labels(counts), Plan(1, (0, 1, 2), ("0", "1", "2"))
    assert tell(plan, 0.1) == tell(plan, 0.1)  # so a resumed run repeats it


def test_an_unfit_table_of_label_counts_is_refused() -> None:
    """The error says what is wrong with the table; a random round may have unknown aliases."""
    for unfit in ([9, 2, 1], [[9, 2, 1], [3, 4]], [["nine"]], None):
        with pytest.raises(SettingsError, match=r"must be a table of numbers.* count_labels"):
            known_labels(unfit)  # type: ignore[arg-type]
    tell = known_labels([[9, 2], [2, 9]])
    with pytest.raises(SettingsError, match="2 rows, and none for client '3'"):
        tell(Plan(1, (5,), ("3",)), 0.1)
    assert tell(Plan(1, (5,), ("3",), fallback=True), 0.1) == {}


def test_on_selection_may_be_a_method() -> None:
    """A subclass that defines it need not pass it on."""

    class Own(TRAIN.ours.Dubhe):  # type: ignore[misc, name-defined]
        def on_selection(self, plan: Plan, _seconds: float) -> dict[str, float]:
            return {"own": plan.server_round}

    strategy = Own(TRAIN.wrapped(), **SELECTION)
    strategy.select(1, TRAIN.grid())
    assert strategy.driver.metrics["own"] == 1
    with pytest.raises(SettingsError, match="Own has a method on_selection; leave out the option"):
        Own(TRAIN.wrapped(), **SELECTION, on_selection=strategy.on_selection)


def test_on_selection_must_be_a_function_that_returns_numbers() -> None:
    """Names, and numpy's numbers and bools, are converted for Flower.

    The errors show an example of such a function, and what another one returned.
    """
    _, metrics = run(1, lambda plan, _: {"by-chance": plan.fallback, 7: np.float32(0.5)})
    assert (metrics[1]["by-chance"], metrics[1]["7"]) == (0.0, 0.5)
    for answer in ({"own": "much"}, 3):
        with pytest.raises(SettingsError, match=re.escape(f"on_selection returned {answer!r}; it")):
            run(1, lambda _plan, _seconds, answer=answer: answer)
    for given in ("print", lambda _plan: None):
        with pytest.raises(SettingsError, match="on_selection must be a function of a Plan"):
            TRAIN.ours.Dubhe(TRAIN.wrapped(), num_participants=3, on_selection=given)
