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
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from dubhe_flwr.clientapp import DubheMod, register_dubhe
from dubhe_flwr.errors import QuorumError, SettingsError
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_flwr.rules import Prices
from dubhe_flwr.serverapp import Dubhe
from dubhe_flwr.simulation import InProcessGrid, run_in_process


def counting_app() -> ClientApp:
    """Return an app that counts its calls in its state, and raises on demand."""
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        config = message.content.config_records["config"]
        if config.get("raise"):
            raise RuntimeError("as told")
        config["changed"] = True
        record = context.state.metric_records.setdefault("calls", MetricRecord({"number": 0}))
        record["number"] = int(record["number"]) + 1  # type: ignore[arg-type]
        partition = int(context.node_config["partition-id"])
        answer = MetricRecord({"calls": record["number"], "partition": partition})
        return Message(RecordDict({"answer": answer}), reply_to=message)

    return app


def ask(grid: Grid, node_id: int, content: RecordDict | None = None) -> Message:
    """Send one query and return its reply."""
    content = content or RecordDict({"config": ConfigRecord({})})
    message = Message(content, dst_node_id=node_id, message_type="query")
    (reply,) = grid.send_and_receive([message], timeout=1.0)
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    return reply


def test_every_node_keeps_its_own_state() -> None:
    """Each node has its own state, which lasts from message to message."""
    grid = InProcessGrid(counting_app(), 3)
    for node_id in grid.get_node_ids():
        assert ask(grid, node_id).content.metric_records["answer"]["calls"] == 1
    first = next(iter(grid.get_node_ids()))
    assert ask(grid, first).content.metric_records["answer"]["calls"] == 2


def test_nodes_have_partitions_and_random_ids() -> None:
    """Partition-ids count from 0; node ids are in random order and depend on the seed."""
    grid = InProcessGrid(counting_app(), 50, seed=1)
    partitions = [
        ask(grid, node_id).content.metric_records["answer"]["partition"]
        for node_id in grid.get_node_ids()
    ]
    assert sorted(map(int, partitions)) == list(range(50))  # type: ignore[arg-type]
    ids = list(grid.get_node_ids())
    assert ids != sorted(ids)
    assert ids == list(InProcessGrid(counting_app(), 50, seed=1).get_node_ids())
    assert ids != list(InProcessGrid(counting_app(), 50, seed=2).get_node_ids())


def test_an_exception_becomes_an_error_reply() -> None:
    """As in every runtime, a ClientApp that raises costs only its own reply."""
    grid = InProcessGrid(counting_app(), 2)
    first, second = grid.get_node_ids()
    content = RecordDict({"config": ConfigRecord({"raise": True})})
    reply = ask(grid, first, content)
    assert reply.has_error()
    assert "as told" in str(reply.error.reason)
    assert not ask(grid, second).has_error()
    assert ask(grid, 1).has_error()  # there is no such node


def test_changes_to_a_message_stay_at_the_node() -> None:
    """Nodes that get the same content do not see each other's changes to it."""
    grid = InProcessGrid(counting_app(), 2)
    content = RecordDict({"config": ConfigRecord({})})
    for node_id in grid.get_node_ids():
        ask(grid, node_id, content)
    assert "changed" not in content.config_records["config"]


def test_replies_can_be_pulled_once() -> None:
    """A pushed message's reply can be pulled later, once."""
    grid = InProcessGrid(counting_app(), 2)
    content = RecordDict({"config": ConfigRecord({})})
    ids = list(
        grid.push_messages(
            Message(content, dst_node_id=node_id, message_type="query")
            for node_id in grid.get_node_ids()
        )
    )
    assert len(set(ids)) == 2
    assert len(list(grid.pull_messages(ids))) == 2
    assert list(grid.pull_messages(ids)) == []


