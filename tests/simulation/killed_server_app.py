"""Kills a ServerApp with SIGKILL at one point after another, and restarts it each time."""

import json
import logging
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from apis import Api, WatchedGrid

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.resume import Run
from dubhe_flwr.rules import Paper

NUM_ROUNDS = 3
KILLED_IN = 2


def kill() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(point: str, strategy: Any, grid: WatchedGrid) -> None:
    """Make a point of the second round kill the process."""
    push, replace, complete = grid.push_messages, Path.replace, Run.complete
    kind = "train" if point == "train" else f"evaluate.dubhe_{point}"

    def killing_push(messages: Any) -> Any:
        messages = list(messages)
        message_ids = push(messages)
        here = any(message.metadata.message_type == kind for message in messages)
        if here and strategy.rounds_done == KILLED_IN - 1:
            kill()
        return message_ids

    def killing_replace(self: Path, target: Path) -> Path:
        if point == "checkpoint" and strategy.rounds_done == KILLED_IN:
            kill()
        return replace(self, target)

    def killing_complete(self: Run, server_round: int, model: Any) -> None:
        complete(self, server_round, model)
        if point == "evaluate" and server_round == KILLED_IN:
            kill()

    grid.push_messages = killing_push  # type: ignore[method-assign]
    Path.replace = killing_replace  # type: ignore[method-assign, assignment]
    Run.complete = killing_complete  # type: ignore[method-assign]


def server(api: Api, path: Path, point: str) -> None:
    """Run the ServerApp, which kills itself at a point of round 2; an empty point means never."""
    # Every round registers, so every round has all stages.
    rule = Paper((1, 2, 4), "search")
    strategy = api.dubhe(rule=rule, registration_interval=1, checkpoint_dir=path / "kept")
    grid = api.grid()
    if point:
        kill_at(point, strategy, grid)
    api.run(strategy, grid, NUM_ROUNDS)
    kept = CheckpointDirectory(path / "kept").open()
    model = kept["model"]
    tensors = model.tensors if api.is_fit else [array.data for array in model.values()]
    result = {
        "rounds": [plan.server_round for plan in getattr(strategy, "plans", [])],
        "selected": getattr(strategy, "selected", []),
        "last": kept["state"]["round"],
        "model": [tensor.hex() for tensor in tensors],
    }
    (path / "result.json").write_text(json.dumps(result))


def in_process_of_its_own(api: Api, path: Path, point: str) -> int:
    """Run the ServerApp in a process and return its exit code: 0, or minus a signal number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            server(api, path, point)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(api: Api, path: Path, points: list[str]) -> None:
    """Kill and restart the ServerApp at each point, after a first run without a kill."""
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
    main(Api(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
