"""Dubhe for strategies with `configure_train`, on the in-process runtime."""

import logging
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
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
    MultiKrum,
    QFedAvg,
)
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

from dubhe_flwr.baselines import RandomSelector
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.server import Dubhe as FitDubhe
from dubhe_flwr.serverapp import Dubhe, Selection
from dubhe_flwr.serverapp.strategy import _SelectedGrid as SelectedGrid
from dubhe_flwr.simulation import InProcessGrid
from dubhe_flwr.testing import Fault, FaultyGrid


class RecordedDubhe(Recorded, Dubhe):
    """Keeps its plans."""


class RecordedFitDubhe(Recorded, FitDubhe):
    """Keeps its plans."""


class TrainingGrid(InProcessGrid):
    """Notes which partitions get messages of a type, batch by batch."""

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        batch = [
            (
                message.metadata.message_type,
                int(self.contexts[message.metadata.dst_node_id].node_config["partition-id"]),
            )
            for message in messages
        ]
        self.__dict__.setdefault("batches", []).append(batch)
        return super().push_messages(messages)

    def partitions(self, kind: str) -> list[list[int]]:
        """Return the partitions of each batch of messages of that type."""
        return [
            sorted(partition for _, partition in batch)
            for batch in self.__dict__["batches"]
            if batch and batch[0][0] == kind
        ]


def run(strategy: Any, num_rounds: int = 3, **options: Any) -> TrainingGrid:
    """Run a federation and return its grid."""
    grid = TrainingGrid(message_client_app(**options), NUM_NODES)
    grid.server_context = Context(grid.run.run_id, 1, {}, RecordDict(), {})  # type: ignore[attr-defined]
    main_server_app(strategy, num_rounds)(grid, grid.server_context)  # type: ignore[attr-defined]
    return grid


PLAIN: dict[str, Any] = {
    "FedAvg": lambda: FedAvg(fraction_evaluate=0.0),
    "FedAvg, a tenth": lambda: FedAvg(fraction_train=0.1, fraction_evaluate=0.0),
    "FedAvg, too many": lambda: FedAvg(min_train_nodes=50, min_available_nodes=50),
    "FedProx": lambda: FedProx(fraction_evaluate=0.0, proximal_mu=0.1),
    "FedAdam": lambda: FedAdam(fraction_evaluate=0.0),
    "FedAdagrad": lambda: FedAdagrad(fraction_evaluate=0.0),
    "FedYogi": lambda: FedYogi(fraction_evaluate=0.0),
    "FedAvgM": lambda: FedAvgM(fraction_evaluate=0.0, server_momentum=0.9),
    "FedMedian": lambda: FedMedian(fraction_evaluate=0.0),
    "FedTrimmedAvg": lambda: FedTrimmedAvg(fraction_evaluate=0.0),
    "Krum": lambda: Krum(fraction_evaluate=0.0, num_malicious_nodes=1),
    "MultiKrum": lambda: MultiKrum(
        fraction_evaluate=0.0, num_malicious_nodes=1, num_nodes_to_select=3
    ),
    "Bulyan": lambda: Bulyan(fraction_evaluate=0.0, num_malicious_nodes=0),
    "QFedAvg": lambda: QFedAvg(client_learning_rate=0.1, fraction_evaluate=0.0),
}
DP: dict[str, Any] = {
    "server fixed": lambda s: DifferentialPrivacyServerSideFixedClipping(s, 0.1, 1.0, 6),
    "client fixed": lambda s: DifferentialPrivacyClientSideFixedClipping(s, 0.1, 1.0, 6),
    "server adaptive": lambda s: DifferentialPrivacyServerSideAdaptiveClipping(s, 0.1, 6),
    "client adaptive": lambda s: DifferentialPrivacyClientSideAdaptiveClipping(s, 0.1, 6),
}


