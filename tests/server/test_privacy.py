"""What the server receives over a whole run tells it nobody's labels."""

from typing import Any

from disclosure import label_secrets
from flwr.app import Context, RecordDict
from flwr.server.strategy import FedAvg
from support import LABEL_COUNTS, NUM_NODES, SELECTION, initial_parameters, numpy_client_app
from support import strategy_server_app as server_app

from dubhe_flwr.protocol import Memory
from dubhe_flwr.server import Dubhe
from dubhe_flwr.simulation import InProcessGrid


class Transcript(InProcessGrid):
    """Keeps the protocol's messages in both directions."""

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        ids = list(super().push_messages(messages))
        seen = self.__dict__.setdefault("seen", [])
        for message in messages:
            reply = self._replies[message.metadata.message_id]
            if message.metadata.message_type.startswith("evaluate.dubhe"):
                seen.append((message.content, reply.content))
        return ids

    def replies(self) -> list[dict[str, Any]]:
        """Return the fields of every reply."""
        return [dict(reply.config_records["dubhe"]) for _, reply in self.__dict__["seen"]]

    def sizes(self) -> list[tuple[Any, ...]]:
        """Return names, types and lengths of the fields of every message, in order."""
        return [
            tuple(
                (name, type(value), len(value) if isinstance(value, bytes | str) else None)
                for content in exchange
                for name, value in sorted(content.config_records["dubhe"].items())
            )
            for exchange in self.__dict__["seen"]
        ]


def run(counts: Any = LABEL_COUNTS, num_rounds: int = 4) -> Transcript:
    """Run a federation on these label counts and return its transcript."""
    app = numpy_client_app(lambda context: counts[int(context.node_config["partition-id"])])
    grid = Transcript(app, NUM_NODES)
    inner = FedAvg(fraction_evaluate=0.0, initial_parameters=initial_parameters())
    strategy = Dubhe(inner, **SELECTION)
    server_app(strategy, num_rounds)(grid, Context(grid.run.run_id, 1, {}, RecordDict(), {}))
    return grid


def test_a_transcript_holds_nothing_in_the_clear() -> None:
    """Neither a registry, p_l, R_A, p_o, an EMD nor a secret key is in what the server received."""
    grid = run()
    received = b"|".join(
        value if isinstance(value, bytes) else repr(value).encode()
        for fields in grid.replies()
        for value in fields.values()
    )
    rule = SELECTION["rule"]
    secrets = label_secrets(LABEL_COUNTS, rule.codebook.reference_set, rule.candidates[0])
    for context in grid.contexts.values():
        state = Memory.from_fields(context.state.config_records["dubhe"])
        modulus = int.from_bytes(state.modulus, "big")
        p = int.from_bytes(state.secret_key, "big")
        for prime in (p, modulus // p):
            secrets |= {prime.to_bytes(32, "big"), prime.to_bytes(32, "little")}
            secrets |= {str(prime).encode(), f"{prime:x}".encode()}
        secrets.add(state.recipient_key)
    assert len(secrets) > 1000
    assert [secret for secret in secrets if secret in received] == []


def test_a_reply_has_no_room_for_anything_else() -> None:
    """Replies hold aliases, keys, ciphertexts, bits and an index; never a float."""
    names = {name for fields in run().replies() for name in fields}
    header = {"version", "epoch", "stage", "sequence"}
    assert names - header == {
        *("status", "alias", "public-key"),
        *("modulus", "sealed-keys", "signature"),
        *("registry", "distribution", "moments", "probabilities"),
        *("decisions", "unwilling"),
        "chosen",
    }
    assert not any(isinstance(v, float) for fields in run().replies() for v in fields.values())


def test_labels_change_neither_number_nor_size_of_messages() -> None:
    """Whatever one client holds, the same messages of the same sizes travel."""
    other = LABEL_COUNTS.copy()
    other[5] = [0, 0, 0, 1_000_000]
    assert run().sizes() == run(other).sizes()
