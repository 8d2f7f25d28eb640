"""The cost of selection in a simulation, as a share of the training time."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from logging import ERROR
from statistics import median
from typing import Any, Final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from dubhe_flwr.adapter.transport import send_over_grid
from dubhe_flwr.clientapp import Willing, register_dubhe
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol import Batch, Stage
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import HelloRequest
from dubhe_flwr.rules import Tries
from dubhe_flwr.serverapp import Dubhe
from dubhe_lab.bench.engine import EngineSettings, nodes_of
from dubhe_lab.bench.measuring import BenchResults, environment, seconds_of
from dubhe_lab.bench.protocol import one_training
from dubhe_lab.experiments.compare import simulate
from dubhe_lab.experiments.options import CommandSettings, option, same
from dubhe_lab.experiments.progress import flower_log_level
from dubhe_lab.experiments.settings import SelectionSettings
from dubhe_lab.report.table import Table

_KINDS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"simulation": "plain"},
    "encrypted": {"simulation": "encrypted"},
    "encrypted, Paillier": {"simulation": "encrypted", "determination": Tries(20)},
}
"""By their name in the table. Prices use the committee unless an agent chooses."""

_ROUNDS_PER_DRAW: Final = (20, 1)  # draw for many rounds at once, or for each one
_NUM_CLASSES: Final = 10
_NUM_SAMPLES: Final = 128
_CONCENTRATION: Final = 0.1
_TRAININGS: Final = 3
_LARGE: Final = 1000
_BOUNDS: Final = {
    "share_plain_draws_for_20": ("at most", 0.02),
    "share_encrypted_draws_for_20": ("at most", 0.04),
    "share_encrypted_paillier_draws_for_20": ("at most", 0.08),
}


@dataclass(frozen=True, kw_only=True)
class SimulationSettings(CommandSettings):
    """The settings of `bench_simulation`, which selects without training."""

    num_clients: int = option(1000, "Number of nodes.", least=1, quick=40)
    num_participants: int = same(SelectionSettings, "num_participants", quick=4)
    num_rounds: int = option(50, "Rounds, the first of which registers.", least=1, quick=3)
    key_bits: int = same(SelectionSettings, "key_bits", quick=512)
    ray: bool = same(EngineSettings, "ray")


def bench_simulation(settings: SimulationSettings) -> BenchResults:
    """Measure selection in plain and encrypted simulations, for one and for several rounds."""
    train = one_training()
    train()  # warm up
    ways = [("inprocess", *way) for way in product(_KINDS, _ROUNDS_PER_DRAW)]
    if settings.ray:
        ways.append(("ray", "plain", _ROUNDS_PER_DRAW[0]))
    trained, seconds = [], {}
    for engine, kind, ahead in ways:
        trained += [seconds_of(train, on_the_clock=True) for _ in range(_TRAININGS)]
        row = kind if engine == "inprocess" else f"{kind}, Ray"
        with flower_log_level(ERROR):
            seconds[row, ahead] = _selecting(settings, engine, kind, ahead)
    of_training = settings.num_participants * median(trained)
    shares = {how: sum(of) / len(of) / of_training for how, of in seconds.items()}
    names = {(row, t): f"{row.replace(', ', '_').lower()}_draws_for_{t}" for row, t in seconds}
    packages = ["dubhe-flwr", "flwr", "phe", "gmpy2", "torch", *(["ray"] if settings.ray else [])]
    return BenchResults(
        config={**settings.flat(), **environment(packages)},
        figures={f"share_{names[how]}": share for how, share in shares.items()},
        bounds=_BOUNDS if settings.num_clients >= _LARGE and settings.key_bits == 2048 else {},
        measured={
            "trained_client_seconds": trained,
            "seconds": {names[how]: of for how, of in seconds.items()},
        },
        tables=[_table(settings, of_training, shares)],
    )


def _table(
    settings: SimulationSettings, of_training: float, shares: Mapping[tuple[str, int], float]
) -> Table:
    rows = dict.fromkeys(row for row, _ in shares)
    return Table(
        f"N = {settings.num_clients}, one registration in {settings.num_rounds} rounds. Wall time "
        f"of selection as a share of a round of {of_training:.2f} s, in which K = "
        f"{settings.num_participants} clients train on MNIST (B = 8, N_VC = {_NUM_SAMPLES}) on one "
        "core. Nodes encrypt on all cores.",
        ("", *(f"rounds_per_draw={ahead}" for ahead in _ROUNDS_PER_DRAW)),
        [
            (
                row,
                *(f"{shares[row, t]:.1%}" if (row, t) in shares else "" for t in _ROUNDS_PER_DRAW),
            )
            for row in rows
        ],
    )


def _selecting(settings: SimulationSettings, engine: str, kind: str, ahead: int) -> list[float]:
    """Return the wall time that selection takes in each round."""
    strategy, app = federation(
        settings.num_clients,
        num_participants=settings.num_participants,
        registration_interval=settings.num_rounds,
        rounds_per_draw=ahead,
        key_bits=settings.key_bits,
        **_KINDS[kind],
    )
    seconds, arrays = [], ArrayRecord([np.zeros(1)])
    server_app = ServerApp()

    @server_app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def main(grid: Grid, _context: Context) -> None:
        nodes = nodes_of(grid, settings.num_clients)
        # The first message starts the simulator, so send one before timing.
        greeting = dict.fromkeys(nodes[: settings.num_participants], HelloRequest())
        send_over_grid(grid, Batch(Envelope(bytes(EPOCH_ID_BYTES), Stage.HELLO, 1), greeting), None)
        for server_round in range(1, settings.num_rounds + 1):
            select = partial(strategy.configure_train, server_round, arrays, ConfigRecord(), grid)
            seconds.append(seconds_of(select, on_the_clock=True))

    simulate(engine, server_app, app, settings.num_clients)
    return seconds


def federation(
    num_clients: int, key_bits: int, willing: Willing | None = None, **selection: Any
) -> tuple[Dubhe, ClientApp]:
    """Return a strategy with these selection settings, and the nodes' app."""
    shares = generator(0, "bench", "labels").dirichlet(
        np.full(_NUM_CLASSES, _CONCENTRATION), size=num_clients
    )
    counts = generator(0, "bench", "counts").multinomial(_NUM_SAMPLES, shares)

    def label_counts(context: Context) -> NDArray[np.int64]:
        return np.asarray(counts[int(context.node_config["partition-id"])])

    app = ClientApp()
    limits: dict[str, Any] = {"min_key_bits": key_bits, "max_key_bits": key_bits}
    register_dubhe(app, label_counts, willing=willing, simulated=True, **limits)
    strategy = Dubhe(FedAvg(fraction_evaluate=0.0), seed=0, key_bits=key_bits, **selection)
    return strategy, app
