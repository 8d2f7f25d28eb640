"""A federation of any size in one process: a few real nodes, whose answers are reused for the rest.

The server's side is real: it handles one message and one set of ciphertexts per node. The clients'
side is measured on the real nodes only. Sums decrypt, since every reused answer is valid, and
the other nodes volunteer as often as the participation probabilities say.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, cycle
from time import process_time
from typing import Final

import numpy as np

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol import Batch, Fields, Stage
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.node.settle import decrypted_sum
from dubhe_flwr.protocol.rules.prices import Prices
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.codec import encode
from dubhe_flwr.protocol.wire.draws import write_draws
from dubhe_flwr.protocol.wire.messages import ParticipateRequest, SettleRequest
from dubhe_flwr.protocol.wire.roster import PUBLIC_KEY_BYTES

_FIRST_ID: Final = 2**62
_NUM_SAMPLES: Final = 128
_CONCENTRATION: Final = 0.3
_DISTINCT_DRAWS: Final = 4096
_OF_ALL: Final = frozenset({Stage.JOIN, Stage.REGISTER, Stage.SETTLE, Stage.PARTICIPATE})


class RecycledNodes:
    """Answers batches for many nodes, of which only some are real.

    `seconds` holds the time of all clients together, by stage: measured for real nodes and agents,
    and extrapolated to the other nodes.
    """

    def __init__(self, num_nodes: int, num_real: int, *, num_classes: int, key_bits: int) -> None:
        self.ids = range(_FIRST_ID, _FIRST_ID + num_nodes)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        rng = generator(0, "bench", "labels")
        shares = rng.dirichlet(np.full(num_classes, _CONCENTRATION), size=min(num_real, num_nodes))
        self._sessions = [
            ClientSession(
                NodePolicy(
                    label_counts=partial(np.array, rng.multinomial(_NUM_SAMPLES, share)),
                    alias=str(row),
                    min_key_bits=key_bits,
                )
            )
            for row, share in enumerate(shares)
        ]
        self._announced: JoinRequest | None = None
        self._agent_key = b""
        self._turn = 0

    @property
    def num_real(self) -> int:
        """The number of nodes that compute their answers."""
        return len(self._sessions)

    def answer(self, batch: Batch) -> Mapping[int, Fields]:
        """Return the reply of each node in the batch, which asks all nodes or only agents."""
        stage = Stage(batch.header.stage)
        if stage not in _OF_ALL:
            return {
                node_id: self._as_agent(node_id, request)
                for node_id, request in batch.fields.items()
            }
        before = self.seconds[stage]
        asked = dict(zip(range(self.num_real), batch.fields.items(), strict=False))
        answers = [self._handle(index, request) for index, (_, request) in asked.items()]
        # Charge every other node the average time of a real one.
        self.seconds[stage] = before + (self.seconds[stage] - before) * len(batch.requests) / len(
            answers
        )
        first = next(iter(batch.requests.values()))
        if isinstance(first, JoinRequest):
            self._announced = first
            return _Joined(self.ids, answers)
        if isinstance(first, SettleRequest) and "contribution" not in answers[0]:
            answers += self._more_draws(batch, first.draws, "draws.", answers[0])
        if isinstance(first, ParticipateRequest):
            answers += self._more_draws(batch, first, "", answers[0])
        others = answers[self.num_real :] or answers
        return dict(zip(self.ids, chain(answers[: self.num_real], cycle(others)), strict=False))

    def _handle(self, index: int, request: Mapping[str, object]) -> Fields:
        session, stage = self._sessions[index], str(request["stage"])
        if stage == Stage.REGISTER and self.num_real < len(self.ids):
            request = {**request, "opener-keys": self._agent_key}
        for once in (decrypted_sum, Prices.advanced):  # as if each node ran in its own process
            once.cache_clear()
        began = process_time()
        reply = session.handle(request)
        self.seconds[stage] += process_time() - began
        return reply

    def _as_agent(self, node_id: int, request: Fields) -> Fields:
        """Have the real nodes take turns as agents."""
        index = node_id - _FIRST_ID
        if self.num_real < len(self.ids):
            self._turn += 1
            index = self._turn % self.num_real
        if request["stage"] == Stage.APPOINT:
            keys = request["roster.public-keys"]
            assert isinstance(keys, bytes)  # noqa: S101 - as the message declares it
            self._agent_key = keys[index * PUBLIC_KEY_BYTES :][:PUBLIC_KEY_BYTES]
            request = {**request, "openers": index.to_bytes(8, "big")}
        return self._handle(index, request)

    def _more_draws(
        self, batch: Batch, request: ParticipateRequest, prefix: str, first: Fields
    ) -> list[Fields]:
        """Draw for the nodes that are not real, which volunteer with the average probability."""
        if self.num_real == len(self.ids):
            return []
        assert self._announced is not None  # noqa: S101 - nodes join before they draw
        wanted = self._announced.num_participants
        rng = generator(batch.header.sequence, "bench", "draws")
        number = min(_DISTINCT_DRAWS, len(self.ids) - self.num_real)
        shape = (number, request.num_rounds, request.num_tries)
        draws = rng.random(shape) < wanted / len(self.ids)
        willing = [False] * request.num_rounds
        drawn = [encode(write_draws(row, willing)) for row in draws]
        return [{**first, **{prefix + key: bits for key, bits in each.items()}} for each in drawn]


class _Joined(Mapping[int, Fields]):
    """The answers to *join*: nodes that are not real get an alias and a key of their own."""

    def __init__(self, ids: range, answers: Sequence[Fields]) -> None:
        self._ids = ids
        self._answers = answers
        self._keys = os.urandom((len(ids) - len(answers)) * PUBLIC_KEY_BYTES)

    def __getitem__(self, node_id: int) -> Fields:
        index = node_id - _FIRST_ID
        if index < len(self._answers):
            return self._answers[index]
        start = (index - len(self._answers)) * PUBLIC_KEY_BYTES
        return {
            **self._answers[0],
            "alias": str(index),
            "public-key": self._keys[start : start + PUBLIC_KEY_BYTES],
        }

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)
