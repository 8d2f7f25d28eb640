"""Engines that simulate a federation: in this process, or Flower's own on Ray."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from logging import getLogger
from typing import Any, Final

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dubhe_flwr.simulation import run_in_process

__all__ = ["flower_log_level", "simulate"]

_GPU_SHARE: Final = 0.25


def simulate(
    engine: str,
    server_app: ServerApp,
    client_app: ClientApp,
    num_supernodes: int,
    *,
    on_gpu: bool = False,
    cohort: Callable[[list[Any]], Sequence[Any]] | None = None,
) -> None:
    """Run a Flower app to its end.

    Parameters
    ----------
    engine : {"inprocess", "ray"}
        Who simulates the nodes.
    server_app : ServerApp
        The server side.
    client_app : ClientApp
        The client side.
    num_supernodes : int
        Number of nodes.
    on_gpu : bool (default: False)
        Give each of Ray's workers a quarter of a GPU.
    cohort : dubhe_flwr.training.Cohort, optional
        Trains the clients of a round together, in this process.

    Examples
    --------
    >>> server_app = ServerApp()
    >>> @server_app.main()
    ... def main(grid, context):
    ...     print(len(list(grid.get_node_ids())))
    >>> simulate("inprocess", server_app, ClientApp(), num_supernodes=7)
    7
    """
    if engine == "inprocess":
        run_in_process(server_app, client_app, num_supernodes, cohort=cohort)
        return
    from flwr.simulation import run_simulation  # noqa: PLC0415 - needs Ray, an extra

    run_simulation(
        server_app,
        client_app,
        num_supernodes,
        backend_config={
            "init_args": {"log_to_driver": False, "logging_level": "ERROR"},
            "client_resources": {"num_cpus": 1, "num_gpus": _GPU_SHARE if on_gpu else 0.0},
        },
    )


@contextmanager
def flower_log_level(level: int) -> Iterator[None]:
    """Let Flower's log show only what is at least this grave, and put it back afterwards.

    Parameters
    ----------
    level : int
        As in `logging`.

    Examples
    --------
    >>> from logging import WARNING
    >>> with flower_log_level(WARNING):
    ...     getLogger("flwr").isEnabledFor(20)
    False
    """
    logger = getLogger("flwr")
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
