"""run_in_process: the same ServerApp and ClientApp as everywhere, in one process."""

from collections.abc import Mapping
from typing import Any

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from dubhe_flwr.adapter._compat import SERVER_NODE_ID
from dubhe_flwr.simulation.grid import InProcessGrid, RunConfig, Work

__all__ = ["run_in_process", "run_on_grid"]


def run_in_process(
    server_app: ServerApp,
    client_app: ClientApp,
    num_supernodes: int,
    *,
    run_config: RunConfig | None = None,
    seed: int = 0,
    cohort: Work | None = None,
) -> Context:
    """Run a Flower app to its end, as `flwr.simulation.run_simulation` does, but without Ray.

    Parameters
    ----------
    server_app : ServerApp
        The server side, of either API.
    client_app : ClientApp
        The client side, of either API.
    num_supernodes, run_config, seed, cohort
        As for `InProcessGrid`.

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
    server_app: ServerApp, grid: Grid, *, run_config: Mapping[str, Any] | None = None
) -> Context:
    """Run a ServerApp on a Grid of one's own, such as a `FaultyGrid`, and return its Context."""
    context = Context(
        run_id=grid.run.run_id,
        node_id=SERVER_NODE_ID,
        node_config={},
        state=RecordDict(),
        run_config=dict(run_config or {}),
    )
    server_app(grid, context)
    return context
