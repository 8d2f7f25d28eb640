"""Tests that the in-process Grid behaves like Flower's own runtimes."""

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Barrier, Lock
from time import sleep
from typing import Any

import numpy as np
import pytest
from apis import main_server_app
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.adapter.messages import message_type
from dubhe_flwr.clientapp import DubheMod, register_dubhe
from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.rules import Prices
from dubhe_flwr.serverapp import Dubhe
from dubhe_flwr.simulation import InProcessGrid, run_in_process


def counting_app() -> ClientApp:
    """Return an app whose nodes count their calls, and raise or return nothing if told."""
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        config: Any = message.content.config_records["config"]
        if config.get("raise"):
            raise RuntimeError("as told")
        if config.get("forget"):
            return None  # type: ignore[return-value]
        config["list"].pop()
        calls = context.state.metric_records.setdefault("calls", MetricRecord({"number": 0}))
        calls["number"] = int(calls["number"]) + 1  # type: ignore[arg-type]
        told = ConfigRecord({**context.node_config, **context.run_config, **config})
        return Message(RecordDict({"calls": calls, "told": told}), reply_to=message)

    return app


def ask(grid: Grid, *node_ids: int, **config: Any) -> list[Message]:
    """Send a query to nodes and return their replies."""
    content = RecordDict({"config": ConfigRecord(config)})
    messages = [Message(content, dst_node_id=node_id, message_type="query") for node_id in node_ids]
    replies = list(grid.send_and_receive(messages, timeout=1.0))
    ids = [message.metadata.message_id for message in messages]
    assert [reply.metadata.reply_to_message_id for reply in replies] == ids
    assert list(grid.pull_messages(ids)) == []  # a reply comes once
    return replies


def test_every_node_has_its_own_context() -> None:
    """A node has a partition, the run config, and a state that lasts from message to message.

    What one side changes in a record, or in a list, reaches no other side, as on a network.
    """
    grid = InProcessGrid(counting_app(), 2, run_config={"lr": 0.1})
    for number in (1, 2):
        for partition, reply in enumerate(ask(grid, *grid.get_node_ids(), list=[1, 2, 3])):
            usual: Any = {"num-partitions": 2, "lr": 0.1, "list": [1, 2]}
            assert reply.content["told"] == ConfigRecord({"partition-id": partition, **usual})
            assert reply.content["calls"]["number"] == number
            reply.content.metric_records["calls"]["number"] = 5


def test_node_ids_are_random() -> None:
    """Node ids are in random order and depend on the seed."""
    ids = [list(InProcessGrid(counting_app(), 50, seed=seed).get_node_ids()) for seed in (1, 1, 2)]
    assert ids[0] != sorted(ids[0])
    assert ids[0] == ids[1] != ids[2]


def test_a_mistake_of_the_app_becomes_an_error_reply() -> None:
    """As in every runtime, a ClientApp that raises or returns None costs only its own reply."""
    grid = InProcessGrid(counting_app(), 1)
    (node_id,) = grid.get_node_ids()
    raised, lost = ask(grid, node_id, 1, **{"raise": True})  # there is no node 1
    assert "as told" in str(raised.error.reason)
    assert lost.has_error()
    assert ask(grid, node_id, forget=True)[0].has_error()
    assert not ask(grid, node_id, list=[1])[0].has_error()


@pytest.mark.parametrize("simulation", [None, "plain"])
def test_repeated_warnings_are_logged_once(
    simulation: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning that all simulated nodes repeat is logged once per run."""
    monkeypatch.setattr(Prices, "settle", lambda *_: 1 / 0)
    app, usual = ClientApp(), {"key_bits": 512, "on_failure": "random", "simulation": simulation}
    register_dubhe(app, lambda _context: [5, 3], simulated=simulation == "plain", min_key_bits=512)
    strategy = Dubhe(FedAvg(), num_participants=3, **usual)
    for _ in range(2):
        caplog.clear()
        grid, arrays = InProcessGrid(app, 30), ArrayRecord([np.zeros(1)])
        strategy.configure_train(1, arrays, ConfigRecord(), grid)
        assert sum("raised ZeroDivisionError" in line for line in caplog.messages) == 1


def test_nodes_register_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes encrypt in parallel, but train or read labels one at a time, whichever thread sends."""
    app, meeting, busy = ClientApp(), Barrier(2, timeout=10), Lock()
    monkeypatch.setattr("dubhe_flwr.simulation.grid.cpu_count", lambda: 2)

    def answer(message: Message, _context: Context) -> Message:
        if message.metadata.message_type == message_type("register"):
            meeting.wait()
        else:
            assert busy.acquire(blocking=False)
            sleep(1e-3)
            busy.release()
        return Message(RecordDict(), reply_to=message)

    for stage in ("register", "join", "participate"):
        app.evaluate(f"dubhe_{stage}")(answer)
    app.train()(answer)
    grid = InProcessGrid(app, 4)
    ids = list(grid.get_node_ids())
    one_at_a_time = (message_type("join"), message_type("participate"), "train")
    for kind, k in ((message_type("register"), 1), *((kind, 4) for kind in one_at_a_time)):
        messages = [Message(RecordDict(), dst_node_id=n, message_type=kind) for n in ids]
        with ThreadPoolExecutor() as pool:  # as Flower's own Server does
            replies = [*chain(*pool.map(grid.send_and_receive, (messages[i::k] for i in range(k))))]
        assert [reply.metadata.src_node_id for reply in replies if not reply.has_error()] == ids


MOD = DubheMod(lambda _context: [1, 2])
CLIENT_FN = lambda _context: NumPyClient().to_client()  # noqa: E731
BEHIND: list[Any] = [lambda *_: 1 / 0, MOD]
MISPLACED = ClientApp()
MISPLACED.train(mods=[MOD])(lambda message, _context: message)


@pytest.mark.parametrize(
    ("app", "has_traceback"),
    [
        (ClientApp(), False),
        (MISPLACED, False),
        (ClientApp(CLIENT_FN), False),
        (ClientApp(CLIENT_FN, BEHIND), True),
    ],
    ids=["missing", "misplaced", "missing mod", "behind another mod"],
)
def test_an_app_that_does_not_answer_gets_advice(
    app: ClientApp, caplog: pytest.LogCaptureFixture, *, has_traceback: bool
) -> None:
    """The error that ends the run says what the app needs; the log has the nodes' error once."""
    strategy = Dubhe(FedAvg(), num_participants=3)
    remedy = "add DubheMod as the first of the mods of .*, or call register_dubhe for one with"
    with pytest.raises(QuorumError, match=remedy):
        run_in_process(main_server_app(strategy, 1), app, 5)
    (told,) = (line for line in caplog.messages if "dubhe: join: error from 5 nodes" in line)
    assert "\n" not in told
    assert ("Traceback" in caplog.text) == has_traceback


def test_zero_nodes_are_refused() -> None:
    """A simulation needs at least one node."""
    with pytest.raises(SettingsError, match="num_supernodes=0"):
        InProcessGrid(counting_app(), 0)
