"""Records what a selection does, using only its outermost interface, which rarely changes."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from protocol.federation import Federation, Reply, dubhe
from protocol.nodes import set_policy

from dubhe_flwr.errors import DubheError
from dubhe_flwr.protocol import Batch, Fields, NodeFailure, Plan, StageReport
from dubhe_flwr.protocol.coordinator.context import CoordinatorState

Round = list[str]
"""What happened in a round: a line for each exchange, for the plan or error, and for each note."""

WEATHER: Final = {"request lost": 3, "reply lost": 3, "error": 4, "garbage": 2, "stale": 2}
"""Faults that strike any message where there is bad weather, in percent."""


@dataclass(frozen=True)
class Scenario:
    """A short run of a server's settings. Nodes are named by their row, and rounds count from 1."""

    settings: Mapping[str, Any]
    num_nodes: int = 9
    num_rounds: int = 4
    # Options of the policy of some rows.
    nodes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    # If given, all faults are drawn from this text, and nodes and server come, go and restart.
    weather: str = ""
    # In a round, the rows that are not there, and those that may be chosen.
    away: Mapping[int, Collection[int]] = field(default_factory=dict)
    eligible: Mapping[int, Collection[int]] = field(default_factory=dict)


class Told(Federation[CoordinatorState]):
    """The nodes and the server of a scenario, and the faults on the way between them."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario, self.seed, self.server_round = scenario, seed, 0
        rows = range(scenario.num_nodes)
        usual = dubhe([_label_counts(seed, row) for row in rows], seed=seed, **scenario.settings)
        super().__init__(usual.selector, list(usual.policies.values()))
        # Ids are ordered differently from rows, and still short to write.
        first = Random(f"ids {seed}").randrange(1, scenario.num_nodes)
        self.ids = [1000 + (row - first) % scenario.num_nodes for row in rows]
        self.policies = dict(zip(self.ids, self.policies.values(), strict=True))
        for row, options in scenario.nodes.items():
            set_policy(self, self.ids[row], **options)
        self.rows = {node_id: row for row, node_id in enumerate(self.ids)}
        self.last_replies: dict[int, Reply | None] = {}
        self.finding: tuple[float, ...] = ()

    def run(self) -> list[Round]:
        """Play all rounds, or the rounds before an error."""
        played: list[Round] = []
        for server_round in range(1, self.scenario.num_rounds + 1):
            self.server_round = server_round
            self.lines: Round = []
            self.asked: list[str] = []
            self.num_batches = Counter[str]()
            played.append(self.lines)
            try:
                plan = self._planned()
            except DubheError as error:
                self.lines += [*self.asked, f"{type(error).__name__}: {error}"]
                break
            self.lines += self._told(plan)
        return played

    def _planned(self) -> Plan:
        """Play a round, before which nodes may lose their memory and the server may restart."""
        if self.scenario.weather:
            for node_id, row in self.rows.items():
                if self._percent("node", row) < 3:
                    self.memories.pop(node_id, None)
            if self.server_round > 1 and self._percent("server") < 15:
                self.lines.append("the server restarts")
                saved = json.loads(json.dumps(self.selector.state_dict(self.state)))
                self.state = self.selector.load_state_dict(saved)
        present = [self.ids[row] for row in self._present()]
        may = self.scenario.eligible.get(self.server_round)
        eligible = None if may is None else [self.ids[row] for row in may]
        return self.finish(self.begin(self.server_round, present, eligible))

    def deliver(self, batch: Batch) -> dict[int, Reply]:
        """Carry a batch to the nodes, and return the replies that do not get lost."""
        stage = str(batch.header.stage)
        self.num_batches[stage] += 1
        self.asked.append(f"{stage} {_names(self.rows[node_id] for node_id in batch.requests)}")
        return super().deliver(batch)

    def _carry(self, stage: str, node_id: int, request: Fields) -> Reply | None:
        kind = self._fault(str(stage), self.rows[node_id])
        if kind == "request lost":
            return None
        reply = super()._carry(stage, node_id, request)
        last = self.last_replies.get(node_id)
        self.last_replies[node_id] = reply
        if kind is None or (isinstance(reply, NodeFailure) and kind != "reply lost"):
            return reply
        return {
            "reply lost": None, "error": NodeFailure("It failed."), "garbage": {"garbage": b"?"},
            "stale": last or reply,
        }[kind]  # fmt: skip

    def _told(self, plan: Plan) -> Iterator[str]:
        for asked, report in zip(self.asked, plan.stages, strict=True):
            assert asked.startswith(report.stage)
            yield f"{asked}: {_summary(report)}"
        rows = [self.rows[node_id] for node_id in plan.participants]
        yield f"train {_names(rows)}" + (" by chance" if plan.fallback else "")
        if plan.aliases != tuple(map(str, rows)):
            yield f"named {' '.join(plan.aliases)}"
        chosen = "" if plan.chosen is None else plan.chosen
        yield f"{plan.num_registered} registered, [{chosen}] of {plan.num_tries}"
        if plan.finding != self.finding:
            self.finding = plan.finding
            yield "found " + " ".join(map(str, plan.finding))
        yield from plan.notes

    def _present(self) -> list[int]:
        """Return the connected rows; in bad weather some are missing."""
        away = set(self.scenario.away.get(self.server_round, ()))
        rows = range(self.scenario.num_nodes)
        if self.scenario.weather:
            away |= {row for row in rows if self._percent("away", row) < 8}
        return [row for row in rows if row not in away]

    def _fault(self, stage: str, row: int) -> str | None:
        lot = self._percent(stage, row, self.num_batches[stage]) if self.scenario.weather else 100
        for kind, share in WEATHER.items():
            lot -= share
            if lot < 0:
                return kind
        return None

    def _percent(self, *what: object) -> float:
        """Draw from 0 to 100 by what it is for, so that no draw depends on those before it."""
        lot = f"{self.scenario.weather} {what} {self.server_round} {self.seed}"
        return 100 * Random(lot).random()


def _label_counts(seed: int, row: int) -> list[int]:
    """Return counts of four classes, of which one, two or three are frequent."""
    rng = Random(f"labels {seed} {row}")
    counts = [rng.randrange(6) for _ in range(4)]
    for label in rng.sample(range(4), rng.randint(1, 3)):
        counts[label] += 60
    return counts


def _names(rows: Iterable[int]) -> str:
    """Write aliases in order; rows that follow each other as FIRST-LAST."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and row == runs[-1][-1] + 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    return " ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(map(str, run)) for run in runs
    )


def _summary(report: StageReport) -> str:
    dropped = "".join(f", {number} {reason}" for reason, number in report.dropped.items())
    return f"{report.accepted}/{report.sent}{dropped}"
