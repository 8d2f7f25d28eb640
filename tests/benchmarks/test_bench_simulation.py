"""What the in-process Grid and the protocol add to the cryptography itself."""

import logging
import os
from time import perf_counter

import numpy as np
import pytest
from flwr.common import ndarrays_to_parameters
from flwr.server import SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from support import numpy_client_app, skewed_label_counts

from dubhe_flwr.core import Codebook, with_square
from dubhe_flwr.he import (
    Field,
    Layout,
    RecipientKey,
    SealingContext,
    SecretKey,
    generate_secret_key,
    open_sealed,
    seal,
)
from dubhe_flwr.server import Dubhe
from dubhe_flwr.simulation import InProcessGrid

pytestmark = pytest.mark.benchmark_only

NUM_NODES = 1000
LABEL_COUNTS = skewed_label_counts(NUM_NODES)


def cryptography_of_one_node() -> None:
    """Do what a node has to: make a key, open one, encrypt twice, decrypt R_A."""
    registry, distribution = np.eye(11, dtype=np.int64)[3], with_square([2**20, 0, 0, 0])
    own = RecipientKey.from_bytes(RecipientKey.generate().to_bytes())
    delivered = seal(KEY, own.public_bytes, CONTEXT)
    key = open_sealed(delivered, own, CONTEXT, KEY.public_key)
    total = key.encrypt(LAYOUT.pack("registry", registry))
    key.encrypt(LAYOUT.pack("distribution", distribution))
    again = SecretKey(KEY.public_key, int.from_bytes(key.to_bytes(), "big"))
    LAYOUT.unpack("registry", again.decrypt(total), 1)


KEY = generate_secret_key(2048)
LAYOUT = Layout(2048, 10_000, (Field("registry", 11, 1), Field("distribution", 5, 2**20)))
CONTEXT = SealingContext(
    "dubhe/1", os.urandom(16), os.urandom(32), KEY.public_key.digest(), LAYOUT.digest()
)


def test_a_thousand_nodes_cost_little_more_than_their_cryptography() -> None:
    """Registration and draw of 1000 nodes, messages included, beside the cryptography alone."""
    assert Codebook((1, 2, 4)).length == 11
    logging.getLogger("flwr").setLevel(logging.ERROR)
    app = numpy_client_app(
        lambda context: LABEL_COUNTS[int(context.node_config["partition-id"])], min_key_bits=2048
    )
    grid = InProcessGrid(app, NUM_NODES)
    manager = SimpleClientManager()
    for node_id in grid.get_node_ids():
        manager.register(GridClientProxy(node_id, grid, grid.run.run_id))
    strategy = Dubhe(
        FedAvg(),
        num_participants=20,
        reference_set=(1, 2, 4),
        thresholds={1: 0.7, 2: 0.2},
        tries=10,
        seed=7,
    )
    begin = perf_counter()
    for _ in range(NUM_NODES // 2):
        cryptography_of_one_node()
    half = perf_counter()
    strategy.configure_fit(1, ndarrays_to_parameters([np.zeros(1)]), manager)
    end = perf_counter()
    for _ in range(NUM_NODES // 2):
        cryptography_of_one_node()
    cryptography = half - begin + perf_counter() - end
    overhead = (end - half) / cryptography - 1
    print(  # noqa: T201 - a benchmark says what it found
        f"\n{NUM_NODES} nodes: {end - half:.2f} s, cryptography alone {cryptography:.2f} s, "
        f"overhead {overhead:.1%}"
    )
    assert overhead <= 0.30
