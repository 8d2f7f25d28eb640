"""A federation in bad weather: messages get lost or spoilt, nodes and server restart."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from numpy.typing import ArrayLike
from protocol.accidents import spoilt
from protocol.federation import Federation, Reply, dubhe
from protocol.nodes import set_policy

from dubhe_flwr.protocol import Batch, Fields, NodeFailure, Plan
from dubhe_flwr.protocol.coordinator.context import CoordinatorState

YES: Final = {"status": 0, "unwilling": b"\0", "draws.unwilling": b"\0"}
"""What a node answers, by field, if it takes part in the round."""


class Weather(Federation[CoordinatorState]):
    """Nodes and a server, and a network that does what it likes to a share of the messages.

    If the share is 0, nothing else happens either. Each accident is drawn by what it is for, so
    that it does not depend on those before it.
    """

    faults: Sequence[str] = ("request lost", "reply lost", "error", "old", "spoilt")

    def __init__(
        self,
        label_counts: Iterable[ArrayLike],
        seed: int,
        share: float,
        policy: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        usual = dubhe(label_counts, policy, seed=seed, **settings)
        super().__init__(usual.selector, list(usual.policies.values()))
        self.seed, self.share = seed, share
        self.server_round = self.num_batches = 0
        self.unwilling: set[int] = set()
        for node_id in self.ids:
            set_policy(self, node_id, willing=partial(self._is_willing, node_id))
        self.stored = [self.state]
        self.answers: dict[int, list[Any]] = {node_id: [] for node_id in self.ids}
        self.asked: list[str] = []  # each batch's stage and nodes in this round, by row

    def _is_willing(self, node_id: int, _server_round: int) -> bool:
        return node_id not in self.unwilling

    def _random(self, *what: object) -> Random:
        return Random(f"{self.seed} {self.server_round} {self.num_batches} {what}")

    def _strikes(self, share: float, *what: object) -> bool:
        return self.share > 0 and self._random("strikes", *what).random() < share

    def play_round(self, server_round: int) -> Plan:
        """Play a round, before which nodes leave and the server may restart from an older state."""
        self.server_round, self.num_batches = server_round, 0
        self.asked.clear()
        if self._strikes(0.2, "server"):
            saved = self.selector.state_dict(self._random("saved").choice(self.stored[-4:]))
            self.state = self.selector.load_state_dict(json.loads(json.dumps(saved)))
        away = self._random("away").sample(self.ids, 3) if self._strikes(0.3, "away") else []
        left_out = self._random("left out").choice(self.ids) if self._strikes(0.2, "left") else None
        self.present = set(self.ids) - (set(away) if server_round > 1 else set())
        self.eligible = self.present - {left_out}
        # Whose last answer in this round, at join or to a draw, was no.
        self.said_no: dict[str, set[int]] = {"status": set(), "unwilling": set()}
        plan = self.play(server_round, sorted(self.present), sorted(self.eligible))
        self.stored.append(self.state)
        return plan

    def deliver(self, batch: Batch) -> dict[int, Reply]:
        """Carry a batch to the nodes, unless the whole network is down."""
        self.num_batches += 1
        self.num_old = 0
        rows = (self.ids.index(node_id) for node_id in batch.requests)
        self.asked.append(f"{batch.header.stage} {' '.join(map(str, rows))}")
        return {} if self._strikes(0.03, "network") else super().deliver(batch)

    def _carry(self, stage: str, node_id: int, request: Fields) -> Reply | None:
        row = self.ids.index(node_id)
        if self._strikes(0.01, "memory", row):
            self.memories.pop(node_id, None)
        if self._strikes(0.01, "mind", row):
            self.unwilling ^= {node_id}
        fault = "none"
        if self._strikes(self.share, "message", row):
            fault = self._random("fault", row).choice(self.faults)
        reply = None if fault == "request lost" else super()._carry(stage, node_id, request)
        if reply is None or isinstance(reply, NodeFailure) or fault == "reply lost":
            return None if fault == "reply lost" else reply
        now = reply["epoch"], reply["sequence"]
        old = [each for each in self.answers[node_id] if (each["epoch"], each["sequence"]) != now]
        self.answers[node_id].append(reply)
        if fault == "old" and old:
            self.num_old += 1
            return dict(self._random("old", row).choice(old))
        if fault == "spoilt":
            return self._spoilt(node_id, dict(reply))
        if fault in {"error", "old"}:
            return NodeFailure("out of memory")
        for field in YES.keys() & reply.keys():
            change = set.discard if reply[field] == YES[field] else set.add
            change(self.said_no[field.removeprefix("draws.")], node_id)
        return reply

    def _spoilt(self, node_id: int, reply: Any) -> Fields:
        for nodes in self.said_no.values():
            nodes.discard(node_id)  # two accidents may undo each other
        spoiled = spoilt(reply, self._random("spoilt", node_id))
        if isinstance(spoiled.get("alias"), str) and "alias" in reply:
            spoiled["alias"] = reply["alias"]  # any name would be believed
        return spoiled
