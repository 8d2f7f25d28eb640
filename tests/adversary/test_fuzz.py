"""Whatever anyone sends through the real adapters, the result is a typed refusal."""

import io
import logging
import random
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from apis import FIT, TRAIN, Api
from flwr.app import ConfigRecord, Context, Message, RecordDict
from protocol.accidents import spoilt

from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_flwr.protocol.node.memory import Memory
from dubhe_flwr.rules import Paper, Prices

COUNTS = [[27_182 + 31_415 * ((row * 7 + label) % 9) for label in range(4)] for row in range(12)]
"""Label counts of twelve nodes, easy to spot in any text."""
SETTINGS: dict[str, Any] = {"num_participants": 3, "on_failure": "random", "wait_timeout": 0.0}
MEGABYTES = 2**20
MORE = [pytest.param(api, 100, marks=pytest.mark.slow) for api in (FIT, TRAIN)]


def label_counts(context: Context) -> list[int]:
    """Return the label counts of one of the twelve nodes."""
    return COUNTS[int(context.node_config["partition-id"])]


def labels_in(text: str) -> list[str]:
    """Return the label counts and shares among the separate numbers of a text."""
    shares = [share for row in COUNTS for share in fixed_point_distribution(row).tolist()]
    secrets = {str(number) for number in (*shares, *(n for row in COUNTS for n in row))}
    return sorted(secrets.intersection(re.findall(r"\d+", text)))


@pytest.fixture
def told() -> Iterator[io.StringIO]:
    """Capture Flower's log; pytest would keep all of it, and more, in memory."""
    text, logger = io.StringIO(), logging.getLogger("flwr")

    def keep(record: logging.LogRecord) -> bool:
        text.write(f"{record.getMessage()}\n")
        return False

    logger.addFilter(keep)
    yield text
    logger.removeFilter(keep)


@pytest.mark.parametrize(("api", "share"), [(FIT, 1), *MORE], ids=str)
def test_spoilt_requests_to_nodes(api: Api, share: int, told: io.StringIO) -> None:
    """A run's requests are repeated with damage, at any time: the node answers or refuses."""
    rng, grid = random.Random(7), api.grid(label_counts, num_nodes=len(COUNTS))
    answer, texts, kinds = grid._answer, set(), Counter[str]()
    number, wanted = 0, 250 * share

    def hit(message: Message) -> Any:
        nonlocal number
        kind = message.metadata.message_type
        for _ in range(4 if kind.startswith("evaluate.dubhe") else 0):
            fields: Any = message.content["dubhe"]
            try:
                content = RecordDict({"dubhe": ConfigRecord(spoilt(dict(fields), rng))})
            except (TypeError, ValueError, KeyError):  # no record can hold such a value
                continue
            number += 1
            sent = Message(content, message.metadata.dst_node_id, kind)
            reply = answer(sent)
            kinds["error" if reply.has_error() else "reply"] += 1
            if reply.has_error():
                assert reply.error.code == 2
                texts.add(str(reply.error.reason))
        return answer(message)

    grid._answer = hit
    tracemalloc.start()
    rules = [Paper((1, 2, 4), "search"), Paper((1, 2, 4), {1: 0.7, 2: 0.2}), Prices()]
    while number < wanted:
        rule = rules[kinds.total() % 3]
        api.run(api.dubhe(rule=rule, registration_interval=1, **SETTINGS), grid, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    for context in grid.contexts.values():
        Memory.from_fields(dict(context.state["dubhe"]))
    assert kinds["error"] > wanted // 3
    assert "raised an exception" not in told.getvalue()  # logged for anything but a typed refusal
    assert labels_in("\n".join([*texts, told.getvalue()])) == []
    assert peak < 64 * MEGABYTES
