"""Tests that the faulty Grid applies its faults, and repeats with the same seed."""

from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from dubhe_flwr.adapter.messages import message_type, to_records
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.simulation import InProcessGrid
from dubhe_flwr.testing import Fault, FaultyGrid

NUM_NODES = 8


def faulty(*faults: Fault, seed: int = 0) -> tuple[FaultyGrid, list[int]]:
    """Return a grid with faults, and a list of the partitions that get a message, as they do."""
    app, got = ClientApp(), list[int]()

    def handle(message: Message, context: Context) -> Message:
        got.append(int(context.node_config["partition-id"]))
        (record,) = message.content.config_records.values()
        return Message(to_records({"answer": record["number"]}), reply_to=message)  # type: ignore[dict-item]

    app.query()(handle)
    app.evaluate("dubhe_join")(handle)
    return FaultyGrid(InProcessGrid(app, NUM_NODES), faults, seed), got


def exchange(grid: FaultyGrid, stage: str = "join") -> dict[int, list[Any]]:
    """Send 0 to all nodes and return each node's replies, by partition."""
    kind = "query" if stage == "query" else message_type(stage)
    nodes = list(grid.other.get_node_ids())
    messages = [Message(to_records({"number": 0}), node_id, kind) for node_id in nodes]
    replies = list(grid.send_and_receive(messages, timeout=1.0))
    asked = {m.metadata.message_id: nodes.index(m.metadata.dst_node_id) for m in messages}
    answers: dict[int, list[Any]] = {}
    for reply in replies:
        value: Any = reply.error.code if reply.has_error() else None
        if reply.has_content():
            (record,) = reply.content.config_records.values()
            value = ("answer", record.get("answer"))
        answers.setdefault(asked[reply.metadata.reply_to_message_id], []).append(value)
    return answers


ALL = {partition: [("answer", 0)] for partition in range(NUM_NODES)}


@pytest.mark.parametrize(
    ("kinds", "answers", "num_got"),
    [
        (["drop_request"], {}, 0),
        (["drop_reply"], {}, NUM_NODES),
        (["error"], {p: [2] for p in ALL}, 0),
        (["corrupt_reply", "drop_reply"], {}, NUM_NODES),
        (["error", "kill", "drop_request"], {p: [5] for p in ALL}, 0),
    ],
)
def test_an_exchange_under_faults(kinds: Any, answers: Any, num_got: int) -> None:
    """Lost replies stay lost, and of several errors, the one that says that a node is gone wins."""
    grid, got = faulty(*map(Fault, kinds))
    assert exchange(grid) == answers
    assert len(got) == num_got


def test_a_killed_node_is_gone() -> None:
    """A killed node no longer answers and is no longer listed."""
    grid, _ = faulty(Fault("kill", times=2))
    answers = exchange(grid)
    dead = [partition for partition, answer in answers.items() if answer == [5]]
    assert len(dead) == len(grid.killed) == 2
    assert grid.killed.isdisjoint(grid.get_node_ids())
    assert len(list(grid.get_node_ids())) == NUM_NODES - 2
    assert exchange(grid, stage="query") == ALL | {partition: [5] for partition in dead}


def test_reordering_loses_no_message() -> None:
    """Reordering changes only the order, of requests and of replies."""
    grid, arrived = faulty(Fault("reorder"))
    answers = exchange(grid)
    assert answers == ALL
    assert sorted(arrived) == list(range(NUM_NODES)) != arrived
    assert list(answers) not in (arrived, sorted(arrived))


@pytest.mark.parametrize("value", [True, 7, 0.5, "x", b"", b"abc", [1, 2]])
def test_values_of_every_type_are_corrupted(value: Any) -> None:
    """Corruption changes a value but not its type or name, nor the sender's own copy."""
    app, seen = ClientApp(), []

    @app.query()
    def query(message: Message, context: Context) -> Message:
        seen.append(message.content.config_records["record"])
        return Message(RecordDict({"m": MetricRecord({"accuracy": 0.25})}), reply_to=message)

    grid = FaultyGrid(InProcessGrid(app, 1), [Fault("corrupt_request"), Fault("corrupt_reply")])
    (node_id,) = grid.get_node_ids()
    content = RecordDict({"record": ConfigRecord({"value": value})})
    (reply,) = grid.send_and_receive([Message(content, node_id, "query")])
    assert type(seen[0]["value"]) is type(value)
    assert seen[0]["value"] != value
    assert seen[0].keys() == {"value"}
    assert content["record"] == ConfigRecord({"value": value})
    assert reply.content.metric_records["m"]["accuracy"] == 0.5


def test_faults_hit_their_stages_only() -> None:
    """Other stages are not hit, and faults are counted by kind and stage."""
    grid, _ = faulty(Fault("drop_reply", "query"), Fault("error", ("join", "train"), times=3))
    assert exchange(grid, stage="query") == {}
    assert sorted(map(str, exchange(grid).values())) == ["[('answer', 0)]"] * 5 + ["[2]"] * 3
    assert grid.injected == {("drop_reply", "query"): 8, ("error", "join"): 3}


@pytest.mark.parametrize("same_nodes", [False, True])
def test_a_share_of_messages_or_of_nodes(same_nodes: bool) -> None:
    """A share is drawn anew for each message, or once for each node; a seed fixes which."""
    fault, heard = Fault("drop_reply", share=0.5, same_nodes=same_nodes), []
    for seed in (0, 0, 1):
        grid, _ = faulty(fault, seed=seed)
        heard.append([frozenset(exchange(grid)) for _ in range(50)])
    assert heard[0] == heard[1] != heard[2]
    assert (len(set(heard[2])) == 1) == same_nodes
    if not same_nodes:
        assert 160 < grid.injected["drop_reply", "join"] < 240


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"kind": "lose"}, "kind='lose' is not a fault; choose from drop_request,"),
        (
            {"kind": "error", "stages": ("join", "fit")},
            r"stages=\['fit'\] do not exist; choose from",
        ),
        ({"kind": "error", "share": 1.5}, r"share=1.5 must be from 0 to 1"),
    ],
)
def test_an_unknown_fault_is_refused(fault: Any, sentence: str) -> None:
    """A misspelt fault is refused, since it would test nothing."""
    with pytest.raises(SettingsError, match=sentence):
        Fault(**fault)
