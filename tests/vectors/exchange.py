"""Vectors of what travels: messages, ciphertexts, sealed keys, signatures."""

from collections.abc import Iterator
from typing import Any

from vectors import reference as ref
from vectors.inputs import (
    AGENT,
    ANNOUNCED,
    CALIBRATED,
    EPOCH,
    MODULUS,
    NODE,
    OTHER_EPOCH,
    SEARCHED,
    Case,
    N,
    P,
    Q,
    all_told,
    sealing,
    secret,
)


def messages() -> Iterator[Case]:
    """From the values of a message to its fields."""
    join = ANNOUNCED | {"calibrated": True, "coverage": 1.0, "floor": 0.1, "local-skew": 0.05}
    requests: dict[str, dict[str, Any]] = {
        "hello": {},
        "join": join,
        "keygen": {"public-keys": bytes(range(96)), "signatures": b""},
        "register": {
            "modulus": MODULUS,
            "agent-public-key": ref.public_half(AGENT),
            "sealed-key": bytes(80),
            "recipients-digest": bytes(range(32)),
            "signature": bytes(96),
        },
        "check": {
            "registries": b"\x0c" * 256, "distributions": b"\x0d" * 256, "num-clients": [9, 10]
        },
        "expect": {"overall-registry": b"\x02" * 128, "num-registered": 100, "num-tries": 0},
        "search": {"sums": b"\x0a" * 128, "num-tries": 0, "num-clients": 98},
        "moments": {"overall-registry": b"\x02" * 128, "num-registered": 100, "candidate": 0},
        "calibrate": {
            "overall-registry": b"\x02" * 128,
            "num-registered": 100,
            "moments": b"\x08" * 640,
            "num-clients": 98,
            "candidate": 0,
        },
        "participate": {
            "overall-registry": b"\x02" * 128,
            "num-registered": 100,
            "first-round": 7,
            "num-rounds": 5,
            "num-tries": 10,
            "probabilities": b"",
            "candidate": 0,
        },
        "determine": {"sums": b"\x03" * 640, "num-sums": [3, 2], "num-clients": [4, 4, 5, 4, 5]},
    }  # fmt: skip
    replies: dict[str, dict[str, Any]] = {
        "hello": {"alias": "client 3: Grüße", "willing": True},
        "join": {
            "status": 0,
            "alias": "3",
            "public-key": ref.public_half(NODE),
            "signature": bytes(96),
        },
        "keygen": {"modulus": MODULUS, "sealed-keys": bytes(240), "signature": bytes(96)},
        "register": {"registry": b"\x04" * 128, "distribution": b"\x05" * 128},
        "check": {"passed": b"\xc0"},
        "expect": {"expectations": b"\x0a" * 128, "decisions": b""},
        "search": {"candidate": 2},
        "moments": {"moments": b"\x08" * 640},
        "calibrate": {"probabilities": b"\x09" * 128},
        "participate": {"decisions": b"\x06" * 7, "unwilling": b"\x08"},
        "determine": {"chosen": [0, 9, 3]},
    }
    for kind, bodies in (("request", requests), ("reply", replies)):
        for sequence, (stage, values) in enumerate(bodies.items(), start=1):
            fields = ref.header(EPOCH, stage, sequence) | ref.fields_of(values)
            yield {
                "name": f"{stage} {kind}",
                "kind": kind,
                "stage": stage,
                "sequence": sequence,
                "values": all_told(values),
                "fields": all_told(fields),
            }


def ciphertexts() -> Iterator[Case]:
    """From ciphertexts and the primes to plaintexts."""
    one, two = ref.encrypt(N, [5, 2**300], 12345), ref.encrypt(N, [37, 1], 6789)
    for name, vector, plaintexts in (
        ("zero", ref.encrypt(N, [0], 2), [0]),
        ("without obfuscation", ref.encrypt(N, [42], 1), [42]),
        ("two ciphertexts", one, [5, 2**300]),
        ("a sum of two vectors", ref.add(N, one, two), [42, 2**300 + 1]),
        ("the largest plaintext", ref.encrypt(N, [N - 1], 99), [N - 1]),
    ):
        yield {
            "name": name,
            "modulus": MODULUS.hex(),
            "p": f"{P:064x}",
            "vector": vector.hex(),
            "plaintexts": [f"{plaintext:x}" for plaintext in plaintexts],
        }


def sealed_keys() -> Iterator[Case]:
    """From a sealed key and the recipient's private half to the prime within."""
    for name, changes in (
        ("a node", {}),
        ("the agent itself", {"recipient": AGENT}),
        ("another epoch and layout", {"epoch": OTHER_EPOCH, "announced": SEARCHED}),
        ("the other prime", {"plaintext": Q.to_bytes(32, "big")}),
    ):
        p = Q if name == "the other prime" else P
        yield {"name": name} | sealing(**changes) | {"p": f"{p:064x}"}


def signatures() -> Iterator[Case]:
    """From what is signed to the statement and the signature."""
    node, agent = ref.public_half(NODE), ref.public_half(AGENT)
    for name, announced, epoch in (
        ("plain", ANNOUNCED, EPOCH),
        ("calibrated", CALIBRATED, EPOCH),
        ("three candidates", SEARCHED, OTHER_EPOCH),
    ):
        join = ref.join_statement(epoch, announced, node)
        bundle = ref.bundle_statement(epoch, announced, agent, MODULUS, node + agent)
        yield {
            "name": name,
            "epoch": epoch.hex(),
            "parameters": all_told(announced),
            "parameters-digest": ref.parameters_digest(announced).hex(),
            "signing-key": secret("signing").hex(),
            "public-key": node.hex(),
            "join-statement": join.hex(),
            "join-signature": ref.sign(secret("signing"), join).hex(),
            "agent-public-key": agent.hex(),
            "modulus": MODULUS.hex(),
            "recipients": (node + agent).hex(),
            "bundle-statement": bundle.hex(),
            "bundle-signature": ref.sign(secret("signing"), bundle).hex(),
        }
