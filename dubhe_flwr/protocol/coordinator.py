"""The server side of the protocol: a state machine from one stage to the next."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.calibration import Calibration
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import (
    DetermineReply,
    ParticipateReply,
    ParticipateRequest,
    Stage,
)
from dubhe_flwr.protocol.plan import Batch, Plan, Replies
from dubhe_flwr.protocol.registration import Registration
from dubhe_flwr.protocol.rounds import (
    DrawnRound,
    choose_agents,
    determine_requests,
    drawn_rounds,
    has_choice,
    is_selection,
    participants,
)
from dubhe_flwr.protocol.selector import Selector, accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState, check_quorum, noted, reported, send

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
        self._calibration = Calibration(settings)

    @property
    def num_participants(self) -> int:
        """``K``."""
        return self.settings.num_participants

    def initial_state(self) -> CoordinatorState:
        """Return the state before the first round."""
        seed = self.settings.seed
        return CoordinatorState(seed=secrets.randbits(63) if seed is None else seed)

    def begin_round(
        self,
        state: CoordinatorState,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> Step:
        """Begin a round: register anew if it is time, draw if the round is not drawn yet."""
        self._check_federation(state, len(present))
        # A round whose exchange was given up halfway is drawn anew.
        rounds = {
            r: drawn
            for r, drawn in state.rounds.items()
            if r >= server_round and drawn.chosen is not None
        }
        state = replace(
            state,
            server_round=server_round,
            present=frozenset(present),
            eligible=frozenset(present if eligible is None else eligible),
            batch=None,
            rounds=rounds,
            notes=(),
            stages=(),
        )
        epoch = state.epoch
        # Nobody is asked for moments twice: two sums would tell who is in one of them only.
        if epoch is None or epoch.probabilities is None or self._is_over(state, epoch):
            return self._registration.begin(state)
        if server_round in rounds:
            return self._plan(state, epoch)
        return self._participate(state, epoch)

    def step(self, state: CoordinatorState, replies: Replies) -> Step:
        """Go on with the replies to the last batch."""
        batch = state.batch
        if batch is None:
            raise SettingsError("No batch awaits replies; call begin_round first.")
        if state.enrolment is not None:
            state, outcome = self._registration.step(state, state.enrolment, replies)
            return self._go_on(state, outcome)
        epoch = state.epoch
        assert epoch is not None  # noqa: S101 - complete after the registration
        if epoch.probabilities is None:
            state, outcome = self._calibration.step(state, epoch, batch, replies)
            return self._go_on(state, outcome)
        if batch.header.stage == Stage.PARTICIPATE:
            return self._on_participate(state, epoch, batch, replies)
        return self._on_determine(state, epoch, batch, replies)

    def _go_on(self, state: CoordinatorState, outcome: Batch | Epoch) -> Step:
        return (state, outcome) if isinstance(outcome, Batch) else self._settled(state, outcome)

    def _settled(self, state: CoordinatorState, epoch: Epoch) -> Step:
        """Let the nodes draw, once it is settled how they compute their probabilities."""
        if epoch.probabilities is None:
            if self.settings.participation == "calibrated":
                return self._calibration.begin(state, epoch)
            epoch = replace(epoch, probabilities=b"")
        return self._participate(state, epoch)

    def _check_federation(self, state: CoordinatorState, num_present: int) -> None:
        if state.server_round == 0 and self.settings.num_participants > num_present:
            raise SettingsError(
                f"num_participants={self.settings.num_participants} is above the {num_present} "
                "nodes that are there; select fewer or wait for more nodes."
            )
        if num_present > self.settings.max_clients:
            raise SettingsError(
                f"max_clients={self.settings.max_clients} is below the {num_present} nodes that "
                "are there; raise it."
            )

    def _is_over(self, state: CoordinatorState, epoch: Epoch) -> bool:
        """Tell whether it is time to register anew."""
        # After rounds that were given up, the draws may be spent before the interval is over.
        left, num_tries = self._draws_left(epoch), self._num_tries(epoch)
        spent = state.server_round not in state.rounds and left < num_tries
        return (
            state.server_round > self._last_round(epoch)
            or self._many_are_unregistered(state, epoch)
            or spent
        )

    def _many_are_unregistered(self, state: CoordinatorState, epoch: Epoch) -> bool:
        """Tell whether too many nodes are new, or were lost while they registered.

        Those that were lost count after a while only: what lost them may lose them again.
        """
        many = max(self.settings.min_cohort, self.settings.max_unregistered * len(state.present))
        if len(state.present - epoch.asked) >= many:
            return True
        a_while = -(-self.settings.registration_interval // 5)
        unregistered = state.present - epoch.aliases.keys() - epoch.declined
        return len(unregistered) >= many and state.server_round >= epoch.first_round + a_while

    def _last_round(self, epoch: Epoch) -> int:
        """Return the last round of an epoch: the interval is over, or its agents are used up."""
        interval = self.settings.registration_interval
        to_decrypt = epoch.sums_per_round(self._num_tries(epoch))
        if to_decrypt:
            rounds_of_agents = len(epoch.registered) * (epoch.sums_per_agent // to_decrypt)
            interval = min(interval, max(1, rounds_of_agents))
        return epoch.first_round + interval - 1

    def _draws_left(self, epoch: Epoch) -> int:
        return self.settings.max_draws_per_epoch - epoch.num_draws

    def _num_tries(self, epoch: Epoch) -> int:
        return max(1, min(self.settings.draws_per_round, epoch.sums_per_agent))

    def _participate(self, state: CoordinatorState, epoch: Epoch) -> Step:
        num_tries = self._num_tries(epoch)
        num_rounds = min(
            self.settings.rounds_per_draw,
            self._last_round(epoch) - state.server_round + 1,
            self._draws_left(epoch) // num_tries,
        )
        request = ParticipateRequest(
            overall_registry=epoch.overall_registry,
            num_registered=len(epoch.registered),
            probabilities=epoch.probabilities or b"",
            first_round=state.server_round,
            num_rounds=num_rounds,
            num_tries=num_tries,
        )
        here = [node_id for node_id in epoch.registered if node_id in state.present]
        check_quorum(state, len(here), "registered and there", self.settings.quorum)
        epoch = replace(epoch, num_draws=epoch.num_draws + num_rounds * num_tries)
        state = replace(state, epoch=epoch)
        return send(state, epoch.identity, Stage.PARTICIPATE, dict.fromkeys(here, request))

    def _on_participate(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:
        request = next(iter(batch.requests.values()))
        assert isinstance(request, ParticipateRequest)  # noqa: S101 - as sent above
        num_bits = request.num_rounds * request.num_tries

        def refuse(_node_id: int, reply: ParticipateReply) -> str | None:
            sizes = len(reply.decisions), len(reply.unwilling)
            wanted = -(-num_bits // 8), -(-request.num_rounds // 8)
            return None if sizes == wanted else "wrong number of draws"

        accepted, report = accept_replies(batch, replies, refuse)
        state = replace(reported(state, report), failed_agents=frozenset(), attempt=0)
        drawn = drawn_rounds(epoch, request, accepted)
        this_round = drawn[state.server_round]
        allowed = np.array([node_id in state.eligible for node_id in epoch.registered])
        this_round = replace(this_round, available=this_round.available & allowed)
        drawn[state.server_round] = this_round
        willing = int(this_round.available.sum())
        check_quorum(state, willing, "registered and willing", self.settings.quorum)
        return self._determine(state, epoch, drawn)

    def _determine(
        self, state: CoordinatorState, epoch: Epoch, drawn: Mapping[int, DrawnRound]
    ) -> Step:
        """Ask an agent about each of the rounds that has none yet."""
        drawn = choose_agents(epoch, drawn, state.seed, state.failed_agents)
        state = replace(state, rounds={**state.rounds, **drawn}, attempt=state.attempt + 1)
        if any(r.agent is None and has_choice(epoch, r) for r in drawn.values()):
            state = noted(state, "No agent is left to determine; the choice is random.")
        requests, asked_about = determine_requests(epoch, drawn)
        if not requests:
            return self._plan(state, epoch)
        num_sums = dict(epoch.num_sums)
        for agent, request in requests.items():
            num_sums[agent] = num_sums.get(agent, 0) + sum(request.num_sums)
        epoch = replace(epoch, num_sums=num_sums)
        state = replace(state, epoch=epoch, asked_about=asked_about)
        return send(state, epoch.identity, Stage.DETERMINE, requests)

    def _on_determine(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:

        def refuse(node_id: int, reply: DetermineReply) -> str | None:
            drawn = [state.rounds[r] for r in state.asked_about[node_id]]
            fits = len(reply.chosen) == sum(len(d.fallback) for d in drawn) and all(
                is_selection(d, chosen)
                for d, chosen in zip(drawn, _by_round(reply.chosen, drawn), strict=True)
            )
            return None if fits else "no such try or groups"

        accepted, report = accept_replies(batch, replies, refuse)
        state = reported(state, report)
        rounds = dict(state.rounds)
        undetermined: dict[int, DrawnRound] = {}
        failed = set(state.failed_agents)
        for agent, asked in state.asked_about.items():
            if agent in accepted:
                drawn = [rounds[r] for r in asked]
                chosen = _by_round(accepted[agent].chosen, drawn)
                rounds |= {
                    r: replace(d, chosen=c) for r, d, c in zip(asked, drawn, chosen, strict=True)
                }
            else:
                failed.add(epoch.registered.index(agent))
                undetermined |= {r: rounds[r] for r in asked}
        state = replace(state, rounds=rounds, failed_agents=frozenset(failed))
        if undetermined and state.attempt < self.settings.agent_attempts:
            state = noted(state, "An agent did not determine.")
            return self._determine(state, epoch, undetermined)
        if undetermined:
            random = {r: replace(d, chosen=d.fallback) for r, d in undetermined.items()}
            state = replace(state, rounds={**rounds, **random})
            state = noted(state, "No agent determined; the choice is random.")
        return self._plan(state, epoch)

    def _plan(self, state: CoordinatorState, epoch: Epoch) -> Step:
        server_round, drawn = state.server_round, state.rounds[state.server_round]
        here = state.present & state.eligible
        chosen = participants(epoch, drawn, here, state.seed, server_round)
        num_willing = sum(
            node_id in here
            for node_id, available in zip(epoch.registered, drawn.available, strict=True)
            if available
        )
        check_quorum(state, num_willing, "registered, willing and there", self.settings.quorum)
        if len(chosen) < self.num_participants:
            state = noted(
                state, f"Only {len(chosen)} of {self.num_participants} clients can train."
            )
        plan = Plan(
            server_round=server_round,
            participants=chosen,
            aliases=tuple(epoch.aliases[node_id] for node_id in chosen),
            epoch=epoch.identity,
            num_registered=len(epoch.registered),
            num_selections=len(drawn.selections),
            chosen=drawn.chosen or (),
            notes=state.notes,
            stages=state.stages,
        )
        return replace(state, batch=None, asked_about={}), plan


def _by_round(chosen: Sequence[int], drawn: Sequence[DrawnRound]) -> list[tuple[int, ...]]:
    """Split an agent's answer into those for its rounds."""
    ends = list(accumulate((len(d.fallback) for d in drawn), initial=0))
    return [tuple(chosen[begin:end]) for begin, end in pairwise(ends)]
