"""The base of all baselines: the server asks for aliases once, then chooses without the nodes.

A baseline needs no registration, keys or ciphertexts. `RollCall` runs the only exchange it needs,
in which nodes send their aliases, and records past choices and losses for selectors that use them
(`Past`). A subclass implements `choose`. Since choices depend on aliases and not on Flower's random
node ids, the same seed selects the same clients in every run.
"""

import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.protocol import Batch, Plan, Replies, StageReport
from dubhe_flwr.protocol.replies import accept_replies, alias_order
from dubhe_flwr.protocol.selector import Selector, check_saved
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import HelloReply, HelloRequest, Stage


@dataclass(frozen=True)
class Report:
    """The losses that a client reported in a round: their mean and root mean square.

    They are per-sample losses under the model that the client trained or evaluated.
    """

    server_round: int
    loss: float
    rms_loss: float


@dataclass(frozen=True)
class Past:
    """The number of past rounds, and how often each alias was chosen, most recent alias last.

    `reports` holds the latest report of each alias, for selectors that use losses.
    """

    num_rounds: int = 0
    times: Mapping[str, int] = field(default_factory=dict)
    reports: Mapping[str, Report] = field(default_factory=dict)

    def followed_by(self, aliases: Iterable[str]) -> "Past":
        """Return the past after one more round with these clients, in the order of choice."""
        times = dict(self.times)
        for alias in aliases:
            times[alias] = times.pop(alias, 0) + 1
        return replace(self, num_rounds=self.num_rounds + 1, times=times)

    def with_reports(self, reports: Mapping[str, Report]) -> "Past":
        """Return the past with these reports added, replacing older ones."""
        return replace(self, reports={**self.reports, **reports})

    def times_of(self, aliases: Sequence[str]) -> NDArray[np.int64]:
        """Return how often each of these clients was chosen."""
        return np.array([self.times.get(alias, 0) for alias in aliases], dtype=np.int64)

    def recent(self, number: int) -> list[str]:
        """Return up to `number` most recently chosen clients, the latest one last."""
        return list(self.times)[max(len(self.times) - number, 0) :]


@dataclass(frozen=True)
class RollCallState:
    """The past choices, the nodes' aliases, and the round being planned.

    `refused` and `eligible` hold node ids: nodes that declined to take part, and nodes that may be
    chosen. `stages` reports the current round's finished exchanges, and `batch` is the one that
    awaits replies.
    """

    seed: int
    past: Past = field(default_factory=Past)
    aliases: Mapping[int, str] = field(default_factory=dict)
    refused: frozenset[int] = frozenset()
    server_round: int = 0
    eligible: frozenset[int] = frozenset()
    batch: Batch | None = None
    stages: tuple[StageReport, ...] = ()


class RollCall(Selector[RollCallState]):
    """Asks nodes for their aliases when they first appear; subclasses implement `choose`.

    Only `RandomSelector` can resume a run, since the others are for simulations, which are short.
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
    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the indices of K clients in the order of choice.

        `aliases` names the eligible clients in alias order; there are more than K of them.
        """

    def initial_state(self) -> RollCallState:
        """Return the state before the first round."""
        return RollCallState(self.seed)

    def begin_round(
        self,
        state: RollCallState,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> tuple[RollCallState, Batch | Plan]:
        """Ask unknown nodes for their aliases, or choose if all are known."""
        connected = frozenset(present)
        state = replace(
            state,
            server_round=server_round,
            eligible=connected if eligible is None else connected & frozenset(eligible),
            batch=None,
            stages=(),
        )
        unknown = sorted(connected - state.aliases.keys() - state.refused)
        if not unknown:
            return self._plan(state, ())
        header = Envelope(secrets.token_bytes(EPOCH_ID_BYTES), Stage.HELLO.value, sequence=1)
        batch = Batch(header, dict.fromkeys(unknown, HelloRequest()))
        return replace(state, batch=batch), batch

    def step(self, state: RollCallState, replies: Replies) -> tuple[RollCallState, Batch | Plan]:
        """Store the aliases and choose."""
        if state.batch is None:
            raise SettingsError("No batch awaits replies; call begin_round first.")
        accepted: dict[int, HelloReply]
        accepted, report = accept_replies(state.batch, replies, lambda _node_id, _reply: None)
        willing = {node: reply.alias for node, reply in accepted.items() if reply.willing}
        aliases = {**state.aliases, **willing}
        state = replace(
            state,
            aliases={node_id: aliases[node_id] for node_id in alias_order(aliases)},
            refused=state.refused | (accepted.keys() - willing.keys()),
            batch=None,
        )
        return self._plan(state, (report,))

    def _plan(
        self, state: RollCallState, stages: tuple[StageReport, ...]
    ) -> tuple[RollCallState, Batch | Plan]:
        here = [node_id for node_id in state.aliases if node_id in state.eligible]
        if not here:
            raise QuorumError(
                f"Round {state.server_round}: no willing node is connected; wait for more nodes."
            )
        aliases = [state.aliases[node_id] for node_id in here]
        rng = generator(state.seed, "baseline", state.server_round)
        everybody = len(here) <= self.num_participants
        chosen = np.arange(len(here)) if everybody else self.choose(aliases, state.past, rng)
        past = state.past.followed_by(aliases[index] for index in chosen)
        ascending = np.sort(chosen)
        return replace(state, past=past), Plan(
            server_round=state.server_round,
            participants=tuple(here[index] for index in ascending),
            aliases=tuple(aliases[index] for index in ascending),
            num_registered=len(state.aliases),
            stages=stages,
        )


class RandomSelector(RollCall):
    """Chooses K clients uniformly at random in each round, or all if there are fewer than K.

    Parameters
    ----------
    num_participants : int
        ``K``.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw uniformly, whatever was drawn before."""
        del past
        return rng.choice(len(aliases), self.num_participants, replace=False)

    def state_dict(self, state: RollCallState) -> dict[str, Any]:
        """Return the seed, on which all choices depend."""
        return {"seed": state.seed}

    def load_state_dict(self, saved: dict[str, Any]) -> RollCallState:
        """Return the saved state, which does not contain the nodes' aliases."""
        return RollCallState(check_saved(saved, {"seed": int}, "selector")["seed"])