@pytest.mark.parametrize("name", PLAIN)
def test_any_strategy_trains_exactly_the_determined_nodes(name: str) -> None:
    """Whatever the wrapped strategy asks for, the determined K train in every round."""
    inner = PLAIN[name]()
    inner.fraction_evaluate = 0.0
    strategy = RecordedDubhe(inner, **SELECTION)
    grid = run(strategy)
    assert grid.partitions("train") == [sorted(selected) for selected in strategy.selected]
    assert [len(set(selected)) for selected in strategy.selected] == [6, 6, 6]


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", DP)
def test_privacy_wrappers_work_inside_and_outside(name: str, place: str) -> None:
    """Flower's DP wrappers may be wrapped by Dubhe, and may wrap it."""
    base = FedAvg(fraction_evaluate=0.0)
    if place == "inside":
        outer = inner = RecordedDubhe(DP[name](base), **SELECTION)
    else:
        inner = RecordedDubhe(base, **SELECTION)
        outer = DP[name](inner)
    mods = {"client fixed": (fixedclipping_mod,), "client adaptive": (adaptiveclipping_mod,)}
    grid = run(outer, mods=mods.get(name, ()))
    assert grid.partitions("train") == [sorted(selected) for selected in inner.selected]
    assert len(inner.selected) == 3


def test_both_apis_select_the_same_sets() -> None:
    """Same seed, same label counts: the two strategies agree in every round."""
    by_message = RecordedDubhe(FedAvg(fraction_evaluate=0.0), **SELECTION)
    run(by_message, num_rounds=5)
    from flwr.server.strategy import FedAvg as FitFedAvg

    inner = FitFedAvg(fraction_evaluate=0.0, initial_parameters=initial_parameters())
    by_fit = RecordedFitDubhe(inner, **SELECTION)
    grid = InProcessGrid(numpy_client_app(), NUM_NODES, seed=3)
    strategy_server_app(by_fit, 5)(grid, Context(grid.run.run_id, 1, {}, RecordDict(), {}))
    assert by_message.selected == by_fit.selected


@pytest.mark.parametrize("equal_weights", [True, False])
def test_equal_weights_override_what_nodes_report(equal_weights: bool) -> None:
    """Eq. 1: the plain mean of the models; switched off, the wrapped strategy's own weights."""
    strategy = RecordedDubhe(
        FedAvg(fraction_evaluate=0.0), **SELECTION, equal_weights=equal_weights
    )
    grid = run(strategy, num_rounds=1)
    partitions = np.array(strategy.selected[0])
    weights = np.ones(6) if equal_weights else 10 + partitions
    arrays = grid.server_context.state["arrays"].to_numpy_ndarrays()  # type: ignore[attr-defined]
    np.testing.assert_allclose(arrays[0], 1 + np.average(partitions, weights=weights))


def test_settings_of_the_wrapped_strategy_are_put_back() -> None:
    """Overrides last for one call, so that evaluation follows the user's own settings."""
    inner = FedAvg(fraction_train=0.1, min_train_nodes=9, min_available_nodes=11)
    strategy = RecordedDubhe(inner, **SELECTION)
    grid = run(strategy, num_rounds=1)
    assert (inner.fraction_train, inner.min_train_nodes, inner.min_available_nodes) == (0.1, 9, 11)
    assert grid.partitions("evaluate") == [list(range(NUM_NODES))]


