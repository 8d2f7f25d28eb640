"""The server side of the protocol: a state machine from one stage to the next."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dubhe_flwr.core import generator
from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.he import PublicKey
from dubhe_flwr.protocol.epoch import Enrolment, Epoch
from dubhe_flwr.protocol.messages import (
    EPOCH_ID_BYTES,
    DetermineReply,
    Envelope,
    JoinReply,
    JoinRequest,
    JoinStatus,
    KeygenReply,
    Message,
    ParticipateReply,
    ParticipateRequest,
    RegisterReply,
    Stage,
)
from dubhe_flwr.protocol.parameters import DISTRIBUTION, REGISTRY, epoch_parameters
from dubhe_flwr.protocol.plan import Batch, Plan, Replies, StageReport
from dubhe_flwr.protocol.rounds import (
    DrawnRound,
    choose_agents,
    determine_requests,
    drawn_rounds,
    participants,
)
from dubhe_flwr.protocol.selector import Selector, accept_replies
from dubhe_flwr.protocol.settings import Settings

__all__ = ["Coordinator", "CoordinatorState"]


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
    present : frozenset of int
        Ids of the nodes that may be chosen in it.
    batch : Batch or None
        What was sent and awaits replies.
    enrolment : Enrolment or None
        The epoch in the making.
    epoch : Epoch or None
        The epoch that is on.
    rounds : mapping of int to DrawnRound
        The rounds drawn so far that have not begun.
    asked_about : mapping of int to list of int
        The rounds that each agent was asked to determine.
    failed_agents : frozenset of int
        Agents that failed in this stage: node ids at keygen, indices at determination.
    attempt : int
        How many times the agents of this stage were asked.
    notes : tuple of str
        What did not go as planned in this round.
    stages : tuple of StageReport
        The exchanges of this round so far.
    """

    seed: int
    sequence: int = 0
    server_round: int = 0
    present: frozenset[int] = frozenset()
    batch: Batch | None = None
    enrolment: Enrolment | None = None
    epoch: Epoch | None = None
    rounds: Mapping[int, DrawnRound] = field(default_factory=dict)
    asked_about: Mapping[int, Sequence[int]] = field(default_factory=dict)
    failed_agents: frozenset[int] = frozenset()
    attempt: int = 0
    notes: tuple[str, ...] = ()
    stages: tuple[StageReport, ...] = ()


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

    @property
    def num_participants(self) -> int:
        """``K``."""
        return self.settings.num_participants

    def initial_state(self) -> CoordinatorState:
        """Return the state before the first round."""
        seed = self.settings.seed
        return CoordinatorState(seed=secrets.randbits(63) if seed is None else seed)

    def begin_round(
        self, state: CoordinatorState, server_round: int, present: Sequence[int]
    ) -> Step:
        """Begin a round: register anew if it is time, draw if the round is not drawn yet."""
        self._check_federation(state, len(present))
        rounds = {r: drawn for r, drawn in state.rounds.items() if r >= server_round}
        state = replace(
            state,
            server_round=server_round,
            present=frozenset(present),
            batch=None,
            rounds=rounds,
            notes=(),
            stages=(),
        )
        if state.epoch is None or self._is_over(state, state.epoch):
            return self._join(state)
        if server_round in rounds:
            return self._plan(state, state.epoch)
        return self._participate(state, state.epoch)

    def step(self, state: CoordinatorState, replies: Replies) -> Step:
        """Go on with the replies to the last batch."""
        if state.batch is None:
            raise SettingsError("No batch awaits replies; call begin_round first.")
        follow: dict[str, Callable[[CoordinatorState, Batch, Replies], Step]] = {
            Stage.JOIN: self._on_join,
            Stage.KEYGEN: self._on_keygen,
            Stage.REGISTER: self._on_register,
            Stage.PARTICIPATE: self._on_participate,
            Stage.DETERMINE: self._on_determine,
        }
        return follow[state.batch.header.stage](state, state.batch, replies)

    # -- registration -----------------------------------------------------------------------

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
        newcomers = len(state.present - epoch.asked)
        many = max(self.settings.min_cohort, self.settings.max_unregistered * len(state.present))
        tries = self._num_tries(epoch)
        rounds_of_agents = len(epoch.registered) * (epoch.sums_per_agent // tries)
        interval = self.settings.registration_interval
        if tries > 1:
            interval = min(interval, max(1, rounds_of_agents))
        return state.server_round >= epoch.first_round + interval or newcomers >= many

    def _num_tries(self, epoch: Epoch) -> int:
        return max(1, min(self.settings.tries, epoch.sums_per_agent))

    def _join(self, state: CoordinatorState) -> Step:
        settings = self.settings
        thresholds = settings.thresholds or {}
        announced = JoinRequest(
            reference_set=settings.codebook.reference_set,
            thresholds=tuple(thresholds.values()),
            num_participants=settings.num_participants,
            key_bits=settings.key_bits,
            max_clients=settings.max_clients,
            min_cohort=settings.min_cohort,
            max_draws=settings.max_draws_per_epoch,
            max_sums=settings.max_sums_per_epoch,
            seed=-1 if settings.seed is None else settings.seed,
        )
        enrolment = Enrolment(
            identity=secrets.token_bytes(EPOCH_ID_BYTES),
            first_round=state.server_round,
            parameters=epoch_parameters(announced),
            asked=state.present,
        )
        state = replace(state, epoch=None, enrolment=enrolment, rounds={}, asked_about={})
        requests = dict.fromkeys(sorted(state.present), announced)
        return self._send(state, enrolment.identity, Stage.JOIN, requests)

    def _on_join(self, state: CoordinatorState, batch: Batch, replies: Replies) -> Step:
        def refuse(_node_id: int, reply: JoinReply) -> str | None:
            joins = reply.status == JoinStatus.JOINS
            return None if joins else JoinStatus(reply.status).name.lower().replace("_", " ")

        accepted, report = accept_replies(batch, replies, refuse)
        state = replace(state, stages=(*state.stages, report))
        self._check_quorum(state, len(accepted), "joined")
        enrolment = _enrolment(state).joined(accepted)
        agents = generator(state.seed, "keygen", state.server_round).permutation(
            len(enrolment.aliases)
        )
        order = tuple(enrolment.aliases)
        enrolment = replace(enrolment, agents=tuple(order[index] for index in agents))
        return self._keygen(replace(state, enrolment=enrolment, attempt=0))

    def _keygen(self, state: CoordinatorState) -> Step:
        enrolment = _enrolment(state)
        if state.attempt >= min(self.settings.agent_attempts, len(enrolment.agents)):
            raise QuorumError(
                f"{state.attempt} agents in turn made no key; look at their logs or raise "
                "agent_attempts."
            )
        agent = enrolment.agents[state.attempt]
        state = replace(state, attempt=state.attempt + 1)
        request = enrolment.keygen_request()
        return self._send(state, enrolment.identity, Stage.KEYGEN, {agent: request})

    def _on_keygen(self, state: CoordinatorState, batch: Batch, replies: Replies) -> Step:
        enrolment = _enrolment(state)

        def refuse(_node_id: int, reply: KeygenReply) -> str | None:
            return enrolment.refuse_keygen(reply)

        accepted, report = accept_replies(batch, replies, refuse)
        state = replace(state, stages=(*state.stages, report))
        if not accepted:
            return self._keygen(_noted(state, "An agent made no key; another one is asked."))
        ((agent, reply),) = accepted.items()
        public_key = PublicKey.from_bytes(reply.modulus, enrolment.parameters.layout.key_bits)
        state = replace(state, enrolment=replace(enrolment, public_key=public_key))
        requests = enrolment.register_requests(agent, reply)
        return self._send(state, enrolment.identity, Stage.REGISTER, requests)

    def _on_register(self, state: CoordinatorState, batch: Batch, replies: Replies) -> Step:
        enrolment = _enrolment(state)
        layout = enrolment.parameters.layout

        def refuse(_node_id: int, reply: RegisterReply) -> str | None:
            sizes = len(reply.registry), len(reply.distribution)
            wanted = layout.field_bytes(REGISTRY), layout.field_bytes(DISTRIBUTION)
            return None if sizes == wanted else "wrong size of ciphertexts"

        accepted, report = accept_replies(batch, replies, refuse)
        invalid = enrolment.invalid_registrations(accepted)
        if invalid:
            accepted = {node: reply for node, reply in accepted.items() if node not in invalid}
            report = report.without(len(invalid), "invalid ciphertext")
        state = replace(state, stages=(*state.stages, report))
        self._check_quorum(state, len(accepted), "registered")
        epoch = enrolment.registered(accepted)
        return self._participate(replace(state, enrolment=None, epoch=epoch), epoch)

    # -- rounds -----------------------------------------------------------------------------

    def _participate(self, state: CoordinatorState, epoch: Epoch) -> Step:
        last_round = epoch.first_round + self.settings.registration_interval - 1
        request = ParticipateRequest(
            overall_registry=epoch.overall_registry,
            num_registered=len(epoch.registered),
            first_round=state.server_round,
            num_rounds=min(self.settings.rounds_per_draw, last_round - state.server_round + 1),
            num_tries=self._num_tries(epoch),
        )
        here = [node_id for node_id in epoch.registered if node_id in state.present]
        self._check_quorum(state, len(here), "registered and there")
        return self._send(state, epoch.identity, Stage.PARTICIPATE, dict.fromkeys(here, request))

    def _on_participate(self, state: CoordinatorState, batch: Batch, replies: Replies) -> Step:
        epoch = _epoch(state)
        request = next(iter(batch.requests.values()))
        assert isinstance(request, ParticipateRequest)  # noqa: S101 - as sent above
        num_bits = request.num_rounds * request.num_tries

        def refuse(_node_id: int, reply: ParticipateReply) -> str | None:
            sizes = len(reply.decisions), len(reply.unwilling)
            wanted = -(-num_bits // 8), -(-request.num_rounds // 8)
            return None if sizes == wanted else "wrong number of draws"

        accepted, report = accept_replies(batch, replies, refuse)
        state = replace(state, stages=(*state.stages, report), failed_agents=frozenset(), attempt=0)
        drawn = drawn_rounds(epoch, request, accepted)
        willing = int(drawn[state.server_round].available.sum())
        self._check_quorum(state, willing, "registered and willing")
        return self._determine(state, epoch, drawn)

    def _determine(
        self, state: CoordinatorState, epoch: Epoch, drawn: Mapping[int, DrawnRound]
    ) -> Step:
        """Ask an agent about each of the rounds that has none yet."""
        drawn = choose_agents(epoch, drawn, self.num_participants, state.seed, state.failed_agents)
        state = replace(state, rounds={**state.rounds, **drawn}, attempt=state.attempt + 1)
        requests, asked_about = determine_requests(epoch, drawn)
        if not requests:
            return self._plan(state, epoch)
        num_sums = dict(epoch.num_sums)
        for agent, request in requests.items():
            num_sums[agent] = num_sums.get(agent, 0) + request.num_rounds * request.num_tries
        epoch = replace(epoch, num_sums=num_sums)
        state = replace(state, epoch=epoch, asked_about=asked_about)
        return self._send(state, epoch.identity, Stage.DETERMINE, requests)

    def _on_determine(self, state: CoordinatorState, batch: Batch, replies: Replies) -> Step:
        epoch = _epoch(state)

        def refuse(node_id: int, reply: DetermineReply) -> str | None:
            asked = state.asked_about[node_id]
            fits = len(reply.best) == len(asked) and all(
                0 <= best < len(state.rounds[r].tries)
                for best, r in zip(reply.best, asked, strict=True)
            )
            return None if fits else "no such try"

        accepted, report = accept_replies(batch, replies, refuse)
        state = replace(state, stages=(*state.stages, report))
        rounds = dict(state.rounds)
        undetermined: dict[int, DrawnRound] = {}
        failed = set(state.failed_agents)
        for agent, asked in state.asked_about.items():
            if agent in accepted:
                for server_round, best in zip(asked, accepted[agent].best, strict=True):
                    rounds[server_round] = replace(rounds[server_round], chosen=best)
            else:
                failed.add(epoch.registered.index(agent))
                undetermined |= {r: rounds[r] for r in asked}
        state = replace(state, rounds=rounds, failed_agents=frozenset(failed))
        if undetermined and state.attempt < self.settings.agent_attempts:
            state = _noted(state, "An agent did not determine; another one is asked.")
            return self._determine(state, epoch, undetermined)
        if undetermined:
            first_tries = {r: replace(drawn, chosen=0) for r, drawn in undetermined.items()}
            state = replace(state, rounds={**rounds, **first_tries})
            state = _noted(state, "No agent determined; the first try is taken.")
        return self._plan(state, epoch)

    def _plan(self, state: CoordinatorState, epoch: Epoch) -> Step:
        server_round, drawn = state.server_round, state.rounds[state.server_round]
        chosen = participants(epoch, drawn, state.present, state.seed, server_round)
        self._check_quorum(state, len(chosen), "registered and there")
        if len(chosen) < self.num_participants:
            state = _noted(
                state, f"Only {len(chosen)} of {self.num_participants} clients can train."
            )
        plan = Plan(
            server_round=server_round,
            participants=chosen,
            aliases=tuple(epoch.aliases[node_id] for node_id in chosen),
            epoch=epoch.identity,
            num_registered=len(epoch.registered),
            tries=len(drawn.tries),
            chosen_try=drawn.chosen or 0,
            notes=state.notes,
            stages=state.stages,
        )
        return replace(state, batch=None, asked_about={}), plan

    # -- common -----------------------------------------------------------------------------

    def _send(
        self,
        state: CoordinatorState,
        epoch: bytes,
        stage: Stage,
        requests: Mapping[int, Message],
    ) -> Step:
        header = Envelope(epoch=epoch, stage=stage.value, sequence=state.sequence + 1)
        batch = Batch(header, requests)
        return replace(state, batch=batch, sequence=header.sequence), batch

    def _check_quorum(self, state: CoordinatorState, num_nodes: int, what: str) -> None:
        quorum = self.settings.quorum or 0
        if num_nodes < quorum:
            reasons = [
                f"{number} {reason} at {report.stage}"
                for report in state.stages
                for reason, number in report.dropped.items()
            ]
            raise QuorumError(
                f"Round {state.server_round}: {num_nodes} nodes are {what}, fewer than "
                f"quorum={quorum} ({', '.join(reasons) or 'no reply was dropped'}); "
                "wait for more nodes or lower the quorum."
            )


def _noted(state: CoordinatorState, note: str) -> CoordinatorState:
    return replace(state, notes=(*state.notes, note))


def _enrolment(state: CoordinatorState) -> Enrolment:
    assert state.enrolment is not None  # noqa: S101 - begun by the join stage
    return state.enrolment


def _epoch(state: CoordinatorState) -> Epoch:
    assert state.epoch is not None  # noqa: S101 - complete after the register stage
    return state.epoch
