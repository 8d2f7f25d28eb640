"""A federation that writes down what a selection does, by its outermost interface only.

The traces have to outlive any change inside the protocol. So nothing here reads a field of the
server's state, of a message or of a node's memory, and settings are made in one place.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from random import Random
from typing import Any, Final

from protocol.federation import Federation, Reply

from dubhe_flwr.errors import DubheError
from dubhe_flwr.protocol import (
    Batch,
    Coordinator,
    CoordinatorState,
    Fields,
    NodeFailure,
    NodePolicy,
    Plan,
    Settings,
    StageReport,
)
from dubhe_flwr.rules import Paper

Round = list[str]
"""What happened in a round: a line for each exchange, for the plan or error, and for each note."""

WEATHER: Final = {"request lost": 3, "reply lost": 3, "error": 4, "garbage": 2, "stale": 2}
"""Faults that strike any message where there is bad weather, in percent."""


def coordinator(seed: int, **options: Any) -> Coordinator:
    """Return the server's part; the one place where settings are made."""
    rule = Paper(options.pop("reference_set"), options.pop("thresholds"))
    fixed: dict[str, Any] = {"key_bits": 512, "seed": seed, "simulation": "encrypted"}
    return Coordinator(Settings(rule=rule, **fixed | {"max_registered": 100} | options))


def node_policy(alias: str, label_counts: Callable[[], list[int]], **options: Any) -> NodePolicy:
    """Return a node's part; the one place where policies are made."""
    fixed: dict[str, Any] = {"min_key_bits": 512, "simulated": True}
    return NodePolicy(alias=alias, label_counts=label_counts, **fixed | options)


