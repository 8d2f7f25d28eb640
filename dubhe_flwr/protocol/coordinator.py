"""The server side of the protocol: a state machine from one stage to the next."""

import secrets
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.calibration import Calibration
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.fallback import goes_on
from dubhe_flwr.protocol.messages import MomentsReply, ParticipateReply
from dubhe_flwr.protocol.participation import Participation
from dubhe_flwr.protocol.plan import Batch, Plan, Replies
from dubhe_flwr.protocol.registration import Registration
from dubhe_flwr.protocol.renewal import is_over, is_refused
from dubhe_flwr.protocol.resume import restored_state, saved_state
from dubhe_flwr.protocol.search import Search
from dubhe_flwr.protocol.selector import Selector, accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState, noted, reported

__all__ = ["Coordinator"]


Step = tuple[CoordinatorState, Batch | Plan]


class Coordinator(Selector[CoordinatorState]):
    """Selects by Dubhe: registration, participation and determination under encryption.

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._registration = Registration(settings)
        self._search = Search(settings)
        self._calibration = Calibration(settings)
        self._participation = Participation(settings)

    @property
    def num_participants(self) -> int:
        """``K``."""
        return self.settings.num_participants

    def initial_state(self) -> CoordinatorState:
        """Return the state before the first round."""
        seed = self.settings.seed
        return CoordinatorState(seed=secrets.randbits(63) if seed is None else seed)

    def search_again(self, state: CoordinatorState) -> CoordinatorState:
        """Return the state that registers and searches for thresholds before the next round."""
        return replace(state, epoch=None, thresholds=None, searched=frozenset())

    def state_dict(self, state: CoordinatorState) -> dict[str, Any]:
        """Return seed, epoch and drawn rounds; no key, since the server has none."""
        return saved_state(state)

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool) -> CoordinatorState:
        """Return the state that was saved; without its epoch if that cannot go on."""
        return restored_state(self.settings, saved, interrupted=interrupted)

    def begin_round(
        self,
        state: CoordinatorState,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> Step:
        """Begin a round: register anew if it is time, draw if the round is not drawn yet."""
        self._check_federation(state, len(present))
        state = self._at_begin(state, server_round, present, eligible)
        return goes_on(self.settings, state, lambda: self._begin(state))

    @staticmethod
    def _at_begin(
        state: CoordinatorState,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None,
    ) -> CoordinatorState:
        # A round whose exchange was given up halfway is drawn anew.
        rounds = {
            r: drawn
            for r, drawn in state.rounds.items()
            if r >= server_round and drawn.chosen is not None
        }
        here = frozenset(present)
        same = eligible is None or eligible is present
        return replace(
            state,
            server_round=server_round,
            present=here,
            eligible=here if same else frozenset(eligible or ()),
            batch=None,
            expectations={},
            enrolment=None,
            unwilling=frozenset(),
            rounds=rounds,
            num_renewals=0,
            heeded=frozenset(),
            notes=(),
            stages=(),
        )

    def _begin(self, state: CoordinatorState) -> Step:
        epoch = state.epoch
        # Nobody is asked for moments twice: two sums would tell who is in one of them only.
        if epoch is None or not epoch.is_settled or is_over(self.settings, state, epoch):
            return self._registration.begin(state)
        return self._or_anew(*self._participation.begin(state, epoch))

    def step(self, state: CoordinatorState, replies: Replies) -> Step:
        """Go on with the replies to the last batch."""
        batch = state.batch
        if batch is None:
            raise SettingsError("No batch awaits replies; call begin_round first.")
        return goes_on(self.settings, state, lambda: self._step(state, batch, replies))

    def _step(self, state: CoordinatorState, batch: Batch, replies: Replies) -> Step:
        if is_refused(self.settings, state, batch, replies):
            return self._renew(state, batch, replies)
        if state.enrolment is not None:
            state, outcome = self._registration.step(state, state.enrolment, replies)
            return self._go_on(state, outcome)
        epoch = state.epoch
        assert epoch is not None  # noqa: S101 - complete after the registration
        if epoch.candidate is None:
            state, outcome = self._search.step(state, epoch, batch, replies)
            return self._go_on(state, outcome)
        if epoch.probabilities is None:
            state, outcome = self._calibration.step(state, epoch, batch, replies)
            return self._go_on(state, outcome)
        return self._or_anew(*self._participation.step(state, epoch, batch, replies))

    def _renew(self, state: CoordinatorState, batch: Batch, replies: Replies) -> Step:
        """End an epoch that the nodes refuse, and register anew in the same round."""
        said_no: set[int] = set()

        def note_who_says_no(node_id: int, reply: ParticipateReply | MomentsReply) -> None:
            if isinstance(reply, ParticipateReply) and reply.unwilling[:1] >= b"\x80":
                said_no.add(node_id)

        _, report = accept_replies(batch, replies, note_who_says_no)
        refused = f"{report.dropped['error reply']} of {report.sent} nodes refused at"
        state = noted(
            reported(state, report), f"{refused} {report.stage}; the epoch ends and all register."
        )
        state = replace(state, unwilling=frozenset(said_no), num_renewals=state.num_renewals + 1)
        return self._registration.begin(state)

    def _go_on(self, state: CoordinatorState, outcome: Batch | Epoch) -> Step:
        return (state, outcome) if isinstance(outcome, Batch) else self._settled(state, outcome)

    def _settled(self, state: CoordinatorState, epoch: Epoch) -> Step:
        """Let the nodes draw, once it is settled how they compute their probabilities."""
        if epoch.candidate is None:
            return self._search.begin(state, epoch)
        if epoch.probabilities is None:
            if self.settings.participation == "calibrated":
                return self._calibration.begin(state, epoch)
            epoch = replace(epoch, probabilities=b"")
        return self._or_anew(*self._participation.begin(state, epoch))

    def _or_anew(self, state: CoordinatorState, outcome: Batch | Plan | None) -> Step:
        """Begin a new epoch where the nodes have forgotten that of the checkpoint."""
        if outcome is not None:
            return state, outcome
        return self._registration.begin(
            noted(state, "The nodes do not know the epoch of the checkpoint; a new one begins.")
        )

    def _check_federation(self, state: CoordinatorState, num_present: int) -> None:
        if state.server_round > 0:
            return  # whatever came or went since, the run goes on
        by_chance = self.settings.on_failure == "random"
        if self.settings.num_participants > num_present and not by_chance:
            raise SettingsError(
                f"num_participants={self.settings.num_participants} is above the {num_present} "
                "nodes that are there; select fewer or wait for more nodes."
            )
        if num_present > self.settings.max_clients:
            raise SettingsError(
                f"max_clients={self.settings.max_clients} is below the {num_present} nodes that "
                "are there; raise it."
            )
