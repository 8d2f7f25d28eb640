"""Where the server is in the protocol, and the small changes that every stage makes to it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

from dubhe_flwr.core import generator
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol.enrolment import Enrolment
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import ExpectReply, Message, Stage
from dubhe_flwr.protocol.plan import Batch, StageReport
from dubhe_flwr.protocol.rounds import DrawnRound

__all__ = [
    "CoordinatorState",
    "RoundGivenUpError",
    "agents_in_turn",
    "check_quorum",
    "declined_for_settings",
    "give_up",
    "heeded",
    "misconfigured",
    "noted",
    "reported",
    "send",
]


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """Where the server is, between two batches or two rounds. It holds no key and no label.

    Parameters
    ----------
    seed : int
        Fixes the server's own choices.
    sequence : int
        Number of the last batch.
    server_round : int
        The round that is being planned.
    aliases : mapping of int to str
        Last known alias of each node that was there at the last join, by node id.
    declined : frozenset of int
        Ids of the nodes whose last answer to a request to join was no.
    unwilling : frozenset of int
        Ids of those that said no for this round.
    present : frozenset of int
        Ids of the nodes that are there.
    eligible : frozenset of int
        Ids of those that may be chosen in this round.
    batch : Batch or None
        What was sent and awaits replies.
    enrolment : Enrolment or None
        The epoch in the making.
    epoch : Epoch or None
        The epoch that is on.
    thresholds : mapping of int to float or None
        What the last search found; None before, or where nothing is searched.
    searched : frozenset of int
        Ids of the nodes that registered or declined then.
    expectations : mapping of int to ExpectReply
        What the nodes of an epoch answered to a search that is on.
    calibrators : tuple of int
        Ids of the nodes that may calibrate, in the order in which to ask them.
    rounds : mapping of int to DrawnRound
        The rounds drawn so far that have not begun.
    asked_about : mapping of int to list of int
        The rounds that each agent was asked to determine.
    failed_agents : frozenset of int
        Agents that did not determine in this round, by index into `Epoch.registered`.
    heeded : frozenset of int
        Ids of the nodes whose answer as an agent of an epoch of this round was used.
    attempt : int
        How many times the agents of this stage have been asked.
    num_renewals : int
        How often an epoch was ended in this round because the nodes refused it.
    notes : tuple of str
        What did not go as planned in this round.
    stages : tuple of StageReport
        The exchanges of this round so far.
    restored : bool
        Whether the epoch is that of a checkpoint and no node has answered in it since.
    """

    seed: int
    sequence: int = 0
    server_round: int = 0
    aliases: Mapping[int, str] = field(default_factory=dict)
    declined: frozenset[int] = frozenset()
    unwilling: frozenset[int] = frozenset()
    present: frozenset[int] = frozenset()
    eligible: frozenset[int] = frozenset()
    batch: Batch | None = None
    enrolment: Enrolment | None = None
    epoch: Epoch | None = None
    thresholds: Mapping[int, float] | None = None
    searched: frozenset[int] = frozenset()
    expectations: Mapping[int, ExpectReply] = field(default_factory=dict, repr=False)
    calibrators: tuple[int, ...] = ()
    rounds: Mapping[int, DrawnRound] = field(default_factory=dict)
    asked_about: Mapping[int, Sequence[int]] = field(default_factory=dict)
    failed_agents: frozenset[int] = frozenset()
    heeded: frozenset[int] = frozenset()
    attempt: int = 0
    num_renewals: int = 0
    notes: tuple[str, ...] = ()
    stages: tuple[StageReport, ...] = ()
    restored: bool = False


class RoundGivenUpError(QuorumError):
    """A round that cannot go on, with what is known of the nodes by then."""

    def __init__(self, sentence: str, state: CoordinatorState) -> None:
        super().__init__(sentence)
        self.state = state


_WAIT: Final = "wait for more nodes or lower the quorum"
_REMEDIES_OF_DECLINED: Final = {
    "refuses parameters": "raise key_bits or min_cohort to what the nodes ask for (min_key_bits "
    "and min_cohort of DubheMod or register_dubhe)",
    "wrong number of classes": "make the largest size of reference_set the length of label_counts",
    "invalid label counts": "let label_counts return a list of whole numbers from 0 up, and look "
    "at a node's log for an error that it raised",
}
_REMEDY_OF_NO_DATA: Final = "let label_counts read the data that a node trains on; it is all zeros"
_REMEDIES: Final = {
    "error reply at join": "see a node's log, and whether the ClientApp has DubheMod (or "
    "register_dubhe)",
    **_REMEDIES_OF_DECLINED,
}


def send(
    state: CoordinatorState, epoch: bytes, stage: Stage, requests: Mapping[int, Message]
) -> tuple[CoordinatorState, Batch]:
    """Return the state that awaits replies to these requests, and their batch."""
    header = Envelope(epoch=epoch, stage=stage.value, sequence=state.sequence + 1)
    batch = Batch(header, requests)
    return replace(state, batch=batch, sequence=header.sequence), batch


def noted(state: CoordinatorState, note: str) -> CoordinatorState:
    """Return the state with one more note on what did not go as planned."""
    return replace(state, notes=(*state.notes, note))


def reported(state: CoordinatorState, report: StageReport) -> CoordinatorState:
    """Return the state with one more exchange on record."""
    return replace(state, stages=(*state.stages, report))


def heeded(state: CoordinatorState, agents: Collection[int]) -> CoordinatorState:
    """Return the state that remembers whose answer as an agent was used."""
    return replace(state, heeded=state.heeded.union(agents))


def agents_in_turn(
    state: CoordinatorState,
    node_ids: Sequence[int],
    purpose: str,
    first_round: int,
    silent: Collection[int] = frozenset(),
) -> tuple[int, ...]:
    """Return the nodes in the order in which to ask them to be agent.

    Parameters
    ----------
    state : CoordinatorState
        With the seed.
    node_ids : sequence of int
        The nodes, in the order of their aliases.
    purpose : str
        What they are asked for.
    first_round : int
        The round in which the epoch began.
    silent : collection of int (default: none)
        Nodes that have just not answered, who come after the others.

    Examples
    --------
    >>> state = CoordinatorState(seed=1, heeded=frozenset({5}))
    >>> agents_in_turn(state, [4, 5, 6], "calibrate", 1)
    (6, 5, 4)
    >>> agents_in_turn(replace(state, num_renewals=1), [4, 5, 6], "calibrate", 1)
    (6, 4, 5)
    """
    order = generator(state.seed, purpose, first_round).permutation(len(node_ids))
    # What an agent answered may be why the nodes refused the epoch before this one.
    suspects = state.heeded if state.num_renewals else frozenset()
    in_turn = (node_ids[index] for index in order)
    return tuple(sorted(in_turn, key=lambda node: (node in suspects, node in silent)))


def give_up(state: CoordinatorState, sentence: str) -> NoReturn:
    """End the round.

    Raises
    ------
    RoundGivenUpError
        With the sentence and the state.
    """
    raise RoundGivenUpError(sentence, state)


def misconfigured(state: CoordinatorState) -> str | None:
    """Return what the operator has to change, where the reports of this round tell it."""
    if {reason for report in state.stages for reason in report.dropped} == {"no data"}:
        return _REMEDY_OF_NO_DATA
    return _remedy(state, _REMEDIES)


def declined_for_settings(state: CoordinatorState) -> bool:
    """Tell whether a node declined in this round for what only the operator can change."""
    return _remedy(state, _REMEDIES_OF_DECLINED) is not None


def _remedy(state: CoordinatorState, remedies: Mapping[str, str]) -> str | None:
    reasons = [
        f"{reason} at {report.stage}" for report in state.stages for reason in report.dropped
    ]
    hints = (hint for known, hint in remedies.items() if any(known in r for r in reasons))
    return next(hints, None)


def check_quorum(state: CoordinatorState, num_nodes: int, what: str, quorum: int) -> None:
    """Refuse to go on with too few nodes.

    Raises
    ------
    RoundGivenUpError
        It says how many nodes there are, how many are needed, and what became of the others.
    """
    if num_nodes >= quorum:
        return
    reasons = [
        f"{number} {reason} at {report.stage}"
        for report in state.stages
        for reason, number in report.dropped.items()
    ]
    dropped = ", ".join(reasons) or "no reply was dropped"
    give_up(
        state,
        f"Round {state.server_round}: {num_nodes} nodes are {what}, fewer than quorum={quorum} "
        f"({dropped}); {misconfigured(state) or _WAIT}.",
    )
