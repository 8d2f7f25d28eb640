"""Training instructions that travel in one batch, for a Grid that trains clients together.

Flower's server asks one ClientProxy after the other to train, from several threads. A Grid that
trains the clients of a batch together has to be given all of them at once.
"""

from collections.abc import Sequence
from threading import Lock

from flwr.app import Message
from flwr.common import FitIns, FitRes
from flwr.server.client_proxy import ClientProxy

from dubhe_flwr.adapter._compat import GridClientProxy, fit_records, fit_result

__all__ = ["sent_together"]


class _Batch:
    """The instructions of a round; whoever asks first sends all of them."""

    def __init__(self, instructions: Sequence[tuple[GridClientProxy, FitIns]]) -> None:
        self.instructions = {client.node_id: ins for client, ins in instructions}
        self._grid = instructions[0][0].grid
        self._lock = Lock()
        self._replies: dict[int, Message] | None = None

    def reply(self, node_id: int, timeout: float | None, group_id: int | None) -> FitRes:
        """Return what a node answers."""
        with self._lock:
            if self._replies is None:
                self._replies = self._send(timeout, "" if group_id is None else str(group_id))
            reply = self._replies.pop(node_id, None)
        if reply is None:
            raise ValueError(f"Node {node_id} did not answer.")
        return fit_result(reply)

    def _send(self, timeout: float | None, group_id: str) -> dict[int, Message]:
        messages = [
            Message(fit_records(ins), node_id, "train", ttl=timeout, group_id=group_id)
            for node_id, ins in self.instructions.items()
        ]
        replies = self._grid.send_and_receive(messages, timeout=timeout)
        asked = {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
        return {asked[reply.metadata.reply_to_message_id]: reply for reply in replies}


class _BatchedProxy(GridClientProxy):
    """A client whose training instruction goes with those of the others."""

    def __init__(self, client: GridClientProxy, batch: _Batch) -> None:
        super().__init__(client.node_id, client.grid, client.run_id)
        self.properties = client.properties
        self._batch = batch

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        """Train with the others of the batch, or alone where the instruction was changed since."""
        if self._batch.instructions.get(self.node_id) is not ins:
            return super().fit(ins, timeout, group_id)
        return self._batch.reply(self.node_id, timeout, group_id)


def sent_together(
    instructions: list[tuple[ClientProxy, FitIns]],
) -> list[tuple[ClientProxy, FitIns]]:
    """Return the same instructions for clients that are asked in one batch.

    Parameters
    ----------
    instructions : list of tuple
        As `configure_fit` returns them. Unless all of them go over one Grid that trains clients
        together, they are returned as they are.
    """
    known = [(client, ins) for client, ins in instructions if isinstance(client, GridClientProxy)]
    grids = {id(client.grid) for client, _ in known}
    if not 1 < len(known) == len(instructions) or len(grids) > 1:
        return instructions
    if getattr(known[0][0].grid, "cohort", None) is None:
        return instructions
    batch = _Batch(known)
    return [(_BatchedProxy(client, batch), ins) for client, ins in known]
