"""Registration on the server: nodes join, an agent makes the key, all register, blocks pass."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

from dubhe_flwr.core import generator
from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.he import PublicKey, TrustedKeys
from dubhe_flwr.protocol.arrivals import Arrivals
from dubhe_flwr.protocol.block_check import BlockCheck
from dubhe_flwr.protocol.enrolment import Enrolment
from dubhe_flwr.protocol.envelope import EPOCH_ID_BYTES
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import (
    JoinReply,
    JoinStatus,
    KeygenReply,
    Stage,
)
from dubhe_flwr.protocol.parameters import epoch_parameters
from dubhe_flwr.protocol.plan import Batch, Replies
from dubhe_flwr.protocol.registrations import Registrations, read_registrations
from dubhe_flwr.protocol.selector import accept_replies, take_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import (
    CoordinatorState,
    agents_in_turn,
    check_quorum,
    give_up,
    heeded,
    noted,
    reported,
    send,
)
from dubhe_flwr.protocol.statements import join_statement

__all__ = ["Registration"]

Step = tuple[CoordinatorState, Batch | Epoch]


class Registration:
    """Begins an epoch: the stages join, keygen, register and, with blocks, check.

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._block_check = BlockCheck(settings)

    def begin(self, state: CoordinatorState) -> tuple[CoordinatorState, Batch]:
        """Ask all nodes that are there to join a new epoch, or as many as the counters hold."""
        num_nodes = min(len(state.present), self.settings.max_clients)
        announced = self.settings.announced(num_nodes, self._found(state))
        asked = sorted(state.present)
        surplus = len(asked) - announced.max_clients
        if surplus > 0:
            lots = generator(state.seed, "surplus", state.server_round).permutation(len(asked))
            asked = sorted(asked[lot] for lot in lots[surplus:])
            state = noted(
                state,
                f"max_clients={announced.max_clients} is below the {len(state.present)} nodes "
                f"that are there: {surplus} stay out of this epoch; raise it.",
            )
        enrolment = Enrolment(
            identity=secrets.token_bytes(EPOCH_ID_BYTES),
            first_round=state.server_round,
            parameters=epoch_parameters(announced),
            asked=state.present if surplus <= 0 else frozenset(asked),
        )
        state = replace(
            state, epoch=None, enrolment=enrolment, rounds={}, attempt=0, restored=False
        )
        requests = dict.fromkeys(asked, announced)
        return send(state, enrolment.identity, Stage.JOIN, requests)

    def _found(self, state: CoordinatorState) -> Mapping[int, float] | None:
        """Return the thresholds that a search found among mostly the same nodes."""
        changed = len(state.present ^ state.searched)
        stale = changed > self.settings.max_changed * max(1, len(state.searched))
        return None if stale else state.thresholds

    def step(self, state: CoordinatorState, enrolment: Enrolment, replies: Replies) -> Step:
        """Go on with the replies to the last batch, until the epoch is complete."""
        assert state.batch is not None  # noqa: S101 - an enrolment always awaits replies
        follow: dict[str, Callable[[CoordinatorState, Enrolment, Batch, Replies], Step]] = {
            Stage.JOIN: self._on_join,
            Stage.KEYGEN: self._on_keygen,
            Stage.REGISTER: self._on_register,
            Stage.CHECK: self._on_check,
        }
        return follow[state.batch.header.stage](state, enrolment, state.batch, replies)

    def _on_join(
        self, state: CoordinatorState, enrolment: Enrolment, batch: Batch, replies: Replies
    ) -> Step:
        seen: set[bytes] = set()
        signers: set[bytes] = set()
        trusted = self.settings.trusted
        declined: set[int] = set()

        def take(node_id: int, reply: JoinReply) -> str | None:
            if reply.status != JoinStatus.JOINS:
                declined.add(node_id)
                return JoinStatus(reply.status).name.lower().replace("_", " ")
            if (reason := _untrusted(trusted, enrolment, reply, signers)) is not None:
                return reason
            if reply.public_key in seen:  # an agent would refuse them all
                return "public key of another node"
            seen.add(reply.public_key)
            arrivals.add(node_id, reply)
            return None

        arrivals = Arrivals()
        report = take_replies(batch, replies, take)
        enrolment = replace(enrolment.joined(arrivals), declined=frozenset(declined))
        no = declined | (state.declined - arrivals.aliases.keys())
        known = {n: alias for n, alias in state.aliases.items() if n in state.present}
        state = replace(
            state,
            enrolment=enrolment,
            aliases={**known, **arrivals.aliases},
            declined=frozenset(no),
        )
        state = reported(state, report)
        check_quorum(state, report.accepted, "joined", self.settings.quorum)
        agents = agents_in_turn(state, tuple(enrolment.aliases), "keygen", state.server_round)
        enrolment = replace(enrolment, agents=agents)
        return self._keygen(replace(state, enrolment=enrolment), enrolment)

    def _keygen(self, state: CoordinatorState, enrolment: Enrolment) -> Step:
        if state.attempt >= min(self.settings.agent_attempts, len(enrolment.agents)):
            give_up(
                state,
                f"{state.attempt} agents in turn made no key; look at their logs or raise "
                "agent_attempts.",
            )
        agent = enrolment.agents[state.attempt]
        state = replace(state, attempt=state.attempt + 1)
        request = enrolment.keygen_request()
        return send(state, enrolment.identity, Stage.KEYGEN, {agent: request})

    def _on_keygen(
        self, state: CoordinatorState, enrolment: Enrolment, batch: Batch, replies: Replies
    ) -> Step:

        def refuse(_node_id: int, reply: KeygenReply) -> str | None:
            return enrolment.refuse_keygen(reply)

        accepted, report = accept_replies(batch, replies, refuse)
        state = reported(state, report)
        if not accepted:
            state = noted(state, "An agent made no key; another one is asked.")
            return self._keygen(state, enrolment)
        ((agent, reply),) = accepted.items()
        state = heeded(state, [agent])
        public_key = PublicKey.from_bytes(reply.modulus, enrolment.parameters.layout.key_bits)
        state = replace(state, enrolment=replace(enrolment, public_key=public_key))
        requests = enrolment.register_requests(agent, reply)
        return send(state, enrolment.identity, Stage.REGISTER, requests)

    def _on_register(
        self, state: CoordinatorState, enrolment: Enrolment, batch: Batch, replies: Replies
    ) -> Step:
        registrations, report = read_registrations(
            batch,
            replies,
            enrolment.parameters,
            enrolment.paillier_key(),
            keep_replies=self.settings.block_size > 0,
        )
        state = reported(state, report)
        num_registered = len(registrations.node_ids)
        if num_registered < self.settings.quorum and state.attempt < self.settings.agent_attempts:
            state = noted(state, "The key of an agent did not open; another one is asked.")
            return self._keygen(state, enrolment)
        check_quorum(state, num_registered, "registered", self.settings.quorum)
        return self._or_epoch(*self._block_check.begin(state, enrolment, registrations))

    def _on_check(
        self, state: CoordinatorState, enrolment: Enrolment, batch: Batch, replies: Replies
    ) -> Step:
        return self._or_epoch(*self._block_check.step(state, enrolment, batch, replies))

    def _or_epoch(self, state: CoordinatorState, outcome: Batch | Registrations) -> Step:
        if isinstance(outcome, Batch):
            return state, outcome
        enrolment = state.enrolment
        assert enrolment is not None  # noqa: S101 - it ends here
        what = "registered in blocks that add up" if enrolment.blocks else "registered"
        check_quorum(state, len(outcome.node_ids), what, self.settings.quorum)
        epoch = enrolment.registered(outcome)
        return replace(state, enrolment=None, batch=None, epoch=epoch), epoch


def _untrusted(
    trusted: TrustedKeys | None, enrolment: Enrolment, reply: JoinReply, signers: set[bytes]
) -> str | None:
    """Return why agents would refuse a join key, where the server knows whom they trust."""
    if trusted is None:
        return None
    announced = enrolment.parameters.announced
    statement = join_statement(enrolment.identity, announced, reply.public_key)
    try:
        signer = trusted.signer(statement, reply.signature)
    except UntrustedError:
        return "join key not signed by a trusted node"
    if signer in signers:
        return "signing key of another node"
    signers.add(signer)
    return None
