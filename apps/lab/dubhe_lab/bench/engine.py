"""Messages and rounds per second through the in-process engine and through Ray."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from logging import ERROR
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import Final

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from dubhe_flwr.errors import DubheError
from dubhe_lab.bench.measuring import BenchResults, environment
from dubhe_lab.experiments.compare import simulate
from dubhe_lab.experiments.options import CommandSettings, option
from dubhe_lab.experiments.progress import flower_log_level
from dubhe_lab.report.table import Table

_NUM_PARTICIPANTS: Final = 20
_LARGE: Final = 1000
_LONGEST_WAIT: Final = 120


@dataclass(frozen=True, kw_only=True)
class EngineSettings(CommandSettings):
    """The settings of `bench_engine`."""

    num_nodes: int = option(1000, "Number of nodes.", least=1, quick=20)
    repeats: int = option(3, "Batches to measure, after one to warm up.", least=1)
    ray: bool = option(
        default=find_spec("ray") is not None, about="Measure Ray too, if installed.", quick=False
    )


def bench_engine(settings: EngineSettings) -> BenchResults:
    """Count small messages and rounds of 20 nodes per second, in this process and on Ray."""
    engines = ["inprocess", *(["ray"] if settings.ray else [])]
    measured: dict[str, dict[str, float]] = {}
    with flower_log_level(ERROR):
        for engine in engines:
            measured[engine] = _measure(engine, settings.num_nodes, settings.repeats)
    measured["plain calls"] = {"message_seconds": _plain_calls(settings.num_nodes)}
    rates = {name: settings.num_nodes / of["message_seconds"] for name, of in measured.items()}
    figures = {
        "inprocess_messages_per_second": rates["inprocess"],
        "inprocess_rounds_per_second": 1 / measured["inprocess"]["round_seconds"],
        "plain_calls_per_second": rates["plain calls"],
    }
    if "ray" in rates:
        figures |= {
            "ray_messages_per_second": rates["ray"],
            "ray_rounds_per_second": 1 / measured["ray"]["round_seconds"],
            "messages_ratio_vs_ray": rates["inprocess"] / rates["ray"],
        }
    return BenchResults(
        config={
            **settings.flat(),
            "num_participants": min(_NUM_PARTICIPANTS, settings.num_nodes),
            **environment(["dubhe-flwr", "flwr", *engines[1:]]),
        },
        figures=figures,
        measured=measured,
        tables=[_table(settings.num_nodes, measured)],
        bounds={"messages_ratio_vs_ray": ("at least", 50)} if settings.num_nodes >= _LARGE else {},
    )


def _measure(engine: str, num_nodes: int, repeats: int) -> dict[str, float]:
    """Return the wall time of a batch to all nodes, and of a round of 20 nodes."""
    found: dict[str, float] = {}
    server_app = ServerApp()

    @server_app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def main(grid: Grid, _context: Context) -> None:
        node_ids = nodes_of(grid, num_nodes)
        some = node_ids[:_NUM_PARTICIPANTS]
        _exchange(grid, node_ids)
        batches = [_exchange(grid, node_ids) for _ in range(repeats)]
        num_rounds = repeats * (10 if engine == "inprocess" else 1)
        rounds = [_exchange(grid, some) for _ in range(num_rounds)]
        found.update(message_seconds=median(batches), round_seconds=median(rounds))

    simulate(engine, server_app, _echo_app(), num_nodes)
    return found


def nodes_of(grid: Grid, num_nodes: int) -> list[int]:
    """Wait until all nodes are connected, and return their ids."""
    deadline = monotonic() + _LONGEST_WAIT
    while len(node_ids := list(grid.get_node_ids())) < num_nodes:
        if monotonic() > deadline:
            raise DubheError(
                f"The engine has {len(node_ids)} of {num_nodes} nodes after {_LONGEST_WAIT} s; "
                "see its log above."
            )
        sleep(0.01)
    return node_ids


def _exchange(grid: Grid, node_ids: Iterable[int]) -> float:
    messages = _messages(node_ids)
    began = perf_counter()
    replies = list(grid.send_and_receive(messages))
    seconds = perf_counter() - began
    answered = sum(reply.has_content() for reply in replies)
    if answered < len(messages):  # a lost message would look fast
        raise DubheError(
            f"The engine answered {answered} of {len(messages)} messages; see its log above."
        )
    return seconds


def _messages(node_ids: Iterable[int]) -> list[Message]:
    arrays = ArrayRecord([np.zeros(64, dtype=np.float32)])
    return [
        Message(RecordDict({"arrays": arrays}), dst_node_id=node_id, message_type="train")
        for node_id in node_ids
    ]


def _echo_app() -> ClientApp:
    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator,unused-ignore]
    def echo(message: Message, _context: Context) -> Message:
        return Message(message.content, reply_to=message)

    return app


def _plain_calls(num_nodes: int) -> float:
    """Return the time of calling the ClientApp directly, a lower bound for every engine."""
    app = _echo_app()
    context = Context(run_id=1, node_id=2, node_config={}, state=RecordDict(), run_config={})
    messages = _messages([2] * num_nodes)
    seconds = []
    for _ in range(5):
        began = perf_counter()
        for message in messages:
            app(message, context)
        seconds.append(perf_counter() - began)
    return median(seconds)


def _table(num_nodes: int, measured: dict[str, dict[str, float]]) -> Table:
    rows = []
    for name, of in measured.items():
        rounds = f"{1 / of['round_seconds']:.1f}" if "round_seconds" in of else ""
        rows.append((name, f"{num_nodes / of['message_seconds']:.0f}", rounds))
    return Table(
        f"{num_nodes} nodes that echo their messages: messages per second in one batch to all, "
        f"and rounds per second with {min(_NUM_PARTICIPANTS, num_nodes)} nodes, in wall time. "
        "Calling the ClientApp directly is the upper bound.",
        ("engine", "messages per second", "rounds per second"),
        rows,
    )
