"""Kills a ServerApp with SIGKILL at one point after the other, and starts it again each time.

Run as a script with an API ("fit" or "train"), a folder and the points: a process for each
ServerApp, made by fork so that the packages are imported once. It prints what came of it as JSON.
"""

import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from flwr.common import parameters_to_ndarrays
from support import (
    NUM_CLASSES,
    SELECTION,
    Recorded,
    initial_parameters,
    main_server_app,
    message_client_app,
    numpy_client_app,
    skewed_label_counts,
    strategy_server_app,
)

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.packing import unpack
from dubhe_flwr.rules import Paper, Prices
from dubhe_flwr.simulation import InProcessGrid

NUM_ROUNDS = 3
KILLED_IN = 2
NUM_NODES = 36
"""Enough for the prices to settle in several exchanges."""

LABEL_COUNTS = skewed_label_counts(NUM_NODES)
# Both rules settle in exchanges of their own; each is tried in one of the APIs.
RULES = {"fit": Prices(), "train": Paper((1, 2, NUM_CLASSES), "search")}


def kill() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class KillingGrid(InProcessGrid):
    """Ends the process once the nodes have answered the messages of a type, in one round."""

    kind = ""
    server_round = 0

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        message_ids = super().push_messages(messages)
        here = any(message.metadata.message_type == self.kind for message in messages)
        if here and self.server_round == KILLED_IN:
            kill()
        return message_ids


def server(api: str, path: Path, point: str) -> None:
    """Run the ServerApp, which is killed at a point of the second round; never if it is empty."""
    make = numpy_client_app if api == "fit" else message_client_app
    client_app = make(lambda context: LABEL_COUNTS[int(context.node_config["partition-id"])])
    grid = KillingGrid(client_app, NUM_NODES)
    grid.kind = "train" if point == "train" else f"evaluate.dubhe_{point}"
    if point == "checkpoint":
        rename = Path.rename

        def killing_rename(self: Path, target: Path) -> Path:
            if self.name == f".round-{KILLED_IN:06d}":
                kill()
            return rename(self, target)

        Path.rename = killing_rename  # type: ignore[method-assign, assignment]

    def evaluate(server_round: int, *_arguments: Any) -> None:
        if point == "evaluate" and server_round == KILLED_IN:
            kill()
        grid.server_round = server_round + 1

    strategy, server_app = made(api, path / "kept", evaluate)
    context = Context(grid.run.run_id, 1, {}, RecordDict(), {})
    server_app(grid, context)
    kept = CheckpointDirectory(path / "kept").open()
    assert kept is not None
    model = unpack(kept.content["model"])
    arrays = parameters_to_ndarrays(model) if api == "fit" else model.to_numpy_ndarrays()
    result = {
        "rounds": [plan.server_round for plan in getattr(strategy, "plans", [])],
        "selected": getattr(strategy, "selected", []),
        "last": kept.path.name,
        "model": [array.tobytes().hex() for array in arrays],
    }
    (path / "result.json").write_text(json.dumps(result))


def made(api: str, path: Path, evaluate: Callable[..., None]) -> tuple[Any, Any]:
    """Return the strategy and its ServerApp; every round registers, so that it has all stages."""
    options: dict[str, Any] = {
        **SELECTION,
        "registration_interval": 1,
        "rule": RULES[api],
        "checkpoint_dir": path,
    }
    if api == "fit":
        from flwr.server import strategy as fit

        from dubhe_flwr.server import Dubhe as FitDubhe

        recorded = type("RecordedFit", (Recorded, FitDubhe), {})
        inner: Any = fit.FedAvg(
            fraction_evaluate=0.0,
            initial_parameters=initial_parameters(),
            evaluate_fn=evaluate,
        )
        strategy = recorded(inner, **options)
        return strategy, strategy_server_app(strategy, strategy.rounds_left(NUM_ROUNDS))
    from flwr.serverapp import strategy as train

    from dubhe_flwr.serverapp import Dubhe

    recorded = type("RecordedTrain", (Recorded, Dubhe), {})
    strategy = recorded(train.FedAvg(fraction_evaluate=0.0), **options)
    start = strategy.start
    strategy.start = lambda *arguments, **named: start(*arguments, **named, evaluate_fn=evaluate)
    return strategy, main_server_app(strategy, NUM_ROUNDS)


def in_process_of_its_own(api: str, path: Path, point: str) -> int:
    """Return how a process with the ServerApp ended: 0, or minus the number of a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            server(api, path, point)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(api: str, path: Path, points: list[str]) -> None:
    """Kill and start again, for each of the points; the first one is no kill at all."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    outcomes: dict[str, Any] = {}
    for point in ["", *points]:
        shutil.rmtree(path / "kept", ignore_errors=True)
        ended = in_process_of_its_own(api, path, point)
        ended_again = in_process_of_its_own(api, path, "") if point else ended
        result = json.loads((path / "result.json").read_text())
        outcomes[point] = {"ended": ended, "ended_again": ended_again, **result}
        (path / "result.json").unlink()
    print(json.dumps(outcomes))  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
