"""The same app on a SuperLink with SuperNodes, each a process of its own."""

import socket
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.runtime

NUM_NODES = 4


def free_ports(number: int) -> list[int]:
    """Return ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def accepts(port: int) -> bool:
    """Tell whether somebody listens on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_supernodes_register_and_train(flower_home: Any, wait_for: Any) -> None:
    """Real nodes register, draw, determine and train, over the network."""
    superlink, *node_ports = free_ports(1 + NUM_NODES)
    flower_home.start(
        "flower-superlink",
        "--insecure",
        *("--host", "127.0.0.1", "--port", str(superlink)),
        log="superlink",
    )
    wait_for(lambda: accepts(superlink), 30)
    for partition, port in enumerate(node_ports):
        flower_home.start(
            "flower-supernode",
            "--insecure",
            *("--superlink", f"127.0.0.1:{superlink}"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--node-config", f"partition-id={partition} num-partitions={NUM_NODES}"),
            log=f"supernode-{partition}",
        )
    (flower_home.path / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{superlink}"\n'
        "insecure = true\n"
    )
    output = flower_home.run(
        "flwr",
        "run",
        str(Path(__file__).parent / "numpy_app"),
        "here",
        "--stream",
        "--run-config",
        f"num-server-rounds=2 num-participants=3 expected-nodes={NUM_NODES}",
    )
    assert flower_home.statuses("here") == ["finished:completed"], output[-4000:]
    assert output.count(f"3 of {NUM_NODES} clients selected") == 2
    assert "final model: [2.0, 2.0]" in output
