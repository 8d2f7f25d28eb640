"""Compare ways of selecting clients: same federation, same initial model, same training."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import torch
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dubhe_flwr.experiments.apps import build_client_app, build_server_app, build_strategy
from dubhe_flwr.experiments.findings import federation_summary, provenance
from dubhe_flwr.experiments.scenario import scenario_of
from dubhe_flwr.experiments.settings import CompareSettings
from dubhe_flwr.report import ComparisonResults, MethodResult
from dubhe_flwr.simulation import run_in_process
from dubhe_flwr.training import Cohort, resolve_device

__all__ = ["compare", "simulate", "trains_together"]

_PACKAGES: Final = ("dubhe-flwr", "flwr", "torch", "numpy", "phe")


def compare(
    settings: CompareSettings,
    on_round: Callable[[str, int, float | None], None] = lambda _method, _round, _accuracy: None,
    *,
    finished: Mapping[str, MethodResult] | None = None,
    on_method: Callable[[ComparisonResults], None] = lambda _results: None,
) -> ComparisonResults:
    """Train by federated averaging with each method of selection, and tell how they fared.

    `on_round` is told method, round and accuracy after each round, None without an evaluation;
    round 0 is the initial model. Accuracies and selected sets repeat with the seed. Methods that
    are `finished` are taken as they are; `on_method` is told the results after each other one.
    """
    device = resolve_device(settings.machine.device)
    scenario = scenario_of(settings)
    client_app = build_client_app(settings)
    cohort = Cohort() if trains_together(settings, device.type) else None
    # The first optimizer imports what takes seconds, which are not the first method's training.
    torch.optim.Adam([torch.zeros(1)])
    results = ComparisonResults(
        config={
            **settings.flat(),
            "device": str(device),
            **provenance(_PACKAGES),
        },
        federation=federation_summary(scenario.federation),
        methods=dict(finished or {}),
    )
    for method in settings.methods:
        if method in results.methods:
            continue
        strategy = build_strategy(method, scenario, partial(on_round, method))
        simulate(
            settings.engine,
            build_server_app(strategy, settings.num_rounds),
            client_app,
            settings.federation.num_clients,
            on_gpu=device.type == "cuda",
            cohort=cohort,
        )
        found = strategy.result(scenario.federation)
        told = {"cohort": "off" if cohort is None else cohort.told}
        results = replace(
            results,
            config={**results.config, **told},
            methods={**results.methods, method: found},
        )
        on_method(results)
    return results


def trains_together(settings: CompareSettings, device: str) -> bool:
    """Return whether the clients of a round are to train together, by default on a GPU.

    On a CPU networks with convolutions take longer so, and results are not those of Ray to the
    last bit.
    """
    by_default = settings.engine == "inprocess" and device == "cuda"
    return {"on": True, "off": False}.get(settings.machine.cohort, by_default)


def simulate(
    engine: str,
    server_app: ServerApp,
    client_app: ClientApp,
    num_supernodes: int,
    *,
    on_gpu: bool = False,
    cohort: Cohort | None = None,
) -> None:
    """Run a Flower app to its end; `on_gpu` each of Ray's workers has a quarter of a GPU."""
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
            "client_resources": {"num_cpus": 1, "num_gpus": 0.25 if on_gpu else 0.0},
        },
    )
