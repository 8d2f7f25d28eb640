"""Registration on the server: nodes join, an agent makes the key, all register."""

import secrets
from collections.abc import Callable
from dataclasses import replace

from dubhe_flwr.core import generator
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he import PublicKey
from dubhe_flwr.protocol.envelope import EPOCH_ID_BYTES
from dubhe_flwr.protocol.epoch import Enrolment, Epoch
from dubhe_flwr.protocol.messages import (
    JoinReply,
    JoinStatus,
    KeygenReply,
    RegisterReply,
    Stage,
)
from dubhe_flwr.protocol.parameters import DISTRIBUTION, REGISTRY, epoch_parameters
from dubhe_flwr.protocol.plan import Batch, Replies
from dubhe_flwr.protocol.selector import accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState, check_quorum, noted, reported, send

__all__ = ["Registration"]

Step = tuple[CoordinatorState, Batch | Epoch]


class Registration:
    """Begins an epoch: the stages join, keygen and register.

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin(self, state: CoordinatorState) -> tuple[CoordinatorState, Batch]:
        """Ask all nodes that are there to join a new epoch."""
        announced = self.settings.announced()
        enrolment = Enrolment(
            identity=secrets.token_bytes(EPOCH_ID_BYTES),
            first_round=state.server_round,
            parameters=epoch_parameters(announced),
            asked=state.present,
        )
        state = replace(
            state, epoch=None, enrolment=enrolment, rounds={}, attempt=0, restored=False
        )
        requests = dict.fromkeys(sorted(state.present), announced)
        return send(state, enrolment.identity, Stage.JOIN, requests)

    def step(self, state: CoordinatorState, enrolment: Enrolment, replies: Replies) -> Step:
        """Go on with the replies to the last batch, until the epoch is complete."""
        assert state.batch is not None  # noqa: S101 - an enrolment always awaits replies
        follow: dict[str, Callable[[CoordinatorState, Enrolment, Batch, Replies], Step]] = {
            Stage.JOIN: self._on_join,
            Stage.KEYGEN: self._on_keygen,
            Stage.REGISTER: self._on_register,
        }
        return follow[state.batch.header.stage](state, enrolment, state.batch, replies)

    def _on_join(
        self, state: CoordinatorState, enrolment: Enrolment, batch: Batch, replies: Replies
    ) -> Step:
        seen: set[bytes] = set()
        declined: set[int] = set()

        def refuse(node_id: int, reply: JoinReply) -> str | None:
            if reply.status != JoinStatus.JOINS:
                declined.add(node_id)
                return JoinStatus(reply.status).name.lower().replace("_", " ")
            if reply.public_key in seen:  # an agent would refuse them all
                return "public key of another node"
            seen.add(reply.public_key)
            return None

        accepted, report = accept_replies(batch, replies, refuse)
        state = reported(state, report)
        check_quorum(state, len(accepted), "joined", self.settings.quorum)
        enrolment = replace(enrolment.joined(accepted), declined=frozenset(declined))
        agents = generator(state.seed, "keygen", state.server_round).permutation(
            len(enrolment.aliases)
        )
        order = tuple(enrolment.aliases)
        enrolment = replace(enrolment, agents=tuple(order[index] for index in agents))
        return self._keygen(replace(state, enrolment=enrolment), enrolment)

    def _keygen(self, state: CoordinatorState, enrolment: Enrolment) -> Step:
        if state.attempt >= min(self.settings.agent_attempts, len(enrolment.agents)):
            raise QuorumError(
                f"{state.attempt} agents in turn made no key; look at their logs or raise "
                "agent_attempts."
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
        public_key = PublicKey.from_bytes(reply.modulus, enrolment.parameters.layout.key_bits)
        state = replace(state, enrolment=replace(enrolment, public_key=public_key))
        requests = enrolment.register_requests(agent, reply)
        return send(state, enrolment.identity, Stage.REGISTER, requests)

    def _on_register(
        self, state: CoordinatorState, enrolment: Enrolment, batch: Batch, replies: Replies
    ) -> Step:
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
        state = reported(state, report)
        if len(accepted) < self.settings.quorum and state.attempt < self.settings.agent_attempts:
            state = noted(state, "The key of an agent did not open; another one is asked.")
            return self._keygen(state, enrolment)
        check_quorum(state, len(accepted), "registered", self.settings.quorum)
        epoch = enrolment.registered(accepted)
        return replace(state, enrolment=None, batch=None, epoch=epoch), epoch
