"""Training instructions that travel in one batch, for a Grid that trains clients together.

Flower's server asks one ClientProxy after the other to train, from several threads. A Grid that
trains the clients of a batch together has to be given all of them at once.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from flwr.app import Message
from flwr.common import (
    DisconnectRes,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    ReconnectIns,
)
from flwr.server.client_proxy import ClientProxy
from flwr.serverapp import Grid

from dubhe_flwr.adapter._compat import fit_records, fit_result
from dubhe_flwr.server.proxies import node_id_of

__all__ = ["sent_together"]


class _Batch:
    """The instructions of a round; whoever asks first sends all of them."""

    def __init__(self, grid: Grid, instructions: Mapping[int, FitIns]) -> None:
        self.grid = grid
        self._instructions = instructions
        self._lock = Lock()
        self._replies: dict[int, Message] | None = None

    def holds(self, node_id: int, instruction: FitIns) -> bool:
        """Return whether this is the instruction that was made for the node."""
        return self._instructions.get(node_id) is instruction

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
            for node_id, ins in self._instructions.items()
        ]
        replies = self.grid.send_and_receive(messages, timeout=timeout)
        asked = {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
        return {asked[reply.metadata.reply_to_message_id]: reply for reply in replies}


class _BatchedProxy(ClientProxy):
    """A ClientProxy whose training instruction goes with those of the others."""

    def __init__(self, proxy: ClientProxy, batch: _Batch) -> None:
        super().__init__(proxy.cid)
        self.node_id = node_id_of(proxy)
        self.grid = batch.grid
        self.properties = proxy.properties
        self._proxy = proxy
        self._batch = batch

    def get_properties(
        self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None
    ) -> GetPropertiesRes:
        """Return the client's properties."""
        return self._proxy.get_properties(ins, timeout, group_id)

    def get_parameters(
        self, ins: GetParametersIns, timeout: float | None, group_id: int | None
    ) -> GetParametersRes:
        """Return the client's parameters."""
        return self._proxy.get_parameters(ins, timeout, group_id)

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        """Train with the others of the batch, or alone where the instruction was changed since."""
        if not self._batch.holds(self.node_id, ins):
            return self._proxy.fit(ins, timeout, group_id)
        return self._batch.reply(self.node_id, timeout, group_id)

    def evaluate(
        self, ins: EvaluateIns, timeout: float | None, group_id: int | None
    ) -> EvaluateRes:
        """Evaluate the given parameters."""
        return self._proxy.evaluate(ins, timeout, group_id)

    def reconnect(
        self, ins: ReconnectIns, timeout: float | None, group_id: int | None
    ) -> DisconnectRes:
        """Disconnect, and connect again later."""
        return self._proxy.reconnect(ins, timeout, group_id)


def sent_together(
    instructions: Sequence[tuple[ClientProxy, FitIns]],
) -> list[tuple[ClientProxy, FitIns]]:
    """Return the same instructions for proxies that send them in one batch.

    Parameters
    ----------
    instructions : sequence of tuple
        As `configure_fit` returns them. Unless all of them go over one Grid that trains clients
        together, they are returned as they are.
    """
    grids: list[Any] = [getattr(client, "grid", None) for client, _ in instructions]
    if len(grids) < 2 or any(grid is not grids[0] for grid in grids):
        return list(instructions)
    grid = grids[0]
    if getattr(grid, "cohort", None) is None:
        return list(instructions)
    batch = _Batch(grid, {node_id_of(client): ins for client, ins in instructions})
    return [(_BatchedProxy(client, batch), ins) for client, ins in instructions]
