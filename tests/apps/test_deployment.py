"""Tests of the deployment app's credentials, processes and folders, without running Flower."""

import os
import runpy
import shlex
import signal
import stat
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
import requests
import typer
import yaml
from cryptography import x509
from deployment import Credentials, Processes, Shelf
from deployment.processes import wait_for

APP = Path(__file__).parents[2] / "apps" / "deployment"
LONG = "import time; time.sleep(600)"


def test_credentials_are_secret(tmp_path: Path) -> None:
    """Only the user can read the keys, no other file holds one, and they fit this host."""
    made = Credentials.make(tmp_path / "secret", 3)
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    for path in (made.key, *made.node_keys):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.key.parent.stat().st_mode) == 0o700
    written = [path for path in made.key.parent.iterdir() if b"PRIVATE" in path.read_bytes()]
    assert sorted(written) == sorted([made.key, *made.node_keys])


def test_a_shelf_hands_out_signed_apps(tmp_path: Path) -> None:
    """Each app comes with the reviewer's signature, and anything else is not found."""
    shelf = Shelf(tmp_path / "trusted.yaml")
    try:
        name, _, _ = shelf.add(APP.parent / "quickstart").partition("==")
        found = requests.post(shelf.url, json={"app_id": name}, timeout=9).json()
        assert requests.get(found["fab_url"], timeout=9).content.startswith(b"PK")
        assert requests.post(shelf.url, json={}, timeout=9).status_code == 404  # update checks
    finally:
        shelf.close()


def test_every_started_process_is_stopped(tmp_path: Path) -> None:
    """Child processes, stopped processes and processes that ignore signals end too."""
    processes = Processes(tmp_path)
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); {LONG}"
    detached = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', "
        f"{LONG!r}], start_new_session=True); {LONG}"
    )
    for name, program in (("plain", LONG), ("stubborn", stubborn), ("parent", detached)):
        processes.start(name, "python", "-u", "-c", program)
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, "FLWR_HOME": "/elsewhere"})  # noqa: S607
    try:
        wait_for(lambda: len(processes.alive()) == 4, 60, "all four have started")
        wait_for(lambda: processes.has_said("stubborn", "1"), 60, "it ignores signals")
        processes.signal("plain", signal.SIGSTOP)
        processes.stop(timeout=2.0)
        assert processes.alive() == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    processes.signal("plain", signal.SIGKILL)


def test_a_command_returns_its_output_or_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output arrives line by line, a hanging command is killed, and bytecode may be cached."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    processes, lines = Processes(tmp_path), list[str]()
    said = "import sys; print(1, flush=True); print(2 - sys.dont_write_bytecode, flush=True)"
    assert processes.run("python", "-c", said, show=lines.append) == "1\n2\n"
    assert lines == ["1\n", "2\n"]
    with pytest.raises(TimeoutError, match="not within 1 s: 1\n2"):
        processes.run("python", "-c", f"{said}; {LONG}", timeout=1.0)
    assert processes.alive() == []


def test_waiting_for_a_line_in_a_log(tmp_path: Path) -> None:
    """Waiting ends with the line in the log, or when the process ends without it."""
    processes = Processes(tmp_path)
    processes.start("told", "python", "-c", "print('SuperNode ID: 7')")
    wait_for(lambda: processes.has_said("told", "SuperNode ID"), 60, "it is connected")
    processes.start("failed", "python", "-c", "raise ValueError('no port')")
    with pytest.raises(RuntimeError, match=r"failed has ended: (?s:.*)no port"):
        wait_for(lambda: processes.has_said("failed", "SuperNode ID"), 60, "it is connected")


def test_the_compose_file_fits_the_installed_flower() -> None:
    """The installed Flower accepts every command's options, and every app folder exists."""
    superlink, supernode = (
        import_module(f"flwr.{name}.cli.flower_{name}") for name in ("superlink", "supernode")
    )
    parsers = {
        "flower-superlink": superlink._parse_args_run_superlink(),
        "flower-supernode": supernode._parse_args_run_supernode(),
    }
    services = yaml.safe_load((APP / "compose.yaml").read_text("utf-8"))["services"]
    given = {}
    for name, service in services.items():
        command, *options = shlex.split(service["command"])
        given[name] = parsers[command].parse_args(options)
        assert (APP / service["build"]["context"] / "pyproject.toml").exists()
    link = given.pop("superlink")
    assert len(given) == 3
    for place, (name, node) in enumerate(given.items()):
        assert name == f"supernode-{place}"
        assert node.superlink == f"superlink:{link.port}"
        assert node.node_config == f"partition-id={place} num-partitions=12"


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    """A folder with another run's configuration and keys is not touched, and nothing starts."""
    main = runpy.run_path(str(APP / "__main__.py"), run_name="deployment_app")["main"]
    (tmp_path / "credentials").mkdir()
    kept = [tmp_path / "config.toml", tmp_path / "credentials" / "own.key"]
    for path in kept:
        path.write_text("mine", encoding="utf-8")
    with pytest.raises(typer.BadParameter, match="is not empty; name a new folder"):
        main(supernodes=3, app=Path(), run_config="", home=tmp_path, timeout=1.0)
    assert [path.read_text(encoding="utf-8") for path in kept] == ["mine", "mine"]
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == kept