@dataclass(frozen=True)
class Fault:
    """What happens to messages of a stage.

    Parameters
    ----------
    kind : str
        "request lost", "reply lost", "error", "garbage", "stale" (the node's last reply comes once
        more), "another's" (the reply of the node before it), or "spoilt NAME" for a field.
    stage : str
        The stage.
    rounds, rows : collection of int, optional (default: all)
        When, and to whom.
    batches : collection of int, optional (default: all)
        Which batches of that stage are struck in a round, from 1.
    """

    kind: str
    stage: str
    rounds: Collection[int] | None = None
    rows: Collection[int] | None = None
    batches: Collection[int] | None = None

    def strikes(self, stage: str, server_round: int, row: int, batch: int) -> bool:
        """Tell whether a message is struck, in that batch of its stage and round."""
        places = (server_round, self.rounds), (row, self.rows), (batch, self.batches)
        return stage == self.stage and all(all_ is None or at in all_ for at, all_ in places)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A short run. Nodes are named by their row, and rounds count from 1.

    Parameters
    ----------
    settings : mapping
        Of the server.
    num_nodes, num_rounds : int
        How many there are.
    alias : callable (int) -> str (default: the number)
        The name of a row.
    nodes : mapping of int to mapping (default: none)
        Options of the policy of some rows; "counts" is called with the round and the label counts.
    faults : tuple of Fault (default: none)
        What happens to messages.
    weather : str (default: none)
        If given, messages are struck, nodes come and go, and nodes and server restart, all drawn
        from this text.
    away, eligible, restarts : mapping of int to collection of int (default: none)
        In a round, the rows that are not there, may be chosen, and begin with no memory.
    resumed : mapping of int to bool (default: none)
        The rounds before which the server restarts, with what it is told of an interruption.
    crashes : mapping of int to str (default: none)
        The rounds in which the server restarts while it waits for replies at that stage.
    """

    settings: Mapping[str, Any]
    num_nodes: int = 9
    num_rounds: int = 4
    alias: Callable[[int], str] = str
    nodes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    weather: str = ""
    away: Mapping[int, Collection[int]] = field(default_factory=dict)
    eligible: Mapping[int, Collection[int]] = field(default_factory=dict)
    restarts: Mapping[int, Collection[int]] = field(default_factory=dict)
    resumed: Mapping[int, bool] = field(default_factory=dict)
    crashes: Mapping[int, str] = field(default_factory=dict)


class Told(Federation[CoordinatorState]):
    """The nodes and the server of a scenario, whose network does what its faults say."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario, self.seed, self.server_round = scenario, seed, 0
        rows = range(scenario.num_nodes)
        super().__init__(coordinator(seed, **scenario.settings), list(map(self._policy, rows)))
        # The order of the ids is not that of the rows, and still short to write.
        first = Random(f"ids {seed}").randrange(1, scenario.num_nodes)
        self.ids = [1000 + (row - first) % scenario.num_nodes for row in rows]
        self.policies = dict(zip(self.ids, self.policies.values(), strict=True))
        self.rows = {node_id: row for row, node_id in enumerate(self.ids)}
        self.last_replies: dict[int, Reply | None] = {}
        self.finding: tuple[float, ...] = ()

    def run(self) -> list[Round]:
        """Play all rounds, or as many as there are before an error."""
        played: list[Round] = []
        for server_round in range(1, self.scenario.num_rounds + 1):
            self.server_round = server_round
            lines: Round = []
            played.append(lines)
            try:
                self._tell(lines)
            except DubheError as error:
                lines.append(f"{type(error).__name__}: {error}")
                break
        return played

    def _tell(self, lines: Round) -> None:
        scenario, server_round = self.scenario, self.server_round
        for row in self._restarting():
            self.memories.pop(self.ids[row], None)
        interrupted = scenario.resumed.get(server_round)
        if scenario.weather and server_round > 1 and self._percent("server") < 15:
            interrupted = self._percent("interrupted") < 50
        if interrupted is not None:
            self._resume(lines, interrupted=interrupted)
        present = [self.ids[row] for row in self._present()]
        may = scenario.eligible.get(server_round)
        eligible = None if may is None else [self.ids[row] for row in may]
        crash_at = scenario.crashes.get(server_round)
        self.asked: list[str] = []
        self.num_batches = Counter[str]()
        try:
            outcome = self.begin(server_round, present, eligible)
            while isinstance(outcome, Batch):
                replies = self.deliver(outcome)
                if outcome.header.stage == crash_at:
                    crash_at = None
                    lines += self.asked
                    self.asked.clear()
                    self._resume(lines, interrupted=True)
                    outcome = self.begin(server_round, present, eligible)
                else:
                    outcome = self.step(replies)
        except DubheError:
            lines += self.asked
            raise
        lines += self._told(outcome)

    def _resume(self, lines: Round, *, interrupted: bool) -> None:
        """Go on with another server, from what this one would have saved."""
        lines.append(f"the server restarts, interrupted={interrupted}")
        saved = json.loads(json.dumps(self.selector.state_dict(self.state)))
        self.selector = coordinator(self.seed, **self.scenario.settings)
        self.state = self.selector.load_state_dict(saved, interrupted=interrupted)

    def deliver(self, batch: Batch) -> dict[int, Reply]:
        """Carry a batch to the nodes, and back what the faults leave; note whom was asked."""
        stage = str(batch.header.stage)
        self.num_batches[stage] += 1
        self.asked.append(
            f"{stage} {self._names(self.rows[node_id] for node_id in batch.requests)}"
        )
        self.before: Reply | None = None
        return super().deliver(batch)

    def _carry(self, stage: str, node_id: int, request: Fields) -> Reply | None:
        kind = self._fault(str(stage), self.rows[node_id])
        if kind == "request lost":
            return None
        reply = super()._carry(stage, node_id, request)
        last, before = self.last_replies.get(node_id), self.before
        self.before = self.last_replies[node_id] = reply
        return _altered(kind, reply, last, before)

    def _told(self, plan: Plan) -> Iterator[str]:
        for names, report in zip_longest(self.asked, plan.stages, fillvalue=""):
            yield f"{names}: {_summary(report, str(names))}"
        rows = [self.rows[node_id] for node_id in plan.participants]
        yield f"train {self._names(rows)}" + (" by chance" if plan.fallback else "")
        if plan.aliases != tuple(map(self.scenario.alias, rows)):
            yield f"named {' '.join(plan.aliases)}"
        chosen = " ".join(map(str, plan.chosen))
        yield f"{plan.num_registered} registered, [{chosen}] of {plan.num_selections}"
        if plan.finding != self.finding:
            self.finding = plan.finding
            yield "found " + " ".join(map(str, plan.finding))
        yield from plan.notes

    def _policy(self, row: int) -> NodePolicy:
        num_classes = max(self.scenario.settings["reference_set"])
        rng = Random(f"labels {self.seed} {row}")
        counts = [rng.randrange(6) for _ in range(num_classes)]
        for label in rng.sample(range(num_classes), rng.randint(1, min(3, num_classes))):
            counts[label] += 60
        options = dict(self.scenario.nodes.get(row, {}))
        change = options.pop("counts", lambda _round, counts: counts)
        return node_policy(
            self.scenario.alias(row), lambda: change(self.server_round, counts), **options
        )

    def _present(self) -> list[int]:
        """Return the rows that are there; in bad weather some are not."""
        away = self.scenario.away.get(self.server_round, ())
        return [
            row
            for row in range(self.scenario.num_nodes)
            if row not in away and not (self.scenario.weather and self._percent("away", row) < 8)
        ]

    def _restarting(self) -> Collection[int]:
        """Return the rows that have forgotten all; in bad weather some do."""
        if not self.scenario.weather:
            return self.scenario.restarts.get(self.server_round, ())
        return [row for row in range(self.scenario.num_nodes) if self._percent("node", row) < 3]

    def _fault(self, stage: str, row: int) -> str | None:
        batch = self.num_batches[stage]
        for fault in self.scenario.faults:
            if fault.strikes(stage, self.server_round, row, batch):
                return fault.kind
        lot = self._percent(stage, row, batch) if self.scenario.weather else 100
        for kind, share in WEATHER.items():
            lot -= share
            if lot < 0:
                return kind
        return None

    def _percent(self, *what: object) -> float:
        """Draw from 0 to 100 by what it is for, so that no draw depends on those before it."""
        lot = f"{self.scenario.weather} {what} {self.server_round} {self.seed}"
        return 100 * Random(lot).random()

    def _names(self, rows: Iterable[int]) -> str:
        """Write aliases in order; rows that follow each other as FIRST-LAST."""
        runs: list[list[int]] = []
        for row in rows:
            if runs and row == runs[-1][-1] + 1:
                runs[-1].append(row)
            else:
                runs.append([row])
        alias = self.scenario.alias
        return " ".join(
            f"{alias(run[0])}-{alias(run[-1])}" if len(run) > 2 else " ".join(map(alias, run))
            for run in runs
        )


def _altered(
    kind: str | None, reply: Reply | None, last: Reply | None, before: Reply | None
) -> Reply | None:
    """Return what arrives of a reply under a fault."""
    if kind is None or (isinstance(reply, NodeFailure) and kind != "reply lost"):
        return reply
    if kind.startswith("spoilt ") and isinstance(reply, Mapping):
        name = kind.removeprefix("spoilt ")
        value = reply[name]
        assert isinstance(value, bytes), f"{name} is no ciphertext"
        # What another ciphertext decrypts to is random, so that no sum with it adds up.
        return {**reply, name: value[:-1] + bytes([value[-1] ^ 2])}
    return {
        "reply lost": None, "error": NodeFailure("It failed."), "garbage": {"garbage": b"?"},
        "stale": last or reply, "another's": before or reply,
    }[kind]  # fmt: skip


def _summary(report: StageReport | str, asked: str) -> str:
    if isinstance(report, str):
        return "not reported"
    stage = "" if asked.startswith(f"{report.stage} ") else f"{report.stage} "
    dropped = "".join(f", {number} {reason}" for reason, number in report.dropped.items())
    return f"{stage}{report.accepted}/{report.sent}{dropped}"
