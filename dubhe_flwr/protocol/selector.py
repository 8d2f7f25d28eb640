"""The interface between adapters and selection methods: a state machine without I/O."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol.plan import Batch, Plan, Replies

StateT = TypeVar("StateT")


class Selector(ABC, Generic[StateT]):
    """Chooses who trains, round by round.

    An adapter calls `begin_round` and sends the batch it gets; it then calls `step` with the
    replies until it gets a plan. Each call takes a state and returns the next one; states are never
    changed in place.

    Attributes
    ----------
    plans_ahead : bool (default: False)
        Whether a round may be planned while clients of an earlier one train. It must be False if
        the choice depends on the results of that training.
    """

    plans_ahead: ClassVar[bool] = False

    @property
    @abstractmethod
    def num_participants(self) -> int:
        """``K``: number of clients wanted in a round."""

    @property
    def least_nodes(self) -> int:
        """Number of connected nodes below which a round cannot go on; by default 1."""
        return 1

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
        """Begin a round, and return the next state with a batch to send or a plan.

        Rounds are numbered from 1. `present` holds the ids of the connected nodes, and `eligible`
        the ids of nodes that may be chosen in this round, by default all. Raises `SettingsError`
        if the settings do not fit the number of nodes, and `QuorumError` if too few are connected.
        """

    @abstractmethod
    def step(self, state: StateT, replies: Replies) -> tuple[StateT, Batch | Plan]:
        """Continue with the replies to the last batch; returns what `begin_round` returns.

        Missing, erroneous and invalid replies are dropped and counted. Raises `QuorumError` if too
        few are left.
        """

    def adapted(
        self, state: StateT, plan: Plan, present: Collection[int], eligible: Collection[int]
    ) -> Plan | None:
        """Return a plan made ahead, after replacing nodes that have left.

        `state` is the one that came with the plan. Returns None if the round has to be planned
        again. By default, that is the case whenever a participant has left.
        """
        del state, present
        return plan if set(plan.participants).issubset(eligible) else None

    def state_dict(self, state: StateT) -> dict[str, Any]:
        """Return the state as a dictionary that can be written as JSON.

        Selectors that can resume a run override this method; the default raises `CheckpointError`.
        """
        del state
        raise CheckpointError(
            f"{type(self).__name__} keeps no state; define state_dict and load_state_dict, or "
            "leave out checkpoint_dir."
        )

    def load_state_dict(self, saved: dict[str, Any]) -> StateT:
        """Return the state that `state_dict` saved. Raises `CheckpointError` if it does not fit.

        The next round must not rely on what nodes remember: they may have answered further requests
        since the state was saved.
        """
        del saved
        raise CheckpointError(f"{type(self).__name__} loads no state; define load_state_dict.")


def check_saved(data: object, kinds: Mapping[str, type], where: str) -> dict[str, Any]:
    """Return a saved dictionary, after checking that it has exactly these keys and value types.

    Raises `CheckpointError`, which names the key and `where` it is, for anything else. Integers
    must not be negative; the type `object` accepts any value.

    >>> check_saved({"seed": 7}, {"seed": int}, "selector")
    {'seed': 7}
    >>> check_saved({"seed": "7"}, {"seed": int}, "selector")
    Traceback (most recent call last):
    dubhe_flwr.errors.CheckpointError: selector.seed: a str does not belong there; load a state \
that this version of dubhe-flwr wrote.
    """
    remedy = "load a state that this version of dubhe-flwr wrote."
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: a {type(data).__name__} is not a saved state; {remedy}")
    for name in kinds:
        if name not in data:
            raise CheckpointError(f"{where}: key {name!r} is missing; {remedy}")
    for name, value in data.items():
        if name not in kinds:
            raise CheckpointError(f"{where}: key {name!r} is unknown; {remedy}")
        if kinds[name] is not object and type(value) is not kinds[name]:
            kind = type(value).__name__
            raise CheckpointError(f"{where}.{name}: a {kind} does not belong there; {remedy}")
        if type(value) is int and value < 0:
            raise CheckpointError(f"{where}.{name}: {value} is negative; {remedy}")
    return data
