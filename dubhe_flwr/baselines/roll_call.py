"""Selection without registration: the server asks for aliases once and then chooses by itself."""

import secrets
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import generator
from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.protocol import (
    Batch,
    Plan,
    Replies,
    Selector,
    StageReport,
    alias_order,
    check_keys,
    from_json,
)
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.envelope import EPOCH_ID_BYTES, Envelope
from dubhe_flwr.protocol.wire.messages import HelloReply, HelloRequest, Stage

__all__ = ["RandomSelector", "RollCall", "RollCallState"]

StateT = TypeVar("StateT", bound="RollCallState")


@dataclass(frozen=True)
class RollCallState:
    """Who is known by which alias, and the round that is being planned.

    The sets are of node ids: those that are not willing, and those that may be chosen.
    """

    seed: int
    aliases: Mapping[int, str] = field(default_factory=dict)
    refused: frozenset[int] = frozenset()
    server_round: int = 0
    eligible: frozenset[int] = frozenset()
    batch: Batch | None = None


class RollCall(Selector[StateT]):
    """Asks nodes for their aliases when they first appear; a subclass says whom to choose.

    The aliases make a run repeat from its seed, since node ids are random in each run.
    """

    def __init__(self, num_participants: int, seed: int | None = None) -> None:
        if not isinstance(num_participants, int | np.integer) or num_participants < 1:
            raise SettingsError(
                f"num_participants={num_participants!r} must be a whole number of at least 1."
            )
        self._num_participants = int(num_participants)
        self.seed = secrets.randbits(63) if seed is None else seed

    @property
    def num_participants(self) -> int:
        """``K``."""
        return self._num_participants

    @abstractmethod
    def select(
        self, state: StateT, aliases: Sequence[str], rng: np.random.Generator
    ) -> tuple[StateT, NDArray[np.int64]]:
        """Return the state after the choice, and the indices of those chosen, ascending.

        The clients that are there, at least one, are in the order of their aliases.
        """

    def state_dict(self, state: StateT) -> dict[str, Any]:
        """Return the seed; the nodes are asked for their aliases again."""
        return {"seed": state.seed}

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool) -> StateT:
        """Return the state before the first round, with the seed that was saved."""
        del interrupted
        values = check_keys(saved, ["seed"], "selector")
        return replace(self.initial_state(), seed=from_json(int, values["seed"], "selector.seed"))

    def begin_round(
        self,
        state: StateT,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> tuple[StateT, Batch | Plan]:
        """Choose among the known nodes, after asking the unknown ones for their aliases."""
        here = frozenset(present)
        may = here if eligible is None else here & frozenset(eligible)
        state = replace(state, server_round=server_round, eligible=may, batch=None)
        unknown = sorted(here - state.aliases.keys() - state.refused)
        if not unknown:
            return self._plan(state, ())
        header = Envelope(secrets.token_bytes(EPOCH_ID_BYTES), Stage.HELLO.value, sequence=1)
        batch = Batch(header, dict.fromkeys(unknown, HelloRequest()))
        return replace(state, batch=batch), batch

    def step(self, state: StateT, replies: Replies) -> tuple[StateT, Batch | Plan]:
        """Take note of the aliases and choose."""
        if state.batch is None:
            raise SettingsError("No batch awaits replies; call begin_round first.")

        def accept_all(_node_id: int, _reply: HelloReply) -> None:
            return None

        accepted, report = accept_replies(state.batch, replies, accept_all)
        willing = {node: reply.alias for node, reply in accepted.items() if reply.willing}
        aliases = {**state.aliases, **willing}
        state = replace(
            state,
            aliases={node_id: aliases[node_id] for node_id in alias_order(aliases)},
            refused=state.refused | (accepted.keys() - willing.keys()),
            batch=None,
        )
        return self._plan(state, (report,))

    def _plan(self, state: StateT, stages: tuple[StageReport, ...]) -> tuple[StateT, Plan]:
        here = [node_id for node_id in state.aliases if node_id in state.eligible]
        if not here:
            raise QuorumError(
                f"Round {state.server_round}: no node is there and willing; wait for more nodes."
            )
        aliases = [state.aliases[node_id] for node_id in here]
        rng = generator(state.seed, "baseline", state.server_round)
        state, chosen = self.select(state, aliases, rng)
        return state, Plan(
            server_round=state.server_round,
            participants=tuple(here[index] for index in chosen),
            aliases=tuple(aliases[index] for index in chosen),
            num_registered=len(state.aliases),
            stages=stages,
        )


class RandomSelector(RollCall[RollCallState]):
    """Chooses K clients uniformly at random in each round, or all where there are fewer.

    Parameters
    ----------
    num_participants : int
        ``K``.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def initial_state(self) -> RollCallState:
        """Return the state before the first round."""
        return RollCallState(self.seed)

    def select(
        self, state: RollCallState, aliases: Sequence[str], rng: np.random.Generator
    ) -> tuple[RollCallState, NDArray[np.int64]]:
        """Choose anew, and leave the state as it is."""
        number = min(self.num_participants, len(aliases))
        return state, np.sort(rng.choice(len(aliases), number, replace=False))
