"""run_in_process: the same ServerApp and ClientApp as everywhere, in one process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from dubhe_flwr.adapter._compat import SERVER_NODE_ID
from dubhe_flwr.simulation.grid import InProcessGrid

__all__ = ["run_in_process", "run_on_grid"]


def run_in_process(
    server_app: ServerApp,
    client_app: ClientApp,
    num_supernodes: int,
    *,
    run_config: Mapping[str, bool | float | int | str] | None = None,
    seed: int = 0,
    cohort: Callable[[list[Any]], Sequence[Any]] | None = None,
) -> Context:
    """Run a Flower app to its end, as `flwr.simulation.run_simulation` does, but without Ray.

    Parameters
    ----------
    server_app : ServerApp
        The server side, of either API.
    client_app : ClientApp
        The client side, of either API.
    num_supernodes : int
        Number of nodes.
    run_config : mapping, optional
        What both find in `context.run_config`.
    seed : int (default: 0)
        Fixes the node ids.
    cohort : dubhe_flwr.training.Cohort, optional
        Trains the clients of one batch together; without it they train one after the other.

    Returns
    -------
    Context
        The ServerApp's, with the state it left behind.

    Examples
    --------
    >>> server_app = ServerApp()
    >>> @server_app.main()
    ... def main(grid, context):
    ...     context.state["nodes"] = MetricRecord({"number": len(list(grid.get_node_ids()))})
    >>> from flwr.app import MetricRecord
    >>> run_in_process(server_app, ClientApp(), num_supernodes=7).state["nodes"]["number"]
    7
    """
    grid = InProcessGrid(client_app, num_supernodes, run_config, seed, cohort)
    return run_on_grid(server_app, grid, run_config=run_config)


def run_on_grid(
    server_app: ServerApp,
    grid: Grid,
    *,
    run_config: Mapping[str, bool | float | int | str] | None = None,
) -> Context:
    """Run a ServerApp to its end on a Grid of one's own.

    Parameters
    ----------
    server_app : ServerApp
        The server side, of either API.
    grid : Grid
        What carries its messages, such as a `dubhe_flwr.testing.FaultyGrid`.
    run_config : mapping, optional
        What it finds in `context.run_config`.

    Returns
    -------
    Context
        The ServerApp's, with the state it left behind.

    Examples
    --------
    >>> server_app = ServerApp()
    >>> @server_app.main()
    ... def main(grid, context):
    ...     context.state["nodes"] = MetricRecord({"number": len(list(grid.get_node_ids()))})
    >>> from flwr.app import MetricRecord
    >>> run_on_grid(server_app, InProcessGrid(ClientApp(), 3)).state["nodes"]["number"]
    3
    """
    context = Context(
        run_id=grid.run.run_id,
        node_id=SERVER_NODE_ID,
        node_config={},
        state=RecordDict(),
        run_config=dict(run_config or {}),
    )
    server_app(grid, context)
    return context
