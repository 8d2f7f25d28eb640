"""Compare ways of selecting clients: same federation, same initial model, same training."""

from collections.abc import Callable
from functools import partial
from typing import Final

import torch

from dubhe_flwr.experiments.apps import build_client_app, build_server_app, build_strategy
from dubhe_flwr.experiments.engine import simulate
from dubhe_flwr.experiments.findings import federation_summary, provenance
from dubhe_flwr.experiments.scenario import scenario_of
from dubhe_flwr.experiments.settings import CompareSettings
from dubhe_flwr.report import ComparisonResults
from dubhe_flwr.training import Cohort, resolve_device

__all__ = ["compare", "trains_together"]

_PACKAGES: Final = ("dubhe-flwr", "flwr", "torch", "numpy", "phe")


def compare(
    settings: CompareSettings,
    on_round: Callable[[str, int, float | None], None] = lambda _method, _round, _accuracy: None,
) -> ComparisonResults:
    """Train by federated averaging with each method of selection, and tell how they fared.

    `on_round` is told method, round and accuracy after each round, None without an evaluation;
    round 0 is the initial model. Accuracies and selected sets repeat with the seed.

    Raises
    ------
    DataError
        If the data set is missing.
    """
    device = resolve_device(settings.machine.device)
    scenario = scenario_of(settings)
    client_app = build_client_app(settings)
    cohort = Cohort() if trains_together(settings, device.type) else None
    # The first optimizer imports what takes seconds, which are not the first method's training.
    torch.optim.Adam([torch.zeros(1)])
    methods = {}
    for method in settings.methods:
        strategy = build_strategy(method, scenario, partial(on_round, method))
        simulate(
            settings.engine,
            build_server_app(strategy, settings.num_rounds),
            client_app,
            settings.federation.num_clients,
            on_gpu=device.type == "cuda",
            cohort=cohort,
        )
        methods[method] = strategy.result(scenario.federation)
    return ComparisonResults(
        config={
            **settings.flat(),
            "device": str(device),
            "cohort": _told(cohort),
            **provenance(_PACKAGES),
        },
        federation=federation_summary(scenario.federation),
        methods=methods,
    )


def trains_together(settings: CompareSettings, device: str) -> bool:
    """Return whether the clients of a round are to train together.

    On a CPU they are not unless that is asked for: networks with convolutions take longer so, and
    one after the other they give the same results on both engines, to the last bit.
    """
    wanted = settings.machine.cohort
    if wanted == "auto":
        return settings.engine == "inprocess" and device == "cuda"
    return wanted == "on"


def _told(cohort: Cohort | None) -> str:
    """Return what the results say of it."""
    if cohort is None:
        return "off"
    return "on" if cohort.failure is None else f"off after {cohort.failure}"
