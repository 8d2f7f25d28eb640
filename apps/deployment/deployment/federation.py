"""A real federation on one host: a SuperLink, SuperNodes with registered keys, and an app."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from deployment.credentials import Credentials
from deployment.processes import Processes, accepts, free_port, wait_for
from deployment.shelf import Shelf

CONNECTION: Final = "loopback"
START_TIMEOUT: Final = 900.0  # a backstop only, since start-up waits for conditions
# Flower gives up on a process that has not started within half a minute. That is too short when
# several start at once on a busy host.
_PATIENT: Final = """
import runpy, shutil, sys
try:
    from flwr.supercore.corestate import in_memory_corestate, sql_corestate
    in_memory_corestate.HEARTBEAT_DEFAULT_INTERVAL = sql_corestate.HEARTBEAT_DEFAULT_INTERVAL = 300
except ImportError:  # other versions of Flower keep it elsewhere, and wait half a minute
    pass
del sys.argv[0]
runpy.run_path(shutil.which(sys.argv[0]), run_name="__main__")
"""
# One process for all keys, since starting Flower's command takes longer than the registration.
_REGISTER: Final = """
import sys
from flwr.cli.app import app
for index, key in enumerate(sys.argv[2:]):
    words = ["supernode", "register", key, sys.argv[1], "--name", f"node-{index}"]
    app(words, standalone_mode=False)
"""


class Federation:
    """A SuperLink and SuperNodes on loopback, with TLS, node authentication and reviewed apps.

    Use it as a context manager, which stops everything it started even after an error. `home` is
    Flower's home, and also holds keys, certificates and logs. `say` gets a sentence for each step.
    `processes` are called `superlink`, `supernode-0`, `supernode-1` and so on.
    """

    def __init__(
        self, home: Path, num_supernodes: int, say: Callable[[str], None] = lambda _sentence: None
    ) -> None:
        self.num_supernodes = num_supernodes
        self._say = say
        self.processes = Processes(home)
        folder = self.processes.home / "credentials"
        self.credentials = Credentials.make(folder, num_supernodes)
        self._trusted_entities = folder / "trusted-entities.yaml"
        self.shelf = Shelf(self._trusted_entities)
        self.processes.environment["FLWR_SUPERGRID_API_URL"] = self.shelf.url

    def __enter__(self) -> Self:
        """Start the SuperLink, register the SuperNodes' keys, and start the SuperNodes."""
        try:
            self._start_superlink()
            self._register()
            # One by one: started together, they are so slow that Flower gives up on them.
            for index, key in enumerate(self.credentials.node_keys):
                self._start_supernode(index, key)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop everything that was started."""
        self._stop()

    def run(
        self,
        app: Path,
        run_config: str = "",
        timeout: float = 3600.0,
        show: Callable[[str], None] | None = None,
    ) -> tuple[str, str]:
        """Sign the app in a folder as reviewed, submit it and wait until it ends.

        `show` gets each line of the ServerApp's log as it comes. Returns Flower's status, such as
        `finished:completed`, and the whole log.
        """
        settings = ["--run-config", run_config] if run_config else []
        command = ("flwr", "run", self.shelf.add(app), CONNECTION, "--stream", *settings)
        output = self.processes.run(*command, timeout=timeout, show=show)
        # `flwr run` exits with 0 even after a failure, so ask for the status.
        listing = self.processes.run("flwr", "ls", CONNECTION, "--format", "json")
        runs = json.loads(listing)["runs"]
        return (str(runs[0]["status"]) if runs else "not submitted"), output

    def _stop(self) -> None:
        self.processes.stop()
        self.shelf.close()

    def _start_superlink(self) -> None:
        made = self.credentials
        api = free_port()
        self._address = f"127.0.0.1:{api}"
        (self.processes.home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "{self._address}"\nroot-certificates = "{made.certificate}"\n',
            encoding="utf-8",
        )
        self.processes.start(
            "superlink",
            *("python", "-c", _PATIENT, "flower-superlink"),
            *("--ssl-ca-certfile", str(made.certificate)),
            *("--ssl-certfile", str(made.certificate), "--ssl-keyfile", str(made.key)),
            "--enable-supernode-auth",
            *("--host", "127.0.0.1", "--port", str(api)),
        )
        wait_for(lambda: accepts(api), START_TIMEOUT, "the SuperLink listens")
        self._say(f"The SuperLink listens, process {self.processes.started['superlink'].pid}.")

    def _register(self) -> None:
        keys = [str(key.with_suffix(".pub")) for key in self.credentials.node_keys]
        answer = self.processes.run(
            "python", "-c", _REGISTER, CONNECTION, *keys, timeout=START_TIMEOUT
        )
        if answer.count("registered successfully") != len(keys):
            raise RuntimeError(f"The SuperNodes could not be registered: {answer.strip()}")
        self._say(f"The keys of {len(keys)} SuperNodes are registered.")

    def _start_supernode(self, index: int, key: Path) -> None:
        name = f"supernode-{index}"
        process_id = self.processes.start(
            name,
            *("python", "-c", _PATIENT, "flower-supernode"),
            *("--root-certificates", str(self.credentials.certificate)),
            *("--auth-supernode-private-key", str(key)),
            *("--trusted-entities", str(self._trusted_entities)),
            *("--superlink", self._address),
            *("--host", "127.0.0.1", "--port", str(free_port())),
            *("--node-config", f"partition-id={index} num-partitions={self.num_supernodes}"),
        )
        connected = partial(self.processes.has_said, name, "SuperNode ID")
        wait_for(connected, START_TIMEOUT, f"{name} is connected")
        self._say(f"{name} of {self.num_supernodes} is connected, process {process_id}.")
