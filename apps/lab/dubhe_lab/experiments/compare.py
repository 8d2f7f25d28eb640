"""Compare selection methods on the same federation, initial model and training settings."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import torch
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dubhe_flwr.errors import DubheError
from dubhe_flwr.simulation import run_in_process
from dubhe_lab.experiments.apps import build_client_app, build_server_app, build_strategy
from dubhe_lab.experiments.findings import federation_summary, provenance
from dubhe_lab.experiments.scenario import Scenario, scenario_of
from dubhe_lab.experiments.selections import selector_of, tell_nobody
from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.report.results import ComparisonResults, MethodResult
from dubhe_lab.training.loop import resolve_device

_PACKAGES: Final = ("dubhe-flwr", "flwr", "torch", "numpy", "phe")


def compare(
    settings: CompareSettings,
    on_round: Callable[[str, int, float | None], None] = tell_nobody,
    *,
    finished: Mapping[str, MethodResult] | None = None,
    on_method: Callable[[ComparisonResults], None] = tell_nobody,
    scenario_of: Callable[[CompareSettings], Scenario] = scenario_of,
) -> ComparisonResults:
    """Train by federated averaging with each selection method, and return the results.

    After each round, `on_round` gets the method, the round and the accuracy, or None if the model
    was not evaluated; round 0 is the initial model. Methods in `finished` are not trained again.
    After every other method, `on_method` gets the results so far. The same seed gives the same
    accuracies and selected sets. Pass `scenario_of` to use other data and clients.
    """
    device = resolve_device(settings.machine.device)
    scenario = scenario_of(settings)
    client_app = build_client_app(scenario)
    # The first optimizer triggers slow imports; do not charge them to the first method.
    torch.optim.Adam([torch.zeros(1)])
    results = ComparisonResults(
        config={**settings.flat(), "device": str(device), **provenance(_PACKAGES)},
        federation=federation_summary(scenario.federation),
        methods=dict(finished or {}),
    )
    for method in settings.methods:
        if method in results.methods:
            continue
        selector = selector_of(method, settings, scenario.federation)
        strategy = build_strategy(selector, scenario, partial(on_round, method))
        server_app = build_server_app(strategy, settings.num_rounds)
        simulate("inprocess", server_app, client_app, settings.federation.num_clients)
        found = strategy.result(scenario.federation, settings.num_rounds)
        results = replace(results, methods={**results.methods, method: found})
        on_method(results)
    return results


def simulate(
    engine: str,
    server_app: ServerApp,
    client_app: ClientApp,
    num_supernodes: int,
) -> None:
    """Run a Flower app to its end, "inprocess" or on "ray".

    Raises
    ------
    DubheError
        If the app ends this process, which would otherwise look like success.
    """
    try:
        if engine == "inprocess":
            run_in_process(server_app, client_app, num_supernodes)
            return
        from flwr.simulation import run_simulation  # noqa: PLC0415 - needs Ray, an extra

        run_simulation(
            server_app,
            client_app,
            num_supernodes,
            backend_config={
                "init_args": {"log_to_driver": False, "logging_level": "ERROR"},
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    except SystemExit as error:
        raise DubheError(
            f"The app ended its own process with exit code {error.code}; see its log above."
        ) from error