def test_run_config_reaches_both_sides() -> None:
    """The run_config is in the contexts of both sides."""
    client_app, server_app = ClientApp(), ServerApp()
    seen: dict[str, Any] = {}

    @client_app.query()
    def query(message: Message, context: Context) -> Message:
        seen["client"] = context.run_config["lr"]
        return Message(RecordDict(), reply_to=message)

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        seen["server"] = context.run_config["lr"]
        for node_id in grid.get_node_ids():
            ask(grid, node_id)

    run_in_process(server_app, client_app, 1, run_config={"lr": 0.1})
    assert seen == {"client": 0.1, "server": 0.1}


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


def test_nodes_encrypt_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes encrypt in parallel but train one at a time, whichever thread sends the messages."""
    app, key, meeting, busy = ClientApp(), generate_secret_key(512), Barrier(2, timeout=10), Lock()
    encrypt = SecretKey._encrypt_with
    monkeypatch.setattr("dubhe_flwr.simulation.grid.cpu_count", lambda: 2)

    def together(*arguments: Any) -> int:
        meeting.wait()
        return encrypt(*arguments)

    def answer(message: Message, _context: Context) -> Message:
        if message.metadata.message_type == "train":
            assert busy.acquire(blocking=False)
            sleep(1e-3)
            busy.release()
        else:
            key.encrypt([1])
        return Message(RecordDict(), reply_to=message)

    monkeypatch.setattr(SecretKey, "_encrypt_with", together)
    app.evaluate("dubhe_settle")(answer)
    app.train()(answer)
    grid = InProcessGrid(app, 4)
    ids = list(grid.get_node_ids())
    for kind, k in (("evaluate.dubhe_settle", 1), ("train", 4)):
        messages = [Message(RecordDict(), dst_node_id=n, message_type=kind) for n in ids]
        with ThreadPoolExecutor() as pool:  # as Flower's own Server does
            replies = [*chain(*pool.map(grid.send_and_receive, (messages[i::k] for i in range(k))))]
        assert [reply.metadata.src_node_id for reply in replies if not reply.has_error()] == ids


def fails(message: Message, _context: Context, _call_next: Any) -> Message:
    """Stand for a mod that expects a model in every message."""
    raise KeyError(message.metadata.message_type)


def in_train(app: ClientApp) -> ClientApp:
    """Put a DubheMod where it never sees a message."""
    app.train(mods=[DubheMod(lambda _context: [1, 2])])(lambda message, _context: message)
    return app


def client_fn(_context: Context) -> Any:
    """Return a client of the older API."""
    return NumPyClient().to_client()


@pytest.mark.parametrize(
    ("app", "remedy", "has_traceback"),
    [
        (ClientApp(), "write register_dubhe(app, label_counts) below app", False),
        (in_train(ClientApp()), "a DubheMod never sees Dubhe's messages, whether in @", False),
        (ClientApp(client_fn), "The ClientApp has no DubheMod: write ClientApp(client_fn=", False),
        (
            ClientApp(client_fn, [fails, DubheMod(lambda _context: [1, 2])]),
            "make DubheMod the first of its mods",
            True,
        ),
    ],
    ids=["missing", "misplaced", "missing mod", "behind another mod"],
)
def test_an_app_that_does_not_answer_gets_advice(
    app: ClientApp, remedy: str, caplog: pytest.LogCaptureFixture, *, has_traceback: bool
) -> None:
    """One line for all nodes, in the log and in the error that ends the run, says what to do."""
    strategy = Dubhe(FedAvg(), num_participants=3)
    with pytest.raises(QuorumError) as error:
        run_in_process(main_server_app(strategy, 1), app, 5)
    assert remedy in str(error.value)
    (told,) = (line for line in caplog.messages if remedy[4:] in line)
    assert "\n" not in told
    assert ("Traceback" in caplog.text) == has_traceback


def test_zero_nodes_are_refused() -> None:
    """A simulation needs at least one node."""
    with pytest.raises(SettingsError, match="num_supernodes=0"):
        InProcessGrid(counting_app(), 0)
