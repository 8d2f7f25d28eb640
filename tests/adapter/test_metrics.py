"""Each selection can be seen in Flower's own results, and by a function of the app's."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.core.distribution import distance_to_uniform, global_distribution
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.serverapp import Dubhe
from dubhe_flwr.simulation import known_labels, run_in_process

client_app = ClientApp()
register_dubhe(
    client_app,
    lambda context: np.roll([9, 2, 1], int(context.node_config["partition-id"])),
    simulated=True,
)


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Return the model as it came."""
    content: dict[str, Any] = {"arrays": message.content["arrays"]}
    content["metrics"] = MetricRecord({"num-examples": 12, "loss": 0.5})
    return Message(RecordDict(content), reply_to=message)


def run(num_rounds: int, on_selection: Any) -> tuple[Dubhe, Any]:
    """Train nine nodes; return the strategy, and the metrics of its rounds."""
    strategy = Dubhe(
        FedAvg(fraction_evaluate=0.0),
        num_participants=3,
        seed=0,
        simulation="plain",
        on_selection=on_selection,
    )
    server_app, results = ServerApp(), []

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        results.append(strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=num_rounds))

    run_in_process(server_app, client_app, num_supernodes=9)
    return strategy, results[0].train_metrics_clientapp


def test_a_result_has_them_beside_those_of_the_app() -> None:
    """Coverage rises, and the callback saw the same."""
    seen: list[tuple[Plan, float]] = []
    _, metrics = run(4, lambda plan, seconds: seen.append((plan, seconds)))
    assert [plan.server_round for plan, _ in seen] == list(metrics) == [1, 2, 3, 4]
    covered = set()
    for (plan, seconds), told in zip(seen, metrics.values(), strict=True):
        covered |= set(plan.aliases)
        assert told["loss"] == 0.5
        assert told["selection-clients"] == 3
        assert told["selection-coverage"] == len(covered) / 9
        assert told["selection-seconds"] == seconds
        assert told["selection-bytes"] == plan.bytes_up + plan.bytes_down


def test_a_simulation_has_the_distances() -> None:
    """Of the data that was selected, and of as many clients at random."""
    counts = np.array([np.roll([9, 2, 1], client) for client in range(9)])
    strategy, metrics = run(1, known_labels(counts))
    chosen = counts[[int(alias) for alias in strategy.plan.aliases]]  # type: ignore[union-attr]
    assert metrics[1]["selection-distance"] == distance_to_uniform(global_distribution(chosen))
    every = [
        distance_to_uniform(global_distribution(counts[list(clients)]))
        for clients in combinations(range(9), 3)
    ]
    assert metrics[1]["random-distance"] == pytest.approx(np.mean(every), abs=0.15)
    tell, plan = known_labels(counts), Plan(1, (0, 1, 2), ("0", "1", "2"))
    assert tell(plan, 0.1) == tell(plan, 0.1)  # also where a resumed run repeats a round


def test_a_round_by_chance_has_no_distances() -> None:
    """Its nodes may have told no alias, and nobody may be there at all."""
    tell = known_labels([[9, 2, 1]] * 4)
    for aliases in ((), ("7023958471",)):
        assert tell(Plan(1, tuple(range(len(aliases))), aliases, fallback=True), 0.1) == {}


def test_labels_that_are_not_those_of_the_clients_are_refused() -> None:
    """A sentence says what is wrong with the table."""
    with pytest.raises(SettingsError, match="must be a table"):
        known_labels([9, 2, 1])
    with pytest.raises(SettingsError, match="2 rows, and none for client '3'"):
        known_labels([[9, 2], [2, 9]])(Plan(1, (5,), ("3",)), 0.1)


def test_what_is_no_function_is_refused() -> None:
    """With an example of one."""
    for given in ("print", lambda _plan: None):
        with pytest.raises(SettingsError, match="on_selection must be a function of a Plan"):
            Dubhe(FedAvg(), num_participants=3, on_selection=given)  # type: ignore[arg-type]


def test_what_it_returns_is_numbers() -> None:
    """Those of numpy and a bool as well, which Flower takes none of; else nobody trains for it."""
    _, metrics = run(1, lambda plan, _: {"by-chance": plan.fallback, "own": np.float32(0.5)})
    assert (metrics[1]["by-chance"], metrics[1]["own"]) == (0.0, 0.5)
    with pytest.raises(SettingsError, match="on_selection returned own='much'; let its values be"):
        run(1, lambda _plan, _seconds: {"own": "much"})
