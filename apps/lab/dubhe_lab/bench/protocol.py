"""The cost of a registration and of the rounds after it, stage by stage and relative to training.

The server and its messages are real. The nodes are `RecycledNodes`: a few real nodes whose answers
are reused for the rest, so that a federation of thousands of nodes fits in one process. All times
are CPU times. The summary divides them by the training time of K MNIST clients, since users notice
the cost of selection only relative to training.
"""

import gc
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import process_time
from typing import Any, Final

from flwr.common import NDArrays, Scalar

from dubhe_flwr.protocol import Batch
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.rules import Prices
from dubhe_lab.bench.measuring import BenchResults, environment, seconds_of
from dubhe_lab.bench.recycled import RecycledNodes
from dubhe_lab.experiments.options import CommandSettings, numbers, option, same
from dubhe_lab.experiments.settings import SelectionSettings, StudySettings
from dubhe_lab.report.table import Table

PACKAGES: Final = ("dubhe-flwr", "phe", "gmpy2", "numpy")
"""Packages that the protocol's times depend on."""

MEASURED: Final = ("dubhe-paper", "dubhe")
"""The selection methods to measure."""

_TRIES: Final = 10
_NUM_CLASSES: Final = 10
_INTERVAL: Final = 50
_TRAININGS: Final = 2
_BOUNDS: Final = {
    "selection_share_dubhe-paper_n1000": ("at most", 0.10),
    "server_share_dubhe-paper_n8962": ("at most", 0.01),
    "server_share_dubhe_n8962": ("at most", 0.01),
}


@dataclass(frozen=True)
class StageCost:
    """The cost of one exchange, in CPU seconds of the server and of all clients together."""

    stage: str
    messages: int
    bytes_down: int
    bytes_up: int
    server_seconds: float
    client_seconds: float


@dataclass(frozen=True)
class RoundCost:
    """The cost of a round's selection: the server before the first request, then each stage."""

    begin_seconds: float
    stages: Sequence[StageCost]

    @property
    def server_seconds(self) -> float:
        """The server's CPU time."""
        return self.begin_seconds + sum(stage.server_seconds for stage in self.stages)

    @property
    def client_seconds(self) -> float:
        """CPU time of all clients together."""
        return sum(stage.client_seconds for stage in self.stages)


@dataclass(frozen=True, kw_only=True)
class ProtocolSettings(CommandSettings):
    """The settings of `bench_protocol`."""

    sizes: tuple[int, ...] = option(
        (100, 1000, 8962), "Values of N, separated by commas.", parse=numbers, quick=(30, 60)
    )
    num_real: int = option(100, "Clients whose work is measured.", least=1, quick=10)
    num_participants: int = same(SelectionSettings, "num_participants", quick=6)
    num_following: int = option(
        5, "Rounds after the registration, for the median.", least=1, quick=2
    )
    key_bits: int = same(SelectionSettings, "key_bits", quick=512)


def server_and_nodes(
    method: str, num_clients: int, num_real: int, *, rounds_per_draw: int = 1, **given: Any
) -> tuple[Coordinator, RecycledNodes]:
    """Return a server that selects by a method with H = 10, and its nodes.

    The nodes are the same for all methods. Other keywords are fields of `StudySettings`.
    """
    settings = StudySettings.of(num_clients=num_clients, tries=_TRIES, **given)
    # Without simulation, nodes encrypt and draw in private.
    protocol = replace(
        settings.protocol_settings(method), rounds_per_draw=rounds_per_draw, simulation=None
    )
    if isinstance(protocol.rule, Prices):
        # A few real nodes answer for all, so their noise would repeat and drown the sums.
        protocol = replace(protocol, rule=replace(protocol.rule, noise=0.0))
    key_bits = settings.selection.key_bits
    nodes = RecycledNodes(num_clients, num_real, num_classes=_NUM_CLASSES, key_bits=key_bits)
    return Coordinator(protocol), nodes


def measured_rounds(
    coordinator: Coordinator,
    nodes: RecycledNodes,
    num_rounds: int,
    present: Collection[int] | None = None,
) -> list[RoundCost]:
    """Select for some rounds, the first of which registers, and return their costs.

    `present` holds the connected nodes, by default all.
    """
    state = coordinator.initial_state()
    here = list(nodes.ids) if present is None else present
    rounds = []
    for server_round in range(1, num_rounds + 1):
        began = process_time()
        state, outcome = coordinator.begin_round(state, server_round, here)
        begin_seconds = process_time() - began
        seconds: list[tuple[float, float]] = []
        while isinstance(outcome, Batch):
            before = sum(nodes.seconds.values())
            replies = nodes.answer(outcome)
            of_clients = sum(nodes.seconds.values()) - before
            began = process_time()
            state, outcome = coordinator.step(state, replies)
            seconds.append((process_time() - began, of_clients))
        stages = [
            StageCost(
                report.stage, report.sent, report.bytes_down, report.bytes_up, of_server, of_clients
            )
            for report, (of_server, of_clients) in zip(outcome.stages, seconds, strict=True)
        ]
        rounds.append(RoundCost(begin_seconds, stages))
    return rounds


