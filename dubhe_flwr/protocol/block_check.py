"""The stage `check` on the server: blocks whose registrations do not add up are left out."""

from dataclasses import replace

import numpy as np

from dubhe_flwr.protocol.blocks import Blocks, cut_blocks
from dubhe_flwr.protocol.enrolment import Enrolment
from dubhe_flwr.protocol.messages import CheckReply, Stage
from dubhe_flwr.protocol.parameters import DISTRIBUTION, REGISTRY
from dubhe_flwr.protocol.plan import Batch, Replies
from dubhe_flwr.protocol.registrations import Registrations
from dubhe_flwr.protocol.selector import accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import (
    CoordinatorState,
    agents_in_turn,
    heeded,
    noted,
    reported,
    send,
)

__all__ = ["BlockCheck"]

Step = tuple[CoordinatorState, Batch | Registrations]


class BlockCheck:
    """Has an agent check blocks of registrations before their sum is given to anyone.

    Each call returns the next batch, or the registrations with which to go on.

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin(
        self, state: CoordinatorState, enrolment: Enrolment, registrations: Registrations
    ) -> Step:
        """Cut the nodes that registered into blocks, and ask an agent about them."""
        registered = registrations.node_ids
        size, num_nodes = self.settings.block_size, len(registered)
        if not size:
            return state, registrations
        if num_nodes < size:
            note = f"Only {num_nodes} nodes registered, too few for a block of {size}; unchecked."
            return noted(state, note), registrations
        most = min(self.settings.max_sums_per_epoch, (num_nodes - 1) // 2)
        agents = agents_in_turn(state, registered, "check", state.server_round)
        blocks = Blocks(
            members=cut_blocks(registered, size, most, state.seed, state.server_round),
            registrations=registrations,
            agents=agents[: self.settings.agent_attempts],
        )
        return self._ask_agent(state, enrolment, blocks)

    def step(
        self, state: CoordinatorState, enrolment: Enrolment, batch: Batch, replies: Replies
    ) -> Step:
        """Leave out the blocks that the agent found broken.

        Another one is asked where none answered, or too few nodes would be left.
        """
        blocks = enrolment.blocks
        assert blocks is not None  # noqa: S101 - cut before an agent was asked
        num_blocks = len(blocks.members)

        def refuse(_node_id: int, reply: CheckReply) -> str | None:
            return None if len(reply.passed) == -(-num_blocks // 8) else "wrong number of blocks"

        accepted, report = accept_replies(batch, replies, refuse)
        state = reported(state, report)
        if not accepted:
            note = "An agent did not check the blocks."
            return self._ask_agent(noted(state, note), enrolment, blocks)
        ((agent, reply),) = accepted.items()
        state = heeded(state, [agent])
        passed = np.unpackbits(np.frombuffer(reply.passed, dtype=np.uint8), count=num_blocks)
        blocks = replace(blocks, passed=tuple(passed.astype(bool).tolist()))
        if blocks.num_kept >= self.settings.quorum or blocks.all_asked:
            return self._leave_out(state, enrolment, blocks)
        note = (
            f"An agent found {blocks.passed.count(False)} of {num_blocks} blocks broken, so that "
            f"{blocks.num_kept} nodes are left; another one is asked."
        )
        return self._ask_agent(noted(state, note), enrolment, blocks)

    def _ask_agent(self, state: CoordinatorState, enrolment: Enrolment, blocks: Blocks) -> Step:
        if blocks.all_asked and blocks.passed:
            return self._leave_out(state, enrolment, blocks)
        if blocks.all_asked:
            # Nodes still refuse an overall registry that does not add up.
            note = "No agent checked the blocks; all go on unchecked."
            return noted(state, note), blocks.registrations
        layout = enrolment.parameters.layout
        request = blocks.request(
            enrolment.paillier_key(),
            (layout.num_ciphertexts(REGISTRY), layout.num_ciphertexts(DISTRIBUTION)),
        )
        agent = blocks.agents[blocks.num_asked]
        enrolment = replace(enrolment, blocks=replace(blocks, num_asked=blocks.num_asked + 1))
        state = replace(state, enrolment=enrolment)
        return send(state, enrolment.identity, Stage.CHECK, {agent: request})

    @staticmethod
    def _leave_out(state: CoordinatorState, enrolment: Enrolment, blocks: Blocks) -> Step:
        """Go on with the blocks that passed at the agent that answered last."""
        num_blocks = len(blocks.members)
        left_out: set[int] = set()
        for index, (members, is_kept) in enumerate(zip(blocks.members, blocks.passed, strict=True)):
            if not is_kept:
                left_out.update(members)
                names = ", ".join(enrolment.aliases[node_id] for node_id in members)
                state = noted(
                    state,
                    f"Block {index + 1} of {num_blocks} does not add up and is left out of this "
                    f"epoch: nodes {names}.",
                )
        if not left_out:
            return state, blocks.registrations
        kept = set(blocks.registrations.node_ids) - left_out
        return state, blocks.registrations.of(kept, enrolment.parameters, enrolment.paillier_key())
