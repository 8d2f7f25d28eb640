"""A server that makes up sums and asks agents for the best one can read any client."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import (
    KEY_BITS,
    Federation,
    dubhe,
    epoch_of,
    paillier,
    registered,
    skewed_counts,
)
from protocol.nodes import seal

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.wire.messages import DetermineRequest
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION
from dubhe_flwr.rules import Paper, Prices

N, C, K, STEPS = 60, 4, 8, 6
COUNTS = skewed_counts(N)
SCALE = 2**20
FAIR = K * SCALE // C
"""Each class's share of a uniform sum over K clients."""


class Server:
    """Reads one client with the help of honest agents."""

    def __init__(self, nodes: Federation[CoordinatorState], victim: int) -> None:
        self.nodes, self.epoch = nodes, epoch_of(nodes)
        self.victim = self.epoch.registration.distributions[nodes.ids[victim]]
        self.agents = [nodes.ids[row] for row in range(N) if row != victim]
        self.sequence, self.num_answers = 1000, 0

    def with_others(self, rest: list[int]) -> bytes:
        """Add known numbers for K - 1 more clients to what the victim registered."""
        key = PublicKey.from_bytes(self.epoch.registration.public, KEY_BITS)
        width = paillier(self.epoch.terms).layout.slot_bits(DISTRIBUTION)
        packed = sum(value << (width * index) for index, value in enumerate([*rest, 0]))
        # Anyone can encrypt under the public modulus: 1 + n m is a ciphertext of m.
        known = (1 + key.n * packed) % key.n**2
        return key.add_up([self.victim, known.to_bytes(len(self.victim), "big")], 1)

    def is_above(self, label: int, share: int) -> bool:
        """Ask an agent which of two sums is best; it picks the first unless p(label) > share."""
        filler = (label + 1) % C
        others = [index for index in range(C) if index not in {label, filler}]
        most = (K - 1) * SCALE - (FAIR - share)
        one, other = [0] * C, [0] * C
        one[label], one[filler] = FAIR - share, most
        other[filler] = most
        for index in others:
            other[index] = (FAIR - share) // len(others)
        other[others[0]] += (FAIR - share) % len(others)
        sums = self.with_others(one) + self.with_others(other)
        while True:
            self.sequence += 1
            asked = DetermineRequest(sums, (2,))
            request = seal(self.epoch.identity, Stage.DETERMINE, self.sequence, asked)
            try:
                reply: Any = self.nodes.handle(self.agents[0], request)
            except RefusedError:  # this agent's sums are spent
                self.agents.pop(0)
                continue
            self.num_answers += 1
            return bool(np.frombuffer(reply["chosen"], ">i8")[0])

    def share_of(self, label: int) -> float:
        """Bisect the interval of the share six times."""
        low, high = 0, SCALE
        for _ in range(STEPS):
            middle = (low + high) // 2
            low, high = (middle, high) if self.is_above(label, middle) else (low, middle)
        return (low + high) / 2 / SCALE


@pytest.mark.parametrize("rule", [Prices(), Paper((1, 2, C), {1: 0.7, 2: 0.2})])
def test_an_active_server_reads_any_client_in_one_epoch(rule: Any) -> None:
    """24 answers from two agents give each share of a client with four classes within 1/128."""
    settings = {"rule": rule, "num_participants": K, "tries": 4}
    nodes = dubhe(COUNTS, **settings)
    nodes.play(1)
    server = Server(nodes, victim=7)
    found = [server.share_of(label) for label in range(C)]
    assert np.abs(found - COUNTS[7] / COUNTS[7].sum()).max() <= 1 / 128 + 1e-6
    assert (server.num_answers, N - 1 - len(server.agents)) == (STEPS * C, 1)
    spent = [registered(nodes, node_id).num_sums for node_id in nodes.ids]
    assert max(spent) < N / 2
    assert Stage.DETERMINE in nodes.stages()
