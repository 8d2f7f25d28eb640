"""What the in-process Grid and the protocol add to the cryptography itself."""

import logging
from time import perf_counter, process_time

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord
from flwr.common import ndarrays_to_parameters
from flwr.server import SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.serverapp.strategy import FedAvg as MessageFedAvg
from support import message_client_app, numpy_client_app, skewed_label_counts

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
from dubhe_flwr.rules import Paper
from dubhe_flwr.server import Dubhe
from dubhe_flwr.serverapp import Dubhe as MessageDubhe
from dubhe_flwr.simulation import InProcessGrid

pytestmark = pytest.mark.benchmark_only

NUM_NODES = 1000
LABEL_COUNTS = skewed_label_counts(NUM_NODES)


def cryptography_of_one_node(secret_key: SecretKey) -> None:
    """Do what a node has to: make a key, open one, encrypt twice, decrypt R_A."""
    layout = Layout(
        secret_key.public_key.bits,
        10_000,
        (Field("registry", 11, 1), Field("distribution", 5, 2**20)),
    )
    context = SealingContext(
        "dubhe/1", bytes(16), bytes(32), secret_key.public_key.digest(), layout.digest()
    )
    registry, distribution = np.eye(11, dtype=np.int64)[3], with_square([2**20, 0, 0, 0])
    own = RecipientKey.from_bytes(RecipientKey.generate().to_bytes())
    delivered = seal(secret_key, own.public_bytes, context)
    key = open_sealed(delivered, own, context, secret_key.public_key)
    total = key.encrypt(layout.pack("registry", registry))
    key.encrypt(layout.pack("distribution", distribution))
    again = SecretKey(key.public_key, int.from_bytes(key.to_bytes(), "big"))
    layout.unpack("registry", again.decrypt(total), 1)


def test_a_thousand_nodes_cost_little_more_than_their_cryptography() -> None:
    """Registration and draw of 1000 nodes, messages included, beside the cryptography alone."""
    assert Codebook((1, 2, 4)).length == 11
    secret_key = generate_secret_key(2048)
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
        rule=Paper((1, 2, 4), {1: 0.7, 2: 0.2}),
        simulation="encrypted",
        determination="tries",
        tries=10,
        seed=7,
    )
    begin = perf_counter()
    for _ in range(NUM_NODES // 2):
        cryptography_of_one_node(secret_key)
    half = perf_counter()
    strategy.configure_fit(1, ndarrays_to_parameters([np.zeros(1)]), manager)
    end = perf_counter()
    for _ in range(NUM_NODES // 2):
        cryptography_of_one_node(secret_key)
    cryptography = half - begin + perf_counter() - end
    overhead = (end - half) / cryptography - 1
    print(  # noqa: T201 - a benchmark says what it found
        f"\n{NUM_NODES} nodes: {end - half:.2f} s, cryptography alone {cryptography:.2f} s, "
        f"overhead {overhead:.1%}"
    )
    assert overhead <= 0.30


def test_rounds_that_are_drawn_fifty_at_a_time_cost_little() -> None:
    """A thousand rounds of a thousand nodes, beside the cryptography and Flower's own part."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    num_rounds, small_key = 1000, generate_secret_key(512)
    app = message_client_app(lambda context: LABEL_COUNTS[int(context.node_config["partition-id"])])
    grid = InProcessGrid(app, NUM_NODES)
    plain = MessageFedAvg(fraction_train=0.02, min_train_nodes=20, min_available_nodes=NUM_NODES)
    strategy = MessageDubhe(
        MessageFedAvg(),
        num_participants=20,
        rule=Paper((1, 2, 4), {1: 0.7, 2: 0.2}),
        simulation="encrypted",
        determination="tries",
        tries=1,
        rounds_per_draw=50,
        registration_interval=num_rounds,
        max_draws_per_epoch=2 * num_rounds,
        key_bits=512,
        seed=7,
    )
    seconds = {"selection": 0.0, "FedAvg": 0.0, "cryptography": 0.0}
    for server_round in range(1, num_rounds + 1):
        begin = process_time()
        list(strategy.configure_train(server_round, ArrayRecord(), ConfigRecord(), grid))
        selected = process_time()
        list(plain.configure_train(server_round, ArrayRecord(), ConfigRecord(), grid))
        sampled = process_time()
        cryptography_of_one_node(small_key)
        seconds["selection"] += selected - begin
        seconds["FedAvg"] += sampled - selected
        seconds["cryptography"] += process_time() - sampled
    print(  # noqa: T201 - a benchmark says what it found
        "\n"
        + ", ".join(f"{what} {s / num_rounds * 1e3:.2f} ms a round" for what, s in seconds.items())
    )
    assert (seconds["selection"] - seconds["cryptography"]) / num_rounds <= 0.005
