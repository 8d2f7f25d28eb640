"""Tests of the folder in which a node keeps what it has spent, across runs."""

import errno
import os
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from apis import node_context
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord

from dubhe_flwr.adapter.durable import lock
from dubhe_flwr.clientapp.ledger_file import ledger_name, open_ledger
from dubhe_flwr.clientapp.node import Node
from dubhe_flwr.errors import DailyLimitError, RefusedError, SettingsError, StaleMessageError
from dubhe_flwr.protocol.node.memory import LabelBudget, Ledger, Memory
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import AppointRequest, HelloRequest, ParticipateRequest
from dubhe_flwr.protocol.wire.roster import Roster
from dubhe_flwr.rules import Prices

JOIN = JoinRequest("prices", Prices().to_json(), 20, 2048, 100, 3)
COUNTS = [10, 20, 30]


def join_in_a_new_run(node: Node, partition: int = 3, epoch: bytes | None = None) -> Memory:
    """Let a node without a session join, and return the memory it keeps."""
    context = node_context(partition)
    node.handle(Envelope(epoch or os.urandom(16), "join", 1).seal(JOIN), context)
    return Memory.from_fields(dict(context.state["dubhe"].items()))


def test_a_daily_limit_outlasts_a_run(tmp_path: Path) -> None:
    """With state_dir the second run is refused, even after a crash; else each starts from zero."""
    limits: dict[str, Any] = {"max_epochs_per_day": 1}
    for _ in range(2):
        join_in_a_new_run(Node(lambda _context: COUNTS, **limits))
    own = tmp_path / "own"
    node = Node(lambda _context: COUNTS, state_dir=lambda _context: own, **limits)
    join_in_a_new_run(node)
    assert (own / ledger_name("3")).stat().st_mode & 0o777 == 0o600
    with pytest.raises(DailyLimitError, match="has reached its owner's max_epochs_per_day"):
        join_in_a_new_run(node)


def test_sums_and_noise_of_earlier_runs_last(tmp_path: Path) -> None:
    """Sums count for the node that entered them, as long as it uses the same label counts.

    The seed of its lasting noise stays in any case: with a new one, an average would be exact.
    """
    for identity, spent in (("3", 0.25), ("4", 0.5)):
        with open_ledger(tmp_path, identity) as (_, save):
            save(Ledger(budget=LabelBudget().of(tuple(COUNTS)).charged(spent)))
    seeds, other = [], [30, 20, 10]
    for partition, counts, spent in ((3, [9, 21, 30], 0.25), (4, COUNTS, 0.5), (3, other, 0.0)):
        node = Node(lambda _context, own=counts: own, state_dir=tmp_path)  # type: ignore[misc]
        memory = join_in_a_new_run(node, partition)
        assert memory.joined is not None
        assert memory.budget.spent == memory.joined.budget.spent == spent
        seeds.append(memory.joined.budget.lasting_seed)
    assert seeds[0] == seeds[2] != seeds[1]
    assert len(seeds[0]) == 16


def test_with_pinned_keys_the_lasting_noise_outlasts_a_run_without_a_file() -> None:
    """It follows from the signing key, so a server gets no new noise if it starts a new run."""
    seeds = []
    for key in map(Ed25519PrivateKey.from_private_bytes, (b"1" * 32, b"1" * 32, b"2" * 32)):
        node = Node(lambda _context: COUNTS, signing_key=key, trusted_keys=[key.public_key()])
        seeds.append(join_in_a_new_run(node).budget.lasting_seed)
    assert seeds[0] == seeds[1] != seeds[2]


def test_a_node_joins_an_epoch_once_in_all_runs(tmp_path: Path) -> None:
    """It refuses an epoch that its file lists, and joins others."""
    node = Node(lambda _context: COUNTS, state_dir=tmp_path)
    epochs = [number.to_bytes(16) for number in range(3)]
    for epoch in epochs:
        join_in_a_new_run(node, epoch=epoch)
    for epoch in epochs:
        with pytest.raises(StaleMessageError, match="or shares its records in state_dir"):
            join_in_a_new_run(node, epoch=epoch)
    assert join_in_a_new_run(Node(lambda _context: COUNTS), epoch=epochs[0]).joined


