"""A Grid that shows exactly the nodes that were selected."""

from collections.abc import Iterable, Sequence

from flwr.serverapp import Grid

from dubhe_flwr.adapter.forwarding import ForwardingGrid

__all__ = ["SelectedGrid"]


class SelectedGrid(ForwardingGrid):
    """Passes everything on to another Grid, but shows only the selected nodes.

    Parameters
    ----------
    grid : Grid
        The Grid that carries the messages.
    node_ids : sequence of int
        The selected nodes.
    """

    def __init__(self, grid: Grid, node_ids: Sequence[int]) -> None:
        super().__init__(grid)
        self._node_ids = list(node_ids)

    def get_node_ids(self) -> Iterable[int]:
        """Return the selected nodes."""
        return list(self._node_ids)
