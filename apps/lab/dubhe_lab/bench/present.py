"""What connected nodes cost the server when they are not in the sample that registers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import ERROR
from statistics import mean, median
from time import process_time
from typing import Final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message

from dubhe_flwr.adapter.transport import ForwardingGrid
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.simulation import InProcessGrid
from dubhe_lab.bench.measuring import BenchResults, environment
from dubhe_lab.bench.simulation import federation
from dubhe_lab.experiments.options import CommandSettings, numbers, option, same
from dubhe_lab.experiments.progress import flower_log_level
from dubhe_lab.experiments.settings import SelectionSettings
from dubhe_lab.report.table import Table

_KEY_BITS: Final = 512  # nothing is encrypted
_BOUNDS: Final = {"epoch_ratio": ("at most", 1.1)}
_USUAL_SIZES: Final = (2000, 20_000)


@dataclass(frozen=True, kw_only=True)
class PresentSettings(CommandSettings):
    """The settings of `bench_present`: several federation sizes, one sample size."""

    sizes: tuple[int, ...] = option(
        _USUAL_SIZES, "Values of N, separated by commas.", parse=numbers, quick=(40, 80)
    )
    max_registered: int = option(
        Settings.max_registered, "Largest number of nodes that register.", least=1, quick=40
    )
    num_participants: int = same(SelectionSettings, "num_participants", quick=4)
    num_rounds: int = option(50, "Rounds per registration period.", least=2, quick=3)
    num_epochs: int = option(2, "Registration periods to average over.", least=1, quick=1)


class _NodesApart(ForwardingGrid):
    """A Grid that adds up its nodes' CPU time, to subtract it from the server's."""

    seconds = 0.0

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and return the replies."""
        asked = list(messages)
        began = process_time()
        replies = list(self.other.send_and_receive(asked, timeout=timeout))
        self.seconds += process_time() - began
        return replies


def bench_present(settings: PresentSettings) -> BenchResults:
    """Compare the server's time when all nodes register and when only a sample does."""
    selecting = {number: _selection(settings, number) for number in settings.sizes}
    seconds: dict[int, list[float]] = {number: [] for number in settings.sizes}
    with flower_log_level(ERROR):
        for server_round in range(1, settings.num_epochs * settings.num_rounds + 1):
            for number, select in selecting.items():
                seconds[number].append(select(server_round))
    costs = {number: _costs(settings, of) for number, of in seconds.items()}
    smallest, largest = min(settings.sizes), max(settings.sizes)
    return BenchResults(
        config={**settings.flat(), **environment(["dubhe-flwr", "flwr"])},
        figures={
            f"{name}_ratio": costs[largest][name] / costs[smallest][name]
            for name in costs[smallest]
        },
        bounds=_BOUNDS if settings == PresentSettings() else {},
        measured={"seconds": {str(number): of for number, of in seconds.items()}},
        tables=[
            Table(
                f"At most {settings.max_registered} nodes register per registration period of "
                f"{settings.num_rounds} rounds. The server's CPU time, including Flower's messages "
                "but not encryption, which adds the same for every N.",
                ("", "registration and draw", "a draw", "whole period"),
                [
                    (
                        f"N = {number}",
                        f"{of['registration']:.3f} s",
                        f"{1e3 * of['draw']:.1f} ms",
                        f"{of['epoch']:.2f} s",
                    )
                    for number, of in costs.items()
                ],
            )
        ],
    )


def _selection(settings: PresentSettings, number: int) -> Callable[[int], float]:
    """Return a function that selects for a round and returns the server's CPU seconds."""
    strategy, app = federation(
        number,
        _KEY_BITS,
        lambda _context, _round: True,  # with `willing`, each node answers for itself
        num_participants=settings.num_participants,
        registration_interval=settings.num_rounds,
        max_registered=settings.max_registered,
        rounds_per_draw=1,  # a draw in each round
        simulation="plain",
    )
    grid, arrays = _NodesApart(InProcessGrid(app, number)), ArrayRecord([np.zeros(1)])

    def select(server_round: int) -> float:
        began, of_nodes = process_time(), grid.seconds
        strategy.configure_train(server_round, arrays, ConfigRecord(), grid)
        return process_time() - began - (grid.seconds - of_nodes)

    return select


def _costs(settings: PresentSettings, seconds: list[float]) -> dict[str, float]:
    first = seconds[:: settings.num_rounds]
    epoch = sum(seconds) / settings.num_epochs
    later = [each for row, each in enumerate(seconds) if row % settings.num_rounds]
    return {"registration": mean(first), "draw": median(later), "epoch": epoch}