def test_a_node_whose_file_was_removed_leaves_the_epoch(tmp_path: Path) -> None:
    """It cannot know what it answered, and joins the next epoch."""
    node, context = Node(lambda _context: COUNTS, state_dir=tmp_path), node_context(3)
    node.handle(Envelope(b"e" * 16, "join", 1).seal(JOIN), context)
    (tmp_path / ledger_name("3")).unlink()
    draw = Envelope(b"e" * 16, "participate", 2).seal(ParticipateRequest(1, 1, 1))
    for _ in range(2):
        with pytest.raises(RefusedError, match="did not join this registration period"):
            node.handle(draw, context)
    node.handle(Envelope(b"f" * 16, "join", 3).seal(JOIN), context)
    draw = Envelope(b"f" * 16, "participate", 4).seal(ParticipateRequest(1, 1, 1))
    with pytest.raises(RefusedError, match="has not registered"):
        node.handle(draw, context)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_node_that_forgot_an_answer_leaves_the_epoch(tmp_path: Path, *, is_kept: bool) -> None:
    """Flower stores the Context after the reply; if that fails, the file still has the number."""
    node = Node(lambda _context: COUNTS, state_dir=tmp_path if is_kept else None)
    context, request = node_context(3), AppointRequest(Roster(bytes(96)), (0, 1, 2))
    join = replace(JOIN, has_agent=False, vault="committee")
    node.handle(Envelope(b"e" * 16, "join", 1).seal(join), context)
    before = context.state["dubhe"]
    for sequence, noticed in ((2, False), (3, is_kept), (4, is_kept)):
        match = "did not join this registration period" if noticed else "too many or not distinct"
        with pytest.raises(RefusedError, match=match):
            node.handle(Envelope(b"e" * 16, "appoint", sequence).seal(request), context)
        context.state["dubhe"] = before
    node.handle(Envelope(b"f" * 16, "join", 1).seal(join), context)


def test_a_node_with_pinned_keys_is_known_by_its_key(tmp_path: Path) -> None:
    """Its file has its key's name, so that nodes on one host need no partition-id to share."""
    keys = [Ed25519PrivateKey.generate() for _ in range(3)]
    for key, partition in ((keys[0], 3), (keys[0], 4), (keys[1], 4)):
        trusted = [key.public_key() for key in keys]
        own: dict[str, Any] = {"signing_key": key, "trusted_keys": trusted}
        join_in_a_new_run(Node(lambda _context: COUNTS, state_dir=tmp_path, **own), partition)
    names = {ledger_name(key.public_key().public_bytes_raw().hex()) for key in keys[:2]}
    assert {path.name for path in tmp_path.glob("*.json")} == names


@pytest.mark.parametrize("folder", ["", "state", Path("state"), 5])
def test_a_relative_folder_is_refused(folder: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It would be another folder whenever a run starts elsewhere."""
    with pytest.raises(SettingsError, match="must be an absolute path"):
        Node(lambda _context: COUNTS, state_dir=folder)
    with pytest.raises(RefusedError, match=r"^This node cannot use its argument state_dir"):
        join_in_a_new_run(Node(lambda _context: COUNTS, state_dir=lambda _context: folder))
    assert "must be an absolute path" in caplog.text


def test_a_process_that_label_counts_forked_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A data loader's workers may live on; the node's next request would wait until they end."""
    worker = get_context("fork").Process(target=sleep, args=(60,))
    with open_ledger(tmp_path):
        worker.start()
    file = os.open((tmp_path / ledger_name("")).with_suffix(".lock"), os.O_RDWR)
    try:
        lock(file, waits=False)
    finally:
        os.close(file)
        worker.kill()
        worker.join()


def test_the_current_label_counts_are_remembered_without_a_folder() -> None:
    """However many others have spent more: only then do the most expensive ones stay."""
    node, context = Node(lambda _context: COUNTS), node_context(3)
    budget = LabelBudget().of(tuple(COUNTS)).charged(0.25)
    for number in range(64):
        budget = budget.of((1,) * (number + len(COUNTS) + 1)).charged(0.5)
    memory = Memory(budget=budget.of(tuple(COUNTS)))
    context.state["dubhe"] = ConfigRecord({**memory.to_fields()})
    node.handle(Envelope(b"e" * 16, "join", 1).seal(JOIN), context)
    assert Memory.from_fields(dict(context.state["dubhe"].items())).budget.spent == 0.25


def test_a_simulated_node_keeps_nothing(tmp_path: Path) -> None:
    """A simulated node keeps nothing, so that its run repeats with the seed."""
    join_in_a_new_run(Node(lambda _context: COUNTS, simulated=True, state_dir=tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage", ["", "{}", "[" * 10**5, '{"plain": {}, "packed": {"x": "?"}}', "[]", "no locks"]
)
def test_a_node_that_cannot_use_its_ledger_answers_nothing(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's log names the folder; the server does not learn it."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if damage == "no locks":  # as on some network file systems, where two runs would lose counts
        monkeypatch.setattr("fcntl.flock", flock)
    else:
        (tmp_path / ledger_name("3")).write_text(damage)
    node = Node(lambda _context: COUNTS, state_dir=tmp_path)
    for stage, request in (("join", JOIN), ("hello", HelloRequest())):
        with pytest.raises(RefusedError, match=r"^This node cannot use its state_dir; its log"):
            node.handle(Envelope(b"e" * 16, stage, 1).seal(request), node_context(3))
    has_no_locks = damage == "no locks"
    said = f"{tmp_path} cannot be used (No locks available)" if has_no_locks else ledger_name("3")
    assert said in caplog.text
