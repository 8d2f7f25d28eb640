"""Tests of loss-based selectors, whose request for losses comes between roll call and plan."""

from collections.abc import Sequence
from math import nan
from typing import Any

import pytest
from protocol.federation import Federation, node_policies

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_lab.baselines import ActiveSelector, OortSelector, PowerOfChoiceSelector
from dubhe_lab.baselines.roll_call import Report

NUM_CLIENTS = 12
SELECTORS: list[Any] = [
    lambda: PowerOfChoiceSelector(3, seed=7),
    lambda: ActiveSelector(3, num_samples=16, seed=7),
    lambda: OortSelector(3, seed=7),
]


class Nodes(Federation[Any]):
    """A server and twelve nodes whose loss is their alias."""

    selector: Any

    def __init__(
        self,
        selector: Any,
        seed: int = 0,
        *,
        silent: tuple[str, ...] = (),
        diverged: tuple[str, ...] = (),
    ) -> None:
        super().__init__(selector, node_policies([[1, 1]] * NUM_CLIENTS), seed)
        self.alias_of = {node: str(row) for row, node in enumerate(self.ids)}
        self.silent, self.diverged = silent, diverged
        self.asked: list[list[str]] = []
        selector.ask = self.losses

    def losses(self, node_ids: Sequence[int]) -> dict[int, float]:
        """Return the losses of the nodes that answer, or that the model has not diverged for."""
        aliases = {node: self.alias_of[node] for node in node_ids}
        self.asked[-1] += sorted(aliases.values(), key=int)
        answers = {node: float(of) for node, of in aliases.items() if of not in self.silent}
        return answers | {node: nan for node, of in aliases.items() if of in self.diverged}

    def train(self, server_round: int) -> Plan:
        """Run a round; each client reports its row number as its training loss."""
        self.asked.append([])
        plan = self.play(server_round)
        losses = {node: float(self.alias_of[node]) for node in plan.participants}
        told = {node: Report(server_round, loss, loss) for node, loss in losses.items()}
        self.state = self.selector.take_reports(self.state, told)
        return plan


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_run_repeats_by_alias_whatever_the_node_ids(selector: Any) -> None:
    """Candidates and choices depend on the seed and the losses, not on random ids."""
    runs = []
    for seed in (0, 1):
        nodes = Nodes(selector(), seed)
        runs.append(([nodes.train(number).aliases for number in range(1, 9)], nodes.asked))
    assert runs[0] == runs[1]
    assert all(len(set(aliases)) == 3 for aliases in runs[0][0])


@pytest.mark.parametrize(
    ("selector", "asked"),
    list(zip(SELECTORS, [[6, 6, 6, 6], [12, 0, 0, 0], [0, 0, 0, 0]], strict=True)),
)
def test_the_method_decides_how_many_clients_evaluate(selector: Any, asked: list[int]) -> None:
    """Power-of-Choice asks 2 K clients each round, AFL all in the first round, Oort none."""
    nodes = Nodes(selector())
    for server_round in range(1, 5):
        plan = nodes.train(server_round)
        sent = {report.stage: report.sent for report in plan.stages}
        assert sent.get("evaluate", 0) == asked[server_round - 1] == len(nodes.asked[-1])
        assert ("hello" in sent) == (server_round == 1)


@pytest.mark.parametrize("reason", ["silent", "diverged"])
def test_clients_without_a_loss_are_dropped_and_counted(reason: Any) -> None:
    """Only clients that answered are chosen; if fewer than K did, random ones fill the round."""
    silent = tuple(map(str, range(6, 12)))
    without: dict[str, Any] = {reason: silent}
    nodes = Nodes(PowerOfChoiceSelector(3, seed=7), **without)
    for server_round in range(1, 9):
        plan = nodes.train(server_round)
        answering = [alias for alias in nodes.asked[-1] if alias not in silent]
        report = plan.stages[-1]
        assert (report.sent, report.accepted) == (6, len(answering))
        assert sum(report.dropped.values()) == 6 - len(answering)
        assert len(plan.participants) == 3
        best = sorted(answering, key=int)[-3:]
        assert set(best) <= set(plan.aliases)


def test_without_a_choice_nobody_evaluates() -> None:
    """With no more than K clients, all of them train and none evaluates."""
    nodes = Nodes(PowerOfChoiceSelector(12, seed=7))
    assert len(nodes.train(1).participants) == 12
    assert nodes.asked == [[]]


def test_a_selector_without_a_model_is_refused() -> None:
    """Without `ask`, a loss-based selector raises an error that says what to set."""
    nodes = Nodes(PowerOfChoiceSelector(3, seed=7))
    nodes.selector.ask = PowerOfChoiceSelector(3).ask
    with pytest.raises(SettingsError, match="set the selector's `ask` before the first round"):
        nodes.train(1)
