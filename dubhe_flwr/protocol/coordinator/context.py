"""Where the server is in the protocol, and the small changes that every stage makes to it."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import InvalidCiphertextError, QuorumError
from dubhe_flwr.protocol.coordinator.dropped_replies import WAIT, dropped, remedy
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.plan import Batch, Plan, Replies, StageReport
from dubhe_flwr.protocol.replies import alias_order
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.vaults import Adder
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import Message, Stage

MAX_AGENTS: Final = 3  # asked one after the other, before a step is given up


@dataclass(frozen=True, slots=True)
class Run:
    """What lasts from round to round."""

    seed: int  # of the server's own choices
    sequence: int = 0  # the last number that a batch took
    server_round: int = 0  # the last one that began
    # The last known ones, by node id, of the nodes that were there at the last join.
    aliases: Mapping[int, str] = field(default_factory=dict)
    declined: frozenset[int] = frozenset()  # nodes whose last answer to a request to join was no
    # Ids of the nodes that may be in a committee: by their pinned keys, as they said themselves.
    candidates: frozenset[int] = frozenset()
    num_refused_epochs: int = 0  # in a row: each halves whom the next one asks


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """The round that is being planned. Its sets are of node ids."""

    present: frozenset[int] = frozenset()
    eligible: frozenset[int] = frozenset()  # those of them that may be chosen
    willing: frozenset[int] = frozenset()  # those that said yes for this round
    unwilling: frozenset[int] = frozenset()  # those that said no
    used_agents: frozenset[int] = frozenset()  # those whose answer as agent was used in this round
    num_renewals: int = 0  # how often an epoch was ended in this round because nodes refused it
    notes: tuple[str, ...] = ()  # on what did not go as planned
    reports: tuple[StageReport, ...] = ()  # of the exchanges so far


class GivenUpError(QuorumError):
    """A round that cannot go on, with what is known of the nodes by then."""

    def __init__(self, sentence: str, context: "Context", epoch: Epoch | None) -> None:
        super().__init__(sentence)
        self.context = context
        self.epoch = epoch


@dataclass(frozen=True, slots=True)
class Context:
    """What a stage works in: the settings, and the state apart from the stage itself."""

    settings: Settings
    run: Run
    round: RoundProgress

    @property
    def server_round(self) -> int:
        """The round that is being planned."""
        return self.run.server_round

    def noted(self, note: str) -> "Context":
        """Return the context with one more note on what did not go as planned."""
        return replace(self, round=replace(self.round, notes=(*self.round.notes, note)))

    def reported(self, report: StageReport) -> "Context":
        """Return the context with one more exchange on record."""
        return replace(self, round=replace(self.round, reports=(*self.round.reports, report)))

    def with_used_agents(self, agents: Collection[int]) -> "Context":
        """Return the context that remembers whose answer as an agent was used."""
        return replace(
            self, round=replace(self.round, used_agents=self.round.used_agents.union(agents))
        )

    def batch(
        self, epoch: bytes, stage: Stage, requests: Mapping[int, Message], num_rounds: int = 1
    ) -> tuple["Context", Batch]:
        """Return the next batch, and the context that has counted it.

        One for several rounds takes as many numbers: those of requests to join, by which simulated
        nodes round up or down, then do not depend on `rounds_per_draw`.
        """
        header = Envelope(epoch=epoch, stage=stage.value, sequence=self.run.sequence + 1)
        return self.counted(num_rounds), Batch(header, requests)

    def counted(self, number: int = 1) -> "Context":
        """Return the context with so many numbers of batches used."""
        return replace(self, run=replace(self.run, sequence=self.run.sequence + number))

    def summed(
        self,
        adder: Adder,
        vectors: Mapping[int, bytes],
        report: StageReport,
        what: str,
    ) -> tuple["Context", Mapping[int, bytes], bytes]:
        """Return the vectors that can be added up, and their sum; give up with too few of them.

        One check of the sum covers all; only if it fails is each one looked at.
        """
        context = self.reported(report)
        context.check_quorum(len(vectors), what, None)
        try:
            return context, vectors, adder.add_up(vectors.values())
        except InvalidCiphertextError:
            valid = {n: v for n, v in vectors.items() if adder.is_valid(v)}
        report = report.without(vectors.keys() - valid, "invalid ciphertext")
        return self.summed(adder, valid, report, what)

    def in_order(self, node_ids: Collection[int]) -> list[int]:
        """Return nodes by their aliases, and then those that have told none by their ids.

        Node ids are random in each run of Flower, aliases are not.
        """
        aliases = {n: alias for n, alias in self.run.aliases.items() if n in node_ids}
        return [*alias_order(aliases), *sorted(set(node_ids).difference(aliases))]

    def agents(self, node_ids: Sequence[int]) -> tuple[int, ...]:
        """Return the nodes in the order in which to ask them for the key of an epoch.

        Whoever was agent of an epoch that the nodes refused in this round comes last: its answer
        may be the reason.
        """
        lots = generator(self.run.seed, "keygen", self.server_round).permutation(len(node_ids))
        suspects = self.round.used_agents if self.round.num_renewals else frozenset()
        return tuple(sorted((node_ids[lot] for lot in lots), key=lambda node: node in suspects))

    def give_up(self, sentence: str, epoch: Epoch | None) -> NoReturn:
        """End the round, with all that is known by then; the epoch may go on in the next one."""
        raise GivenUpError(sentence, self, epoch)

    def check_quorum(self, num_nodes: int, what: str, epoch: Epoch | None, least: int = 1) -> None:
        """Give up with too few nodes; say how many are needed, and why others were dropped."""
        quorum = max(least, self.settings.least_nodes)
        if num_nodes >= quorum:
            return
        reports = self.round.reports
        reasons = [f"{number} {reason}" for reason, number in dropped(reports).items()]
        lost = ", ".join(reasons) or "no reply was dropped"
        self.give_up(
            f"Round {self.server_round}: {num_nodes} nodes are {what}, fewer than quorum={quorum} "
            f"({lost}); {remedy(reports) or WAIT}.",
            epoch,
        )


@dataclass(frozen=True)
class Awaiting(ABC):
    """A stage that awaits replies to a batch, with all that it knows."""

    batch: Batch

    @abstractmethod
    def take(self, context: Context, replies: Replies) -> tuple[Context, Any]:
        """Go on with the replies, to a stage that sends more or to what begins the next one."""


@dataclass(frozen=True)
class Answered:
    """Replies to the batch of a stage have come."""

    stage: Awaiting
    replies: Replies


@dataclass(frozen=True)
class RegistrationDue:
    """There is no epoch, or it is over: the nodes register."""


@dataclass(frozen=True)
class AwaitingInEpoch(Awaiting):
    """A stage of an epoch that is settled, with all that was spent of it."""

    epoch: Epoch


@dataclass(frozen=True)
class Rest:
    """Between two rounds."""

    epoch: Epoch | None = None  # None if the next round begins one


@dataclass(frozen=True)
class Planned:
    """It is known who trains, and the round is over."""

    epoch: Epoch | None
    plan: Plan


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """Where the server is, between two batches or two rounds. It holds no key and no label."""

    run: Run
    round: RoundProgress = RoundProgress()
    stage: Awaiting | Rest = Rest()

    @property
    def epoch(self) -> Epoch | None:
        """The epoch that is settled; None where there is none, or one is being registered."""
        stage = self.stage
        return stage.epoch if isinstance(stage, Rest | AwaitingInEpoch) else None
