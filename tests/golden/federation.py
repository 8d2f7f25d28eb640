"""A federation in memory that writes down what a selection does, by its outermost interface only.

The traces have to outlive any change inside the protocol. So nothing here reads a field of the
server's state, of a message or of a node's memory, and settings are made in one place.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from random import Random
from typing import Any, Final

from dubhe_flwr.errors import DubheError, ProtocolError
from dubhe_flwr.protocol import (
    Batch,
    ClientSession,
    Coordinator,
    NodeFailure,
    NodePolicy,
    Plan,
    Settings,
    StageReport,
)
from dubhe_flwr.rules import Paper

Reply = Mapping[str, object] | NodeFailure
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
        return (
            stage == self.stage
            and (self.rounds is None or server_round in self.rounds)
            and (self.rows is None or row in self.rows)
            and (self.batches is None or batch in self.batches)
        )


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


class Federation:
    """The nodes and the server of a scenario."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario, self.seed, self.server_round = scenario, seed, 0
        rows = range(scenario.num_nodes)
        # The order of the ids is not that of the rows, and still short to write.
        first = Random(f"ids {seed}").randrange(1, scenario.num_nodes)
        self.ids = [1000 + (row - first) % scenario.num_nodes for row in rows]
        self.rows = {node_id: row for row, node_id in enumerate(self.ids)}
        self.policies = [self._policy(row) for row in rows]
        self.sessions = [ClientSession(policy) for policy in self.policies]
        self.last_replies: dict[int, Reply] = {}
        self.finding: tuple[float, ...] = ()

    def run(self) -> list[Round]:
        """Play all rounds, or as many as there are before an error."""
        self.server = coordinator(self.seed, **self.scenario.settings)
        self.state = self.server.initial_state()
        played: list[Round] = []
        for server_round in range(1, self.scenario.num_rounds + 1):
            self.server_round = server_round
            lines: Round = []
            played.append(lines)
            try:
                self._play(lines)
            except DubheError as error:
                lines.append(f"{type(error).__name__}: {error}")
                break
        return played

    def _play(self, lines: Round) -> None:
        scenario, server_round = self.scenario, self.server_round
        for row in self._restarting():
            self.sessions[row] = ClientSession(self.policies[row])
        interrupted = scenario.resumed.get(server_round)
        if scenario.weather and server_round > 1 and self._percent("server") < 15:
            interrupted = self._percent("interrupted") < 50
        if interrupted is not None:
            self._resume(lines, interrupted=interrupted)
        present = [self.ids[row] for row in self._present()]
        may = scenario.eligible.get(server_round)
        eligible = None if may is None else [self.ids[row] for row in may]
        crash_at = scenario.crashes.get(server_round)
        asked: list[str] = []
        counted: dict[str, int] = {}
        try:
            self.state, outcome = self.server.begin_round(
                self.state, server_round, present, eligible
            )
            while isinstance(outcome, Batch):
                stage = str(outcome.header.stage)
                counted[stage] = counted.get(stage, 0) + 1
                replies, names = self._deliver(outcome, stage, counted[stage])
                asked.append(f"{stage} {names}")
                if stage == crash_at:
                    crash_at = None
                    lines += asked
                    asked.clear()
                    self._resume(lines, interrupted=True)
                    self.state, outcome = self.server.begin_round(
                        self.state, server_round, present, eligible
                    )
                else:
                    self.state, outcome = self.server.step(self.state, replies)
        except DubheError:
            lines += asked
            raise
        lines += self._told(outcome, asked)

    def _resume(self, lines: Round, *, interrupted: bool) -> None:
        """Go on with another server, from what this one would have saved."""
        lines.append(f"the server restarts, interrupted={interrupted}")
        saved = json.loads(json.dumps(self.server.state_dict(self.state)))
        self.server = coordinator(self.seed, **self.scenario.settings)
        self.state = self.server.load_state_dict(saved, interrupted=interrupted)

    def _deliver(self, batch: Batch, stage: str, num_batches: int) -> tuple[dict[int, Reply], str]:
        """Carry a batch to the nodes, and back what the faults leave; tell whom was asked."""
        replies: dict[int, Reply] = {}
        asked: list[int] = []
        before: Reply | None = None
        for node_id, fields in batch.fields.items():
            row = self.rows[node_id]
            asked.append(row)
            kind = self._fault(stage, row, num_batches)
            if kind == "request lost":
                continue
            try:
                reply: Reply = self.sessions[row].handle(fields)
            except ProtocolError as error:
                reply = NodeFailure(str(error))
            carried = _altered(kind, reply, self.last_replies.get(row), before)
            before = self.last_replies[row] = reply
            if carried is not None:
                replies[node_id] = carried
        return replies, self._names(asked)

    def _told(self, plan: Plan, asked: Iterable[str]) -> Iterator[str]:
        for names, report in zip_longest(asked, plan.stages, fillvalue=""):
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

    def _fault(self, stage: str, row: int, num_batches: int) -> str | None:
        for fault in self.scenario.faults:
            if fault.strikes(stage, self.server_round, row, num_batches):
                return fault.kind
        lot = self._percent(stage, row, num_batches) if self.scenario.weather else 100
        for kind, share in WEATHER.items():
            lot -= share
            if lot < 0:
                return kind
        return None

    def _percent(self, *what: object) -> float:
        """Draw from 0 to 100 by what it is for, so that no draw depends on those before it."""
        return (
            100 * Random(f"{self.scenario.weather} {what} {self.server_round} {self.seed}").random()
        )

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
    kind: str | None, reply: Reply, last: Reply | None, before: Reply | None
) -> Reply | None:
    """Return what arrives of a reply under a fault."""
    if kind is None or (isinstance(reply, NodeFailure) and kind != "reply lost"):
        return reply
    if kind.startswith("spoilt ") and not isinstance(reply, NodeFailure):
        name = kind.removeprefix("spoilt ")
        value = reply[name]
        assert isinstance(value, bytes), f"{name} is no ciphertext"
        # What another ciphertext decrypts to is random, so that no sum with it adds up.
        return {**reply, name: value[:-1] + bytes([value[-1] ^ 2])}
    return {
        "reply lost": None,
        "error": NodeFailure("It failed."),
        "garbage": {"garbage": b"?"},
        "stale": last or reply,
        "another's": before or reply,
    }[kind]


def _summary(report: StageReport | str, asked: str) -> str:
    if isinstance(report, str):
        return "not reported"
    stage = "" if asked.startswith(f"{report.stage} ") else f"{report.stage} "
    dropped = "".join(f", {number} {reason}" for reason, number in report.dropped.items())
    return f"{stage}{report.accepted}/{report.sent}{dropped}"