def test_override_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A fraction below 1 is overridden with one line, not one a round."""
    with caplog.at_level(logging.INFO, logger="flwr"):
        run(RecordedDubhe(FedAvg(fraction_train=0.1, fraction_evaluate=0.0), **SELECTION))
    assert sum("overridden" in record.message for record in caplog.records) == 1


def test_evaluation_on_the_selected_nodes() -> None:
    """By choice the wrapped strategy evaluates on the nodes that trained."""
    strategy = RecordedDubhe(FedAvg(), **SELECTION, evaluate_on="selected")
    grid = run(strategy, num_rounds=2)
    assert grid.partitions("evaluate") == [sorted(selected) for selected in strategy.selected]


def test_no_evaluation_where_the_strategy_has_none() -> None:
    """A fraction_evaluate of 0 stays 0 on the selected nodes too."""
    strategy = RecordedDubhe(FedAvg(fraction_evaluate=0.0), **SELECTION, evaluate_on="selected")
    assert run(strategy, num_rounds=1).partitions("evaluate") == []


def test_training_message_names_the_epoch() -> None:
    """Each training message says to which epoch it belongs."""
    strategy = Dubhe(FedAvg(), **SELECTION)
    from flwr.app import ArrayRecord, ConfigRecord

    grid = InProcessGrid(message_client_app(), NUM_NODES)
    messages = list(strategy.configure_train(1, ArrayRecord([]), ConfigRecord({"lr": 0.1}), grid))
    assert strategy.plan is not None
    configs = [message.content.config_records["config"] for message in messages]
    assert {config["dubhe-epoch"] for config in configs} == {strategy.plan.epoch.hex()}
    assert {config["lr"] for config in configs} == {0.1}


def test_a_round_without_an_epoch_names_none() -> None:
    """Flower passes the same config on from round to round; the last epoch does not stay in it."""
    from flwr.app import ArrayRecord, ConfigRecord

    strategy = Dubhe(FedAvg(), **SELECTION, registration_interval=1, on_failure="random")
    grid = InProcessGrid(message_client_app(), NUM_NODES)
    silent = FaultyGrid(grid, [Fault("drop_request", "join")])
    config = ConfigRecord({"lr": 0.1})
    for server_round, of_round in ((1, grid), (2, silent)):
        list(strategy.configure_train(server_round, ArrayRecord([]), config, of_round))
    assert strategy.plan is not None
    assert strategy.plan.fallback
    assert "dubhe-epoch" not in config


def test_a_strategy_that_trains_one_by_one_is_refused() -> None:
    """FedXgbCyclic has no round to balance; the refusal names a way out."""
    with pytest.raises(SettingsError, match="FedXgbBagging"):
        Dubhe(FedXgbCyclic(), **SELECTION)


def test_accounting_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """With DP accounting switched on, one warning says that its sampling assumption fails."""
    strategy = DP["server fixed"](FedAvg())
    with caplog.at_level(logging.WARNING, logger="flwr"):
        Dubhe(strategy, **SELECTION)
        assert not caplog.records
        strategy.accountant = object()
        Dubhe(strategy, **SELECTION)
    assert sum("epsilon" in record.message for record in caplog.records) == 1


def test_summary_and_the_rest_are_delegated(caplog: pytest.LogCaptureFixture) -> None:
    """The summary names the selection and then the wrapped strategy's own settings."""
    strategy = Dubhe(FedAvg(fraction_train=0.3), **SELECTION)
    with caplog.at_level(logging.INFO, logger="flwr"):
        strategy.summary()
    assert caplog.messages[:6] == [
        "\t├──> Dubhe around FedAvg:",
        "\t│\t├── Participants (K): 6 | equal weights: True | evaluation on: all",
        "\t│\t├── Rule: paper: reference set (G) (1, 2, 4), thresholds {1: 0.7, 2: 0.2}",
        "\t│\t├── Determination: auto | tries (H): 4",
        "\t│\t├── Registration every 50 rounds | rounds in a draw: 1",
        "\t│\t└── Key: 512 bits | smallest cohort: 3",
    ]
    assert "0.30" in caplog.text
    assert strategy.fraction_train == 0.3


def test_the_summary_names_all_wrapped_strategies(caplog: pytest.LogCaptureFixture) -> None:
    """From the outside in, also where something else than Dubhe selects."""
    strategy = Selection(DP["server fixed"](FedAvg()), RandomSelector(6, seed=0))
    with caplog.at_level(logging.INFO, logger="flwr"):
        strategy.summary()
    first, second, *_ = caplog.messages
    assert first.endswith(
        "Selection around DifferentialPrivacyServerSideFixedClipping around FedAvg:"
    )
    assert "└── Participants (K): 6" in second


