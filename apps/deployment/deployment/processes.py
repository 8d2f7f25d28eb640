"""Background processes that share a Flower home, and are all stopped together."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    """Return whether a process listens on this port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def end_by_exceptions() -> None:
    """Have signals that end this process raise an exception, so that it stops what it started."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as for a command that nohup starts
            signal.signal(number, lambda received, _frame: sys.exit(128 + received))


@contextmanager
def counting(say: Callable[[str], None], every: float = 30.0) -> Iterator[None]:
    """Report the elapsed time regularly, since minutes can pass without a log line."""
    began, done = time.monotonic(), threading.Event()

    def count() -> None:
        while not done.wait(every):
            say(f"... {time.monotonic() - began:.0f} s so far")

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def wait_for(condition: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait until a condition holds; raise `TimeoutError` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout:.0f} s.")
        time.sleep(0.5)


class Processes:
    """Runs Flower's commands with their own environment, and their logs in Flower's home."""

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.home.mkdir(parents=True, exist_ok=True)
        commands = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "OMP_NUM_THREADS": "1",  # many processes share this host
            "PATH": f"{commands}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        # Each message starts a process, which without bytecode would compile all its imports.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._commands = commands
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> int:
        """Start a command in the background, with its output in `NAME.log` in the home.

        Returns the process id, which is also the process group of everything it starts.
        """
        with self.log_of(name).open("wb") as output:
            self.started[name] = subprocess.Popen(  # noqa: S603 - Flower's own commands
                self._with_path(command),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.started[name].pid

    def run(
        self, *command: str, timeout: float = 300.0, show: Callable[[str], None] | None = None
    ) -> str:
        """Run a command to its end and return its output; `show` gets each line as it comes.

        A command that takes longer than `timeout` seconds is killed, and raises `TimeoutError` with
        its last output.
        """
        lines: list[str] = []
        with subprocess.Popen(  # noqa: S603 - Flower's own commands
            self._with_path(command),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            late = threading.Event()

            def end() -> None:
                late.set()
                process.kill()

            timer = threading.Timer(timeout, end)
            timer.start()
            try:
                for line in process.stdout or ():
                    lines.append(line)
                    if show is not None:
                        show(line)
            except BaseException:  # such as Ctrl-C; do not wait for the command
                process.kill()
                raise
            finally:
                timer.cancel()
        output = "".join(lines)
        if late.is_set():
            raise TimeoutError(f"{command[:2]}: not within {timeout:.0f} s: {output[-2000:]}")
        return output

    def log_of(self, name: str) -> Path:
        """Return the path of a process's log."""
        return self.home / f"{name}.log"

    def has_said(self, name: str, words: str) -> bool:
        """Return whether these words are in a process's log.

        Raises `RuntimeError` with its last output if it has ended without them.
        """
        log = self.log_of(name).read_text("utf-8", errors="replace")
        if words in log:
            return True
        if self.started[name].poll() is not None:
            raise RuntimeError(f"{name} has ended: {log[-2000:]}")
        return False

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and everything it started."""
        try:
            os.killpg(self.started[name].pid, number)
        except ProcessLookupError:
            self.started[name].poll()

    def alive(self) -> list[int]:
        """Return the ids of all processes with this home, grandchildren included."""
        needle = f"FLWR_HOME={self.home}".encode()
        found = {process.pid for process in self.started.values() if process.poll() is None}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if needle in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:  # the process has ended, or belongs to another user
                continue
        return sorted(found - {os.getpid()})

    def stop(self, timeout: float = 10.0) -> None:
        """Stop every process with this home, first with SIGTERM, then with SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process_id in self.alive():
                for each in (signal.SIGCONT, number):  # a suspended process has to resume first
                    try:
                        os.kill(process_id, each)
                    except ProcessLookupError:
                        break
            deadline = time.monotonic() + timeout
            while self.alive() and time.monotonic() < deadline:
                time.sleep(0.2)

    def _with_path(self, command: tuple[str, ...]) -> list[str]:
        return [str(self._commands / command[0]), *command[1:]]
