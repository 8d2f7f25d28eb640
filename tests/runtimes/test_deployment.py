"""Runs the app on a SuperLink with SuperNodes, each its own process, with TLS and keys."""

import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deployment import Federation, Processes
from deployment.federation import CONNECTION
from deployment.processes import wait_for

from dubhe_flwr.simulation import InProcessGrid, run_on_grid
from dubhe_flwr.testing import Fault, FaultyGrid

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "numpy_app"
STAGE_TIMEOUT = 60.0
"""On a busy machine a healthy node may take a minute to start."""

pytestmark = pytest.mark.deployment


def halted(folder: Path, stage: str) -> int:
    """Wait until a node has halted at a stage and return its partition."""
    pattern = f"halted-{stage}-*"
    wait_for(lambda: any(folder.glob(pattern)), 1800, f"a node that halts at {stage}")
    return int(next(folder.glob(pattern)).name.rpartition("-")[2])


def test_a_run_survives_nodes_that_die_or_stall(tmp_path: Path) -> None:
    """Nodes run a reviewed app only, and train both rounds, though two die and one stalls."""
    halts = tmp_path / "halts"
    halts.mkdir()
    for asked in ("register-0", "settle-1", "train-any"):
        (halts / asked).touch()
    settings = f'stage-timeout={STAGE_TIMEOUT} halts="{halts}" expected-nodes=6'
    with Federation(tmp_path / "home", 6) as federation, ThreadPoolExecutor(1) as executor:
        # An app submitted from a folder has no signature.
        unsigned = ("flwr", "run", str(APP), CONNECTION, "--stream", "--run-config", settings)
        output = federation.processes.run(*unsigned)
        assert "clients selected" not in output
        assert "error from 6 nodes" in output, output[-4000:]
        run = executor.submit(federation.run, APP, settings)
        dying = halted(halts, "register")
        federation.processes.signal(f"supernode-{dying}", signal.SIGKILL)
        stalling = halted(halts, "settle")
        federation.processes.signal(f"supernode-{stalling}", signal.SIGSTOP)
        (halts / f"halted-settle-{stalling}").unlink()
        trained = halted(halts, "train")  # the run no longer waits for the one that stalls
        federation.processes.signal(f"supernode-{trained}", signal.SIGKILL)
        federation.processes.signal(f"supernode-{stalling}", signal.SIGCONT)
        status, output = run.result()
    assert status == "finished:completed", output[-4000:]
    assert output.count("of 4 clients selected") == 2, output[-4000:]
    assert "register: 1 reply dropped: no reply" in output
    assert "settle: 1 reply dropped: no reply" in output
    assert len({dying, stalling, trained}) == 3
    assert "final model: [2.0, 2.0]" in output


@pytest.mark.slow
def test_prices_select_the_same_sets_as_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a seed, twelve SuperNodes select as in one process, though a committee member dies."""
    monkeypatch.syspath_prepend(str(APP))
    import numpyexample

    given: dict[str, Any] = {"expected-nodes": 12, "simulated": True, "stage-timeout": 600.0}
    nodes = InProcessGrid(numpyexample.client_app, 12, run_config={**given, "halts": ""})
    grid = FaultyGrid(nodes, [Fault("kill", stages="open", times=1)])
    run_on_grid(numpyexample.server_app, grid, run_config=given)
    (killed,) = grid.killed
    dying, halts = nodes.contexts[killed].node_config["partition-id"], tmp_path / "halts"
    halts.mkdir()
    (halts / f"open-{dying}").touch()
    told = " ".join(f"{k}={v}" for k, v in given.items()).lower() + f' halts="{halts}"'
    with Federation(tmp_path / "home", 12) as federation, ThreadPoolExecutor(1) as executor:
        run = executor.submit(federation.run, APP, told)
        assert halted(halts, "open") == dying
        federation.processes.signal(f"supernode-{dying}", signal.SIGKILL)
        status, output = run.result()
    assert status == "finished:completed", output[-4000:]
    assert "No sum can be opened because of" in output
    texts = output, capsys.readouterr().out
    selected, expected = (re.findall(r"selected:( \d+)( \d+)( \d+)", text) for text in texts)
    assert selected == expected
    assert len(selected) == 2


def test_an_interrupted_command_stops_all_it_started(tmp_path: Path) -> None:
    """After Ctrl-C no process and no key is left."""
    command = [sys.executable, str(ROOT / "apps" / "deployment"), "--home", str(tmp_path)]
    processes = Processes(tmp_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:  # noqa: S603
        wait_for((tmp_path / "supernode-0.log").exists, 900, "a SuperNode is started")
        assert (tmp_path / "credentials").exists()
        started.send_signal(signal.SIGINT)
        output, _ = started.communicate(timeout=60)
    assert started.returncode != 0
    assert processes.alive() == []
    assert not (tmp_path / "credentials").exists()
    assert "All processes are stopped" in output
