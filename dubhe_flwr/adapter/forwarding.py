"""A Grid that passes everything on to another one, for those that change a part of it."""

from collections.abc import Iterable

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from dubhe_flwr.adapter._compat import Run

__all__ = ["ForwardingGrid"]


class ForwardingGrid(Grid):
    """Passes everything on to another Grid.

    Parameters
    ----------
    grid : Grid
        The Grid that carries the messages.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes of the other Grid."""
        return self._grid.get_node_ids()

    def set_run(self, run: Run) -> None:
        """Pass it on."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """The run of the other Grid."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Pass it on."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Pass them on."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pass it on."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Pass them on."""
        return self._grid.send_and_receive(messages, timeout=timeout)
