"""What selection costs in a simulation in one process, beside the training that it steers."""

from dataclasses import dataclass
from functools import partial
from itertools import product
from logging import ERROR
from statistics import median
from typing import Any, Final, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from bench.measuring import BenchResults, environment, seconds_of
from bench.protocol import one_training
from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.core import generator
from dubhe_flwr.experiments.options import CommandSettings, option, same
from dubhe_flwr.experiments.progress import flower_log_level
from dubhe_flwr.experiments.settings import SelectionSettings
from dubhe_flwr.report.table import Table
from dubhe_flwr.serverapp import Dubhe
from dubhe_flwr.simulation import InProcessGrid

_KINDS: Final[tuple[Literal["plain", "encrypted"], ...]] = ("plain", "encrypted")
_ROUNDS_PER_DRAW: Final = (20, 1)  # as it comes, and as real nodes do
_NUM_CLASSES: Final = 10
_NUM_SAMPLES: Final = 128
_CONCENTRATION: Final = 0.1
_TRAININGS: Final = 3
_LARGE: Final = 1000
_BOUNDS: Final = {
    "share_plain_draws_for_20": ("at most", 0.02),
    "share_encrypted_draws_for_20": ("at most", 0.15),
}


@dataclass(frozen=True, kw_only=True)
class SimulationSettings(CommandSettings):
    """What is measured: the rounds from one registration to the next, without their training."""

    num_clients: int = option(1000, "Nodes, all in this process.", least=1, quick=40)
    num_participants: int = same(SelectionSettings, "num_participants", quick=4)
    num_rounds: int = option(50, "Rounds, the first of which registers.", least=1, quick=3)
    key_bits: int = same(SelectionSettings, "key_bits", quick=512)


def bench_simulation(settings: SimulationSettings) -> BenchResults:
    """Select for a federation in one process, in the clear and encrypted, some rounds ahead."""
    train = one_training()
    train()  # warm
    trained, seconds = [], {}
    for kind, ahead in product(_KINDS, _ROUNDS_PER_DRAW):
        trained += [seconds_of(train, on_the_clock=True) for _ in range(_TRAININGS)]
        with flower_log_level(ERROR):
            seconds[kind, ahead] = _selecting(settings, kind, ahead)
    of_training = settings.num_participants * median(trained)
    shares = {how: sum(of) / len(of) / of_training for how, of in seconds.items()}
    return BenchResults(
        config={**settings.flat(), **environment(["dubhe-flwr", "flwr", "phe", "gmpy2", "torch"])},
        figures={f"share_{kind}_draws_for_{t}": share for (kind, t), share in shares.items()},
        bounds=_BOUNDS if settings.num_clients >= _LARGE and settings.key_bits == 2048 else {},
        measured={
            "trained_client_seconds": trained,
            "seconds": {f"{kind}_draws_for_{t}": of for (kind, t), of in seconds.items()},
        },
        tables=[
            Table(
                f"N = {settings.num_clients}, a registration in {settings.num_rounds} rounds. Time "
                f"of selection as a share of a round of {of_training:.2f} s, the training of K = "
                f"{settings.num_participants} clients of MNIST (B = 8, N_VC = {_NUM_SAMPLES}) on "
                "one core. On the clock: nodes encrypt on all cores.",
                ("", *(f"rounds_per_draw={ahead}" for ahead in _ROUNDS_PER_DRAW)),
                [
                    (kind, *(f"{shares[kind, ahead]:.1%}" for ahead in _ROUNDS_PER_DRAW))
                    for kind in _KINDS
                ],
            )
        ],
    )


def _selecting(
    settings: SimulationSettings, kind: Literal["plain", "encrypted"], ahead: int
) -> list[float]:
    """Return the seconds of the selection in each round, on the clock."""
    strategy, grid = federation(
        settings.num_clients,
        num_participants=settings.num_participants,
        registration_interval=settings.num_rounds,
        rounds_per_draw=ahead,
        key_bits=settings.key_bits,
        simulation=kind,
    )
    seconds, arrays = [], ArrayRecord([np.zeros(1)])
    for server_round in range(1, settings.num_rounds + 1):
        select = partial(strategy.configure_train, server_round, arrays, ConfigRecord(), grid)
        seconds.append(seconds_of(select, on_the_clock=True))
    return seconds


def federation(num_clients: int, key_bits: int, **selection: Any) -> tuple[Dubhe, InProcessGrid]:
    """Return a strategy that selects so, and its nodes."""
    shares = generator(0, "bench", "labels").dirichlet(
        np.full(_NUM_CLASSES, _CONCENTRATION), size=num_clients
    )
    counts = generator(0, "bench", "counts").multinomial(_NUM_SAMPLES, shares)

    def label_counts(context: Context) -> NDArray[np.int64]:
        return np.asarray(counts[int(context.node_config["partition-id"])])

    app = ClientApp()
    register_dubhe(app, label_counts, simulated=True, min_key_bits=key_bits)
    strategy = Dubhe(FedAvg(fraction_evaluate=0.0), seed=0, key_bits=key_bits, **selection)
    return strategy, InProcessGrid(app, num_clients)
