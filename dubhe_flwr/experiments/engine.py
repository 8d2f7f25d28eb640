"""Engines that simulate a federation: in this process, or Flower's own on Ray."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dubhe_flwr.simulation import run_in_process

__all__ = ["simulate"]

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
    """Run a Flower app to its end, on the engine ``inprocess`` or ``ray``.

    With `on_gpu` each of Ray's workers has a quarter of a GPU. A `dubhe_flwr.training.Cohort`
    trains the clients of a round together, in this process.
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
