"""What every way of selecting looks like to an adapter: a state machine without input or output."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

from dubhe_flwr.errors import CheckpointError, ProtocolError
from dubhe_flwr.protocol.codec import encoded_size
from dubhe_flwr.protocol.envelope import reply_reader
from dubhe_flwr.protocol.messages import Message
from dubhe_flwr.protocol.plan import Batch, NodeFailure, Plan, Replies, StageReport

__all__ = ["Selector", "accept_replies", "alias_order", "take_replies"]

StateT = TypeVar("StateT")
MessageT = TypeVar("MessageT", bound=Message)


class Selector(ABC, Generic[StateT]):
    """Chooses who trains, one round after the other.

    An adapter calls `begin_round` and sends the batch it gets; it then calls `step` with the
    replies until it gets a plan. The state goes in and comes out, and is never changed in place.
    """

    @property
    @abstractmethod
    def num_participants(self) -> int:
        """``K``: clients that are wanted in a round."""

    @abstractmethod
    def initial_state(self) -> StateT:
        """Return the state before the first round."""

    @abstractmethod
    def begin_round(
        self,
        state: StateT,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> tuple[StateT, Batch | Plan]:
        """Begin a round.

        Parameters
        ----------
        state : StateT
            What the last call returned.
        server_round : int
            Number of the round, from 1.
        present : collection of int
            Ids of the nodes that are there.
        eligible : collection of int, optional (default: all of them)
            Ids of those that may be chosen in this round.

        Returns
        -------
        state : StateT
            To be passed to the next call.
        outcome : Batch or Plan
            What to send, or who trains.

        Raises
        ------
        SettingsError
            If the settings do not fit the number of nodes.
        QuorumError
            If too few nodes are there.
        """

    @abstractmethod
    def step(self, state: StateT, replies: Replies) -> tuple[StateT, Batch | Plan]:
        """Go on with the replies to the last batch.

        Parameters
        ----------
        state : StateT
            What the last call returned.
        replies : mapping
            As received; missing, erroneous and unfit ones are dropped and counted.

        Raises
        ------
        QuorumError
            If too few of them can be used.
        """

    def state_dict(self, state: StateT) -> dict[str, Any]:
        """Return the state as a dictionary that JSON takes; a selector that resumes overrides it.

        Raises
        ------
        CheckpointError
            If the selector has no such dictionary.
        """
        del state
        raise CheckpointError(
            f"{type(self).__name__} keeps no state; give it state_dict and load_state_dict, or "
            "leave out checkpoint_dir."
        )

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool) -> StateT:
        """Return the state that was saved.

        Parameters
        ----------
        saved : dict
            What `state_dict` returned.
        interrupted : bool
            Whether nodes may have been asked for anything since.

        Raises
        ------
        CheckpointError
            If a key is missing or unknown, or a value is unfit.
        """
        del saved, interrupted
        raise CheckpointError(f"{type(self).__name__} loads no state; give it load_state_dict.")


def alias_order(aliases: Mapping[int, str]) -> tuple[int, ...]:
    """Return the node ids in the order of their aliases, numbers first.

    Node ids are random in each run of Flower; an order by alias is not.

    Examples
    --------
    >>> alias_order({17: "10", 4: "9", 8: "laptop"})
    (4, 17, 8)
    """
    numbers = [int(a) if a.isascii() and a.isdigit() else -1 for a in aliases.values()]
    if -1 not in numbers and len(set(numbers)) == len(numbers):  # as partition-ids are
        node_ids = list(aliases)
        return tuple(node_ids[row] for row in sorted(range(len(numbers)), key=numbers.__getitem__))

    def key(node_id: int) -> tuple[bool, int, str, int]:
        alias = aliases[node_id]
        is_number = alias.isascii() and alias.isdigit()
        return not is_number, int(alias) if is_number else 0, alias, node_id

    return tuple(sorted(aliases, key=key))


def accept_replies(
    batch: Batch,
    replies: Replies,
    refuse: Callable[[int, MessageT], str | None],
) -> tuple[dict[int, MessageT], StageReport]:
    """Parse the replies to a batch, and drop and count what cannot be used.

    Parameters
    ----------
    batch : Batch
        What was sent.
    replies : mapping
        As received.
    refuse : callable (int, message) -> str or None
        Returns why a well-formed reply cannot be used, or None; it may raise a `ProtocolError`.

    Returns
    -------
    accepted : dict of int to message
        The usable replies by node id, in the order of the requests.
    report : StageReport
        Numbers and reasons.
    """
    accepted: dict[int, MessageT] = {}

    def take(node_id: int, reply: MessageT) -> str | None:
        reason = refuse(node_id, reply)
        if reason is None:
            accepted[node_id] = reply
        return reason

    return accepted, take_replies(batch, replies, take)


def take_replies(
    batch: Batch, replies: Replies, take: Callable[[int, MessageT], str | None]
) -> StageReport:
    """Parse the replies to a batch one by one, and keep none.

    Parameters
    ----------
    batch : Batch
        What was sent.
    replies : mapping
        As received; each is looked up once.
    take : callable (int, message) -> str or None
        Is given each well-formed reply, in the order of the requests. It returns why the reply
        cannot be used, or None; it may raise a `ProtocolError`.

    Returns
    -------
    StageReport
        Numbers and reasons.
    """
    dropped: Counter[str] = Counter()
    header, of_header = batch.header, encoded_size(batch.header)
    read = reply_reader(header)
    num_accepted = bytes_up = 0
    for node_id in batch.requests:
        reply = replies.get(node_id)
        if reply is None:
            dropped["no reply"] += 1
            continue
        if isinstance(reply, NodeFailure):
            dropped["error reply"] += 1
            continue
        try:
            body: Any = read(reply)  # the header fixes the kind
            reason = take(node_id, body)
        except ProtocolError as error:
            dropped[type(error).__name__] += 1
            continue
        if reason is not None:
            dropped[reason] += 1
            continue
        num_accepted += 1
        bytes_up += of_header + encoded_size(body)
    return StageReport(
        stage=header.stage,
        sent=len(batch.requests),
        accepted=num_accepted,
        dropped=dict(dropped),
        bytes_down=batch.num_bytes(),
        bytes_up=bytes_up,
    )
