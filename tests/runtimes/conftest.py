"""A Flower home of its own for each test, whose processes end with the test."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


class FlowerHome:
    """Runs Flower's commands with a home and an environment of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(path),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": "",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def app(self, name: str) -> str:
        """Return the path of one of the apps."""
        return str(ROOT / "apps" / name)

    def start(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        """Start a command in the background, with its output in a file of the home."""
        with (self.path / f"{log}.log").open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - Flower's own commands
                [str(BIN / command[0]), *command[1:]],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def run(self, *command: str, timeout: float = 300.0) -> str:
        """Run a command to its end and return its output."""
        finished = subprocess.run(  # noqa: S603 - Flower's own commands
            [str(BIN / command[0]), *command[1:]],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
            text=True,
        )
        return finished.stdout

    def statuses(self, connection: str = "local") -> list[str]:
        """Return the status of every run, the latest first: `flwr run` exits with 0 regardless."""
        listing: dict[str, Any] = json.loads(self.run("flwr", "ls", connection, "--format", "json"))
        return [run["status"] for run in listing["runs"]]

    def processes(self) -> list[int]:
        """Return the ids of all processes with this home."""
        needle = f"FLWR_HOME={self.path}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if needle in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def stop(self) -> None:
        """End every process with this home, politely first."""
        for process in self.started:
            process.terminate()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for process_id in self.processes():
                try:
                    os.kill(process_id, sign)
                except ProcessLookupError:
                    continue
            deadline = time.monotonic() + 10
            while self.processes() and time.monotonic() < deadline:
                for process in self.started:
                    process.poll()
                time.sleep(0.2)


@pytest.fixture
def flower_home(tmp_path: Path) -> Iterator[FlowerHome]:
    """Give a test a Flower home, and end what was started in it."""
    home = FlowerHome(tmp_path)
    try:
        yield home
    finally:
        home.stop()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool], float], None]:
    """Return a function that waits until a condition holds."""

    def wait(condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            time.sleep(0.5)

    return wait