def test_steps_per_round() -> None:
    """Two exchanges a round beyond FedAvg's; drawn for ten rounds at once, at most 0.3."""

    def steps(num_rounds: int, **options: Any) -> float:
        strategy = RecordedDubhe(FedAvg(fraction_evaluate=0.0), **{**SELECTION, **options})
        grid = run(strategy, num_rounds=num_rounds)
        batches = [batch for batch in grid.__dict__["batches"] if batch]
        return len(batches) - num_rounds

    assert steps(11) - steps(10) == 2
    assert steps(50, tries=3, rounds_per_draw=10, registration_interval=50) / 50 <= 0.3


def test_drawing_ahead_selects_the_same_sets() -> None:
    """Drawing ten rounds at once gives the sets that ten draws would have given."""
    chosen = []
    for rounds_per_draw in (1, 10):
        strategy = RecordedDubhe(
            FedAvg(fraction_evaluate=0.0), **SELECTION, rounds_per_draw=rounds_per_draw
        )
        run(strategy, num_rounds=12)
        chosen.append(strategy.selected)
    assert chosen[0] == chosen[1]


def test_vanished_nodes_are_replaced_without_a_message() -> None:
    """A node that was determined ahead and then left is replaced from those that are there."""

    class Leaving(RecordedDubhe):
        def eligible(self, server_round: int, node_ids: Any) -> Any:
            gone = set(self.plans[0].participants[:2]) if server_round > 1 else set()
            return [node_id for node_id in node_ids if node_id not in gone]

    strategy = Leaving(FedAvg(fraction_evaluate=0.0), **SELECTION, rounds_per_draw=10)
    run(strategy, num_rounds=8)
    gone = set(strategy.plans[0].participants[:2])
    for plan in strategy.plans[1:]:
        assert len(set(plan.participants)) == 6
        assert not gone & set(plan.participants)
        assert plan.stages == ()


def test_a_node_may_always_say_no() -> None:
    """A node that is not willing in a round is never selected in it."""

    def willing(context: Any, server_round: int) -> bool:
        partition = int(context.node_config["partition-id"])
        return (partition != 5 and (partition + server_round) % 2 == 0) or server_round == 0

    strategy = RecordedDubhe(FedAvg(fraction_evaluate=0.0), **SELECTION)
    run(strategy, num_rounds=6, willing=willing)
    for server_round, selected in enumerate(strategy.selected, start=1):
        assert all((p + server_round) % 2 == 0 and p != 5 for p in selected)


def test_selected_grid_passes_everything_on() -> None:
    """The view shows the selected nodes and carries messages of the grid behind it."""
    grid = InProcessGrid(message_client_app(), NUM_NODES)
    first = next(iter(grid.get_node_ids()))
    view: Grid = SelectedGrid(grid, [first])
    assert list(view.get_node_ids()) == [first]
    assert view.run is grid.run
    view.set_run(grid.run)
    from flwr.app import ArrayRecord, ConfigRecord, Message

    content = RecordDict({"arrays": ArrayRecord([np.zeros(1)]), "config": ConfigRecord({})})
    message = Message(content, dst_node_id=first, message_type="train")
    assert len(list(view.send_and_receive([message]))) == 1
    ids = list(view.push_messages([view.create_message(content, "train", first, "1")]))
    assert len(list(view.pull_messages(ids))) == 1


def test_waiting_for_nodes_ends(caplog: pytest.LogCaptureFixture) -> None:
    """The server goes on with the nodes that came, and says so."""
    strategy = Dubhe(
        FedAvg(fraction_evaluate=0.0), **SELECTION, expected_nodes=NUM_NODES + 1, wait_timeout=0.1
    )
    with caplog.at_level(logging.WARNING, logger="flwr"):
        run(strategy, num_rounds=1)
    assert "24 of 25 expected nodes" in caplog.text