def bench_protocol(settings: ProtocolSettings) -> BenchResults:
    """Measure a registration and the rounds after it, by stage, and relative to training."""
    train = one_training()
    train()  # warm
    trained: list[float] = []
    rounds: dict[tuple[str, int], list[RoundCost]] = {}
    how = {"key_bits": settings.key_bits, "num_participants": settings.num_participants}
    for method in MEASURED:  # warm up, since imports and tables are needed only once
        measured_rounds(*server_and_nodes(method, min(settings.sizes), 8, **how), 1)
    gc.collect()
    gc.freeze()  # keeps torch's objects out of the garbage collections that are timed
    for num_clients in settings.sizes:
        for method in MEASURED:
            trained += [seconds_of(train) for _ in range(_TRAININGS)]
            federation = server_and_nodes(method, num_clients, settings.num_real, **how)
            rounds[method, num_clients] = measured_rounds(*federation, 1 + settings.num_following)
    gc.unfreeze()
    of_training = settings.num_participants * median(trained)
    return BenchResults(
        config={
            **settings.flat(),
            "registration_interval": _INTERVAL,
            **environment([*PACKAGES, "torch"]),
        },
        figures={
            f"{name}_{method}_n{number}": value
            for (method, number), costs in rounds.items()
            for name, value in _shares(costs, of_training).items()
        },
        bounds=_BOUNDS if tuple(how.values()) == (2048, 20) else {},
        measured={
            "training_round_seconds": of_training,
            "trained_client_seconds": trained,
            "rounds": {
                f"{method}_n{number}": [asdict(cost) for cost in costs]
                for (method, number), costs in rounds.items()
            },
        },
        tables=[
            *(
                _stages(method, number, costs, min(settings.num_real, number))
                for (method, number), costs in rounds.items()
            ),
            _summary(rounds, of_training),
        ],
    )


def one_training() -> Callable[[], tuple[NDArrays, int, dict[str, Scalar]]]:
    """Return a function that trains one MNIST client for a round: N_VC = 128, B = 8, one thread."""
    # torch takes memory, which `bench_scale` measures in processes that import this module.
    import torch  # noqa: PLC0415

    from dubhe_lab.training.client import TorchClient  # noqa: PLC0415
    from dubhe_lab.training.models import build_model  # noqa: PLC0415

    model = build_model((1, 28, 28), _NUM_CLASSES, seed=0)
    samples = torch.rand(128, 1, 28, 28), torch.arange(128) % _NUM_CLASSES
    client = TorchClient(model, samples, device="cpu", num_threads=1)
    parameters = client.get_parameters({})
    return lambda: client.fit(parameters, {"server-round": 1})


def _following(costs: Sequence[RoundCost], side: str) -> float:
    """Return the median time of the server or the clients in the rounds after the first."""
    seconds: list[float] = [getattr(cost, f"{side}_seconds") for cost in costs[1:]]
    return median(seconds)


def _shares(costs: Sequence[RoundCost], of_training: float) -> Mapping[str, float]:
    """Return the cost of selection, in seconds and as a share of training over an interval."""
    server, client = (
        getattr(costs[0], f"{side}_seconds") + (_INTERVAL - 1) * _following(costs, side)
        for side in ("server", "client")
    )
    return {
        "server_seconds_of_epoch": costs[0].server_seconds,
        "server_seconds_of_round": _following(costs, "server"),
        "selection_share": (server + client) / (_INTERVAL * of_training),
        "server_share": _following(costs, "server") / of_training,
        "server_share_with_registration": server / (_INTERVAL * of_training),
    }


def _stages(method: str, num_clients: int, costs: Sequence[RoundCost], num_real: int) -> Table:
    first, *following = costs
    # The median round, which the shares use too.
    then = sorted(following, key=lambda cost: cost.server_seconds)[len(following) // 2]
    sample = "" if num_real == num_clients else f", extrapolated from {num_real} of them"
    return Table(
        f"N = {num_clients}, {method}. A round that begins with a registration, and a later one; "
        f"CPU time of the server, and of all clients together{sample}.",
        ("stage", "messages", "KB down", "KB up", "server", "clients"),
        [*_rows("registers: ", first), *_rows("then: ", then)],
    )


def _rows(prefix: str, cost: RoundCost) -> list[tuple[str, ...]]:
    """Return a row for each stage, and one for the total."""
    messages, down, up = (
        sum(getattr(stage, name) for stage in cost.stages)
        for name in ("messages", "bytes_down", "bytes_up")
    )
    total = StageCost("all", messages, down, up, cost.server_seconds, cost.client_seconds)
    return [
        (
            prefix + stage.stage,
            str(stage.messages),
            *(f"{number / 1e3:.1f}" for number in (stage.bytes_down, stage.bytes_up)),
            f"{1e3 * stage.server_seconds:.1f} ms",
            f"{stage.client_seconds:.2f} s",
        )
        for stage in (*cost.stages, total)
    ]


def _summary(rounds: Mapping[tuple[str, int], Sequence[RoundCost]], of_training: float) -> Table:
    columns = {
        "selection_share": "server and all clients",
        "server_share": "server, a round that does not register",
        "server_share_with_registration": "server, registration included",
    }
    rows = []
    for (method, number), costs in rounds.items():
        shares = _shares(costs, of_training)
        told = (f"{shares[name]:.2%}" for name in columns)
        rows.append((f"N = {number}, {method}", *told))
    return Table(
        f"Selection with a registration every {_INTERVAL} rounds, as a share of a round's "
        f"training ({of_training:.2f} s for K clients on MNIST, with B = 8 and N_VC = 128).",
        ("", *columns.values()),
        rows,
    )
