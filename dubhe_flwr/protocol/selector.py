"""What every way of selecting looks like to an adapter: a state machine without input or output."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar, Generic, TypeVar

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol.plan import Batch, Plan, Replies

StateT = TypeVar("StateT")


class Selector(ABC, Generic[StateT]):
    """Chooses who trains, one round after the other.

    An adapter calls `begin_round` and sends the batch it gets; it then calls `step` with the
    replies until it gets a plan. The state goes in and comes out, and is never changed in place.

    Attributes
    ----------
    plans_ahead : bool (default: False)
        Whether a round may be planned while clients of an earlier one train: not if the choice
        depends on what they learn.
    """

    plans_ahead: ClassVar[bool] = False

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
        """Begin a round: go on from a state with the nodes that are there, given by their ids.

        Rounds are numbered from 1. Those that may be chosen in this round are `eligible`; by
        default all are. It returns the state for the next call, and what to send or who trains. It
        is a `SettingsError` if the settings do not fit the number of nodes, and a `QuorumError` if
        too few are there.
        """

    @abstractmethod
    def step(self, state: StateT, replies: Replies) -> tuple[StateT, Batch | Plan]:
        """Go on with the replies to the last batch; take and return what `begin_round` does.

        Missing, erroneous and unfit replies are dropped and counted. It is a `QuorumError` if too
        few of them can be used.
        """

    def adapted(
        self, state: StateT, plan: Plan, present: Collection[int], eligible: Collection[int]
    ) -> Plan | None:
        """Return a plan that was made ahead, with nodes in the place of those that have left.

        The state is the one that came with the plan. It returns None if the round has to be planned
        anew; by default wherever a participant has left.
        """
        del state, present
        return plan if set(plan.participants).issubset(eligible) else None

    def state_dict(self, state: StateT) -> dict[str, Any]:
        """Return the state as a dictionary that JSON takes; a selector that resumes overrides it.

        Without that, it is a `CheckpointError`.
        """
        del state
        raise CheckpointError(
            f"{type(self).__name__} keeps no state; give it state_dict and load_state_dict, or "
            "leave out checkpoint_dir."
        )

    def load_state_dict(self, saved: dict[str, Any]) -> StateT:
        """Return the state that `state_dict` saved; what does not fit is a `CheckpointError`.

        The next round must not build on anything that nodes remember: they may have been asked for
        more since.
        """
        del saved
        raise CheckpointError(f"{type(self).__name__} loads no state; give it load_state_dict.")
