"""What an epoch and the rounds after it cost, stage by stage, beside the training they steer."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from bench.exchange import RoundCost, StageCost, measured_rounds
from bench.results import BenchResults, Figure
from bench.rules import PACKAGES, RULES, server_and_nodes
from bench.timing import environment, seconds_of
from bench.training_step import mnist_client
from dubhe_flwr.report.section import Table

__all__ = ["bench_protocol"]

_INTERVAL: Final = 50
_TRAININGS: Final = 2
_BOUNDS: Final[dict[str, dict[str, float]]] = {
    "selection_share_paper_n1000": {"at_most": 0.10},
    "server_share_paper_n8962": {"at_most": 0.01},
    "server_share_default_n8962": {"at_most": 0.01},
}


def bench_protocol(
    *,
    sizes: Sequence[int] = (100, 1000, 8962),
    key_bits: int = 2048,
    num_participants: int = 20,
    num_following: int = 3,
    num_real: int = 100,
    training: bool = True,
    on_size: Callable[[str], None] = lambda _what: None,
) -> BenchResults:
    """Measure an epoch and the following rounds for each size and rule.

    Parameters
    ----------
    sizes : sequence of int (default: 100, 1000, 8962)
        Values of ``N``.
    key_bits : int (default: 2048)
        Size of the Paillier modulus.
    num_participants : int (default: 20)
        ``K``.
    num_following : int (default: 3)
        Rounds after the one that registers; their median counts.
    num_real : int (default: 100)
        Clients whose work is measured; all others are counted as they are on average.
    training : bool (default: True)
        Measure the training of a client too, in between.
    on_size : callable (str) -> None, optional
        Is told what is measured next.
    """
    train = mnist_client() if training else None
    trained: list[float] = []
    if train is not None:
        train()  # warm
    rounds: dict[tuple[str, int], list[RoundCost]] = {}
    few, how = min(sizes), {"key_bits": key_bits, "num_participants": num_participants}
    for rule in RULES:  # what is imported and computed once is no node's cost
        measured_rounds(*server_and_nodes(rule, few, 8, **how), 1)
    gc.collect()
    gc.freeze()  # nor is going through all that torch has loaded
    for num_clients in sizes:
        for rule in RULES:
            on_size(f"N = {num_clients}, {rule}")
            if train is not None:
                trained += [seconds_of(train) for _ in range(_TRAININGS)]
            federation = server_and_nodes(rule, num_clients, num_real, **how)
            rounds[rule, num_clients] = measured_rounds(*federation, 1 + num_following)
    gc.unfreeze()
    of_training = num_participants * median(trained) if trained else None
    figures: dict[str, Figure] = {}
    for (rule, num_clients), costs in rounds.items():
        for name, value in _shares(costs, of_training).items():
            full = f"{name}_{rule}_n{num_clients}"
            bound = _BOUNDS.get(full, {}) if (key_bits, num_participants) == (2048, 20) else {}
            figures[full] = Figure(value, **bound)
    return BenchResults(
        name="protocol",
        config={
            "sizes": list(sizes),
            **how,
            "num_following": num_following,
            "num_real": num_real,
            "registration_interval": _INTERVAL,
            **environment([*PACKAGES, *(["torch"] if training else [])]),
        },
        figures=figures,
        measured={
            "training_round_seconds": of_training,
            "trained_client_seconds": trained,
            "rounds": {
                f"{rule}_n{num_clients}": [asdict(cost) for cost in costs]
                for (rule, num_clients), costs in rounds.items()
            },
        },
        tables=[
            *(
                _stages(rule, num_clients, costs, min(num_real, num_clients))
                for (rule, num_clients), costs in rounds.items()
            ),
            _summary(rounds, of_training),
        ],
    )


def _following(costs: Sequence[RoundCost], side: str) -> float:
    """Return the median of the server's or the clients' time of the rounds after the first."""
    seconds: list[float] = [getattr(cost, f"{side}_seconds") for cost in costs[1:]]
    return median(seconds)


def _shares(costs: Sequence[RoundCost], of_training: float | None) -> Mapping[str, float]:
    """Return what selection costs, also as a share of the rounds between two registrations."""
    server, client = (
        getattr(costs[0], f"{side}_seconds") + (_INTERVAL - 1) * _following(costs, side)
        for side in ("server", "client")
    )
    values = {
        "server_seconds_of_epoch": costs[0].server_seconds,
        "server_seconds_of_round": _following(costs, "server"),
    }
    if of_training is not None:
        values["selection_share"] = (server + client) / (_INTERVAL * of_training)
        values["server_share"] = _following(costs, "server") / of_training
        values["server_share_with_registration"] = server / (_INTERVAL * of_training)
    return values


def _stages(rule: str, num_clients: int, costs: Sequence[RoundCost], num_real: int) -> Table:
    first, *following = costs
    # The one whose time the shares are made of.
    then = sorted(following, key=lambda cost: cost.server_seconds)[len(following) // 2]
    rows = [
        *_rows("registers: ", first.stages),
        _total("registers: all", first),
        *_rows("then: ", then.stages),
        _total("then: all", then),
    ]
    sample = "" if num_real == num_clients else f", as measured for {num_real} of them"
    return Table(
        f"N = {num_clients}, rule: {rule}. The round that registers and one that follows; CPU "
        f"time of the server, and of all clients together{sample}.",
        ("stage", "messages", "KB down", "KB up", "server", "clients"),
        rows,
    )


def _rows(prefix: str, stages: Sequence[StageCost]) -> list[tuple[str, ...]]:
    return [
        (
            prefix + stage.stage,
            str(stage.messages),
            f"{stage.bytes_down / 1e3:.1f}",
            f"{stage.bytes_up / 1e3:.1f}",
            f"{1e3 * stage.server_seconds:.1f} ms",
            f"{stage.client_seconds:.2f} s",
        )
        for stage in stages
    ]


def _total(name: str, cost: RoundCost) -> tuple[str, ...]:
    return (
        name,
        str(sum(stage.messages for stage in cost.stages)),
        f"{sum(stage.bytes_down for stage in cost.stages) / 1e3:.1f}",
        f"{sum(stage.bytes_up for stage in cost.stages) / 1e3:.1f}",
        f"{1e3 * cost.server_seconds:.1f} ms",
        f"{cost.client_seconds:.2f} s",
    )


def _summary(
    rounds: Mapping[tuple[str, int], Sequence[RoundCost]], of_training: float | None
) -> Table:
    rows = []
    for (rule, num_clients), costs in rounds.items():
        shares: Mapping[str, Any] = _shares(costs, of_training)
        names = ("selection_share", "server_share", "server_share_with_registration")
        rows.append(
            (
                f"N = {num_clients}, {rule}",
                *(f"{shares[name]:.2%}" if name in shares else "" for name in names),
            )
        )
    beside = (
        "; the training was not measured"
        if of_training is None
        else f" of {of_training:.2f} s, the training of K clients of MNIST (B = 8, N_VC = 128)"
    )
    return Table(
        f"Selection with a registration every {_INTERVAL} rounds, as a share of a round{beside}.",
        (
            "",
            "server and all clients",
            "server, a round that does not register",
            "server, registration included",
        ),
        rows,
    )
