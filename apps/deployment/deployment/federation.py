"""A federation on one host: a SuperLink, SuperNodes that it knows by their keys, and an app."""

import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from deployment.credentials import Credentials
from deployment.processes import Processes, accepts, free_ports, wait_for

__all__ = ["Federation"]

CONNECTION: Final = "loopback"
START_TIMEOUT: Final = 180.0


class Federation:
    """A SuperLink and SuperNodes on loopback, with TLS and node authentication.

    Used as a context manager: everything that was started ends with it, whatever happens.

    Parameters
    ----------
    home : Path
        Flower's home, and the folder of keys, certificates and logs.
    num_supernodes : int
        Number of SuperNodes.

    Attributes
    ----------
    processes : Processes
        What was started: `superlink`, and `supernode-0` and so on.
    """

    def __init__(self, home: Path, num_supernodes: int) -> None:
        self.num_supernodes = num_supernodes
        self.processes = Processes(home)
        self.credentials = Credentials.make(self.processes.home / "credentials", num_supernodes)

    def __enter__(self) -> Self:
        """Start the SuperLink, tell it the SuperNodes' keys, and start those."""
        try:
            self._start_superlink()
            for index, key in enumerate(self.credentials.node_keys):
                self._register(index, key)
                self._start_supernode(index, key)
            wait_for(self._all_online, START_TIMEOUT, "all SuperNodes online")
        except BaseException:
            self.processes.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all that was started."""
        self.processes.stop()

    def run(
        self,
        app: Path,
        run_config: str = "",
        timeout: float = 600.0,
        show: Callable[[str], None] | None = None,
    ) -> tuple[str, str]:
        """Submit an app and wait for its end.

        Parameters
        ----------
        app : Path
            The folder of the app.
        run_config : str
            Settings as `flwr run --run-config` takes them.
        timeout : float (default: 600)
            Seconds after which to give up.
        show : callable (str) -> None, optional
            Gets each line of the ServerApp's log as it comes.

        Returns
        -------
        status : str
            Flower's word for it, such as `finished:completed`.
        output : str
            The log of the ServerApp.
        """
        settings = ["--run-config", run_config] if run_config else []
        command = ("flwr", "run", str(app), CONNECTION, "--stream", *settings)
        output = self.processes.run(*command, timeout=timeout, show=show)
        runs = self._listed("ls")["runs"]  # `flwr run` exits with 0 regardless
        return (str(runs[0]["status"]) if runs else "not submitted"), output

    def _start_superlink(self) -> None:
        made = self.credentials
        (api,) = free_ports(1)
        self._address = f"127.0.0.1:{api}"
        (self.processes.home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "{self._address}"\nroot-certificates = "{made.authority}"\n',
            encoding="utf-8",
        )
        self.processes.start(
            "superlink",
            "flower-superlink",
            *("--ssl-ca-certfile", str(made.authority)),
            *("--ssl-certfile", str(made.certificate), "--ssl-keyfile", str(made.key)),
            "--enable-supernode-auth",
            *("--host", "127.0.0.1", "--port", str(api)),
        )
        wait_for(lambda: accepts(api), START_TIMEOUT, "the SuperLink listens")

    def _register(self, index: int, key: Path) -> None:
        public = key.with_suffix(".pub")
        command = ("flwr", "supernode", "register", str(public), CONNECTION)
        answer = self.processes.run(*command, "--name", f"node-{index}")
        if "registered successfully" not in answer:
            raise RuntimeError(f"SuperNode {index} could not be registered: {answer.strip()}")

    def _start_supernode(self, index: int, key: Path) -> None:
        (port,) = free_ports(1)
        self.processes.start(
            f"supernode-{index}",
            "flower-supernode",
            *("--root-certificates", str(self.credentials.authority)),
            *("--auth-supernode-private-key", str(key)),
            *("--superlink", self._address),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--node-config", f"partition-id={index} num-partitions={self.num_supernodes}"),
        )

    def _all_online(self) -> bool:
        nodes = self._listed("supernode", "list")["nodes"]
        online = [node for node in nodes if node["status"] == "online"]
        return len(online) == self.num_supernodes

    def _listed(self, *what: str) -> dict[str, Any]:
        output = self.processes.run("flwr", *what, CONNECTION, "--format", "json")
        listing: dict[str, Any] = json.loads(output)
        return listing
