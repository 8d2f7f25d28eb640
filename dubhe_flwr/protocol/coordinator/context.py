"""The coordinator's state, and the operations on it that all stages share.

`CoordinatorState` is what the server holds between two calls. A stage works on a `Context`: the
settings, the run and the current round. The classes at the end are outcomes that several stages
return.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NoReturn

from dubhe_flwr.errors import InvalidCiphertextError, QuorumError
from dubhe_flwr.protocol.coordinator.dropped_replies import WAIT, reasons, remedy
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.plan import Batch, Plan, Replies, StageReport
from dubhe_flwr.protocol.replies import alias_order
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.wire.codec import Message
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import Stage


@dataclass(frozen=True, slots=True)
class Run:
    """State that lasts from round to round."""

    seed: int  # for the server's own random choices
    sequence: int = 0  # number of the last batch
    server_round: int = 0  # the round that began last
    # Last known alias by node id, for the nodes connected at the last join.
    aliases: Mapping[int, str] = field(default_factory=dict)
    declined: frozenset[int] = frozenset()  # nodes that declined when last asked to join
    has_registered: bool = False  # whether nodes have ever registered
    num_refused_epochs: int = 0  # in a row; each one halves the number of nodes in the next
    # How many of the epochs that failed in a row each node may have spoilt: it was an opener that
    # failed, or it was asked to join an epoch that was refused.
    doubts: Mapping[int, int] = field(default_factory=dict)
    committee_turn: int = 0  # position, among the possible committees, of the one to ask
    # Whether the last epoch failed, perhaps because of a lie, or nodes complained about a member.
    needs_other_committee: bool = False
    # Identity of the epoch that the next one continues; None if the rule has to start afresh.
    continued: bytes | None = None
    # Nodes that settled in the last epoch from whose state another one can start.
    settled: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """The round being planned. Its sets contain node ids."""

    present: frozenset[int] = frozenset()  # connected nodes
    eligible: frozenset[int] = frozenset()  # connected nodes that may be chosen
    willing: frozenset[int] = frozenset()  # nodes willing to train in this round
    unwilling: frozenset[int] = frozenset()  # nodes that declined this round
    num_renewals: int = 0  # epochs that failed and were replaced in this round
    notes: tuple[str, ...] = ()  # what did not go as planned
    reports: tuple[StageReport, ...] = ()  # exchanges so far


class GivenUpError(QuorumError):
    """The round cannot go on; the error carries what is known about the nodes so far."""

    def __init__(self, sentence: str, context: "Context", epoch: Epoch | None) -> None:
        super().__init__(sentence)
        self.context = context
        self.epoch = epoch


@dataclass(frozen=True, slots=True)
class Context:
    """What a stage works on: the settings, and all state except the stage itself."""

    settings: Settings
    run: Run
    round: RoundProgress

    @property
    def server_round(self) -> int:
        """The round being planned."""
        return self.run.server_round

    def with_run(self, **changes: Any) -> "Context":
        """Return the context with other values of some fields of its run."""
        return replace(self, run=replace(self.run, **changes))

    def with_round(self, **changes: Any) -> "Context":
        """Return the context with other values of some fields of its round."""
        return replace(self, round=replace(self.round, **changes))

    def doubting(self, node_ids: Iterable[int]) -> "Context":
        """Return the context with an epoch counted that one of these nodes may have spoilt."""
        return self.with_run(doubts=Counter(self.run.doubts) + Counter(node_ids))

    def noted(self, note: str) -> "Context":
        """Return the context with a note about what did not go as planned."""
        return self.with_round(notes=(*self.round.notes, note))

    def reported(self, report: StageReport) -> "Context":
        """Return the context with another exchange's report, which gets the lost nodes' names."""
        known = {**self.run.aliases, **report.aliases}
        lost = chain.from_iterable(report.lost.values())
        report = replace(report, aliases={n: known[n] for n in lost if n in known})
        return self.with_round(reports=(*self.round.reports, report))

    def batch(
        self, epoch: bytes, stage: Stage, requests: Mapping[int, Message], num_rounds: int = 1
    ) -> tuple["Context", Batch]:
        """Return the next batch, and the context with its sequence number used up.

        A batch for several rounds uses up one number per round. Simulated nodes seed their random
        rounding with the number of the join request, so this must not depend on `rounds_per_draw`.
        """
        header = Envelope(epoch=epoch, stage=stage.value, sequence=self.run.sequence + 1)
        return self.counted(num_rounds), Batch(header, requests)

    def counted(self, num_used: int = 1) -> "Context":
        """Return the context with more sequence numbers used up."""
        return self.with_run(sequence=self.run.sequence + num_used)

    def summed(
        self,
        add_up: Callable[[Iterable[bytes]], bytes],
        vectors: Mapping[int, bytes],
        report: StageReport,
        what: str,
    ) -> tuple["Context", Mapping[int, bytes], bytes]:
        """Return the valid vectors and their sum; give up if too few are valid.

        The vectors are checked together. Only if that fails is each one checked by itself.
        """
        context = self.reported(report)
        context.check_quorum(len(vectors), what, None)
        try:
            return context, vectors, add_up(vectors.values())
        except InvalidCiphertextError:
            valid: dict[int, bytes] = {}
            for node_id, vector in vectors.items():
                with suppress(InvalidCiphertextError):
                    add_up([vector])
                    valid[node_id] = vector
        report = report.without(vectors.keys() - valid, "invalid ciphertext")
        return self.summed(add_up, valid, report, what)

    def in_order(self, node_ids: Collection[int]) -> list[int]:
        """Return nodes ordered by alias, followed by those without one, ordered by id.

        Flower draws node ids at random in each run; aliases stay the same.
        """
        aliases = {n: alias for n, alias in self.run.aliases.items() if n in node_ids}
        return [*alias_order(aliases), *sorted(set(node_ids).difference(aliases))]

    def named(self, node_ids: Sequence[int]) -> str:
        """Return the aliases of some nodes for a note."""
        names = ", ".join(self.run.aliases.get(node_id, str(node_id)) for node_id in node_ids)
        return f"{'node' if len(node_ids) == 1 else 'nodes'} {names}"

    def give_up(self, sentence: str, epoch: Epoch | None) -> NoReturn:
        """Give up the round; the epoch, if any, may go on in the next one."""
        raise GivenUpError(sentence, self, epoch)

    def check_quorum(
        self,
        num_nodes: int,
        what: str,
        epoch: Epoch | None,
        *,
        least: int = 1,
        num_ineligible: int = 0,
    ) -> None:
        """Give up if there are too few nodes; say how many are connected, needed and dropped.

        A further `num_ineligible` nodes were left out by the strategy's `eligible`.
        """
        quorum = self.settings.least_nodes
        if num_nodes >= max(least, quorum):
            return
        needed = f"quorum={quorum}" if quorum >= least else f"the {least} needed"
        reports = self.round.reports
        left_out = [f"left out by eligible(): {num_ineligible}"] if num_ineligible else []
        lost = [*left_out, *reasons(reports)] or ["no reply was dropped"]
        told = ", ".join([f"connected: {len(self.round.present)}", *lost])
        can_lower = quorum > max(least, self.settings.min_cohort)
        otherwise = f"{WAIT}, or lower quorum" if can_lower else WAIT
        nodes = "1 node is" if num_nodes == 1 else f"{num_nodes} nodes are"
        self.give_up(
            f"Round {self.server_round}: {nodes} {what}, fewer than {needed} ({told}); "
            f"{remedy(reports) or otherwise}.",
            epoch,
        )


@dataclass(frozen=True)
class Awaiting(ABC):
    """A stage that awaits replies to a batch, and everything it knows."""

    batch: Batch

    @abstractmethod
    def take(self, context: Context, replies: Replies) -> tuple[Context, Any]:
        """Read the replies, and return another stage that awaits replies, or an outcome."""


@dataclass(frozen=True)
class AwaitingInEpoch(Awaiting):
    """A stage within a settled epoch, which counts the sums of the epoch's agents."""

    epoch: Epoch


@dataclass(frozen=True)
class Rest:
    """Between two rounds."""

    epoch: Epoch | None = None  # None if the next round begins a new one


@dataclass(frozen=True)
class Planned:
    """The round is planned: the server knows who trains."""

    epoch: Epoch | None
    plan: Plan


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """The server's state between two batches or two rounds.

    It holds no secret keys, and label counts only in a simulation in the clear.
    """

    run: Run
    round: RoundProgress = RoundProgress()
    stage: Awaiting | Rest = Rest()

    @property
    def epoch(self) -> Epoch | None:
        """The settled epoch; None if there is none, or nodes are still registering."""
        stage = self.stage
        return stage.epoch if isinstance(stage, Rest | AwaitingInEpoch) else None
