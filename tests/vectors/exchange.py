"""Vectors of what travels over the wire: messages, ciphertexts, sealed keys, signatures."""

import struct
from collections.abc import Iterator
from typing import Any

from vectors import reference as ref
from vectors.inputs import (
    AGENT,
    ANNOUNCED,
    EPOCH,
    MNIST,
    MODULUS,
    NODE,
    OTHER_EPOCH,
    POOLED,
    SEARCHED,
    SIGNER,
    Case,
    N,
    P,
    Q,
    all_typed,
    paper,
    sealed_key_case,
)

ROWS = (
    [[int(place == own) for place in range(15)] for own in (0, 3, 7)],
    [[1000 * own + place for place in range(15)] for own in (1, 2, 3)],
)
NOISE = [[1] + [0] * 14, [0, 0, 0, -1] + [0] * 11, [0, 2] + [0] * 13]
_DRAW: dict[str, Any] = {"first-round": 7, "num-rounds": 5, "num-tries": 10}
_SUM: dict[str, Any] = {
    "rule-sum.sums": b"\x02" * 128, "rule-sum.num-clients": 100, "rule-sum.number": 0,
    "draws.first-round": 7, "draws.num-rounds": 5, "draws.num-tries": 10,
}  # fmt: skip


def messages() -> Iterator[Case]:
    """Map a message's values to its fields; optional fields may be left out."""
    key = {
        "num-joined": 9,
        "key.modulus": MODULUS,
        "key.agent-public-key": ref.public_half(AGENT),
        "key.sealed-key": bytes(80),
    }
    away = {"status": 5, "alias": "3", "public-key": ref.public_half(NODE)}
    joined = {"status": 0, "alias": "3", "num-classes": 4, "public-key": ref.public_half(NODE)}
    committee: dict[str, Any] = {
        "num-joined": 9,
        "committee.member-keys": bytes(range(96)),
        "committee.roster": bytes(32),
        "committee.group-digest": bytes(32),
        "committee.sealed-key": bytes(80),
    }
    appoint: dict[str, Any] = {"roster.public-keys": bytes(range(128)), "members": [0, 1, 3]}
    of_three: dict[str, Any] = {"roster.public-keys": bytes(range(96))}
    told = {"roster.alias-digests": bytes(96), "roster.signatures": bytes(288)}
    opened: dict[str, Any] = {"number": 1, "covered": b"\xf0\x80", "total": bytes(96)}
    agrees: dict[str, Any] = {"group-digest": b"", "sealed-keys": b""}
    made = {"modulus": MODULUS, "sealed-keys": bytes(240)}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("hello", "", {}),
        ("join", "", POOLED),
        ("join", " of real nodes", MNIST),
        ("join", ", numbers in the clear", ANNOUNCED | {"vault": "plain"}),
        ("join", " of a server that knows the keys", ANNOUNCED | {"has-trusted-keys": True}),
        ("join", " of an epoch that goes on", ANNOUNCED | {"continues": OTHER_EPOCH}),
        ("keygen", "", of_three),
        ("keygen", ", signed", of_three | told),
        ("keygen", ", weighted", of_three | {"roster.num-examples": [600, 1, 24]}),
        ("appoint", "", appoint),
        (
            "appoint",
            ", signed",
            appoint | {"roster.alias-digests": bytes(128), "roster.signatures": bytes(384)},
        ),
        ("register", "", key),
        ("register", ", signed", key | {"key.signature": bytes(96)}),
        ("register", ", weighted", key | {"mean-examples": 612.5}),
        ("register", " for a committee", committee),
        ("register", " for a signed committee", committee | {"committee.signatures": bytes(288)}),
        ("register", " without a key", {"num-joined": 1}),
        ("register", " in an epoch that goes on", {"num-joined": 1, "state": bytes(208)}),
        ("open", "", opened),
        ("settle", "", _SUM),
        ("settle", " with proofs", _SUM | {"proofs": bytes(48)}),
        ("participate", "", _DRAW),
        ("determine", "", {"sums": b"\x03" * 640, "num-tries": [3, 2]}),
    ]
    replies: list[tuple[str, str, dict[str, Any]]] = [
        ("hello", "", {"alias": "client 3: Grüße", "willing": True}),
        ("join", "", joined),
        ("join", ", signed", joined | {"signature": bytes(96)}),
        ("join", ", weighted", joined | {"num-examples": 600}),
        ("join", " of a simulated node", joined | {"label-counts": [20, 30, 0, 5]}),
        ("join", " of a node that stays out", away),
        ("keygen", "", made),
        ("keygen", ", signed", made | {"signatures": bytes(288)}),
        ("keygen", " in an epoch that goes on", made | {"state": bytes(208)}),
        ("appoint", "", agrees | {"group-digest": bytes(32), "sealed-keys": bytes(720)}),
        ("appoint", ", signed", agrees | {"signature": bytes(96)}),
        (
            "appoint",
            " in an epoch that goes on",
            agrees | {"group-digest": bytes(32), "sealed-keys": bytes(720), "state": bytes(208)},
        ),
        ("register", "", {"registration": b"\x04" * 128, "distribution": b"\x05" * 128}),
        ("register", " without an agent", {"registration": b"\x04" * 128}),
        ("open", "", {"sealed": bytes(112), "proofs": bytes(48)}),
        ("settle", "", {"contribution": b"\x0a" * 128, "finding": []}),
        (
            "settle",
            ", settled",
            {"finding": [0.7, 0.1], "draws.decisions": b"\x06" * 7, "draws.unwilling": b"\x08"},
        ),
        ("settle", ", settled without draws", {"finding": []}),
        ("participate", "", {"decisions": b"\x06" * 7, "unwilling": b"\x08"}),
        ("determine", "", {"chosen": [0, 9, 3]}),
    ]
    for kind, bodies in (("request", requests), ("reply", replies)):
        for sequence, (stage, how, values) in enumerate(bodies, start=1):
            yield {
                "name": f"{stage} {kind}{how}",
                "kind": kind,
                "stage": stage,
                "sequence": sequence,
                "values": all_typed(values),
                "fields": all_typed(ref.header(EPOCH, stage, sequence) | ref.fields_of(values)),
            }


def ciphertexts() -> Iterator[Case]:
    """Map ciphertexts and the primes to plaintexts."""
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


def committees() -> Iterator[Case]:
    """Map three nodes' keys and numbers to their messages, each member's part, and the sum."""
    made = bytes(range(32))
    for name, field, number, rows, noise, state in (
        ("without noise", "registration", 0, ROWS[0], [[0] * 15] * 3, b""),
        ("with noise of each member", "registration", 0, ROWS[0], NOISE, b""),
        ("of a later sum", "settlement", 1, ROWS[1], [[0] * 15] * 3, b""),
        ("in an epoch that goes on", "registration", 0, ROWS[0], [[0] * 15] * 3, b"state"),
    ):
        group = ref.group_key(made, state)
        keys = [[ref.hkdf(bytes([i, j]), b"pads") for j in range(3)] for i in range(3)]  # by node
        label = ref.label(field, number)
        names = [ref.pad_name(group, label, len(row)) for row in rows]
        pads = [[ref.pad(key, names[i], len(rows[i]) + 1) for key in keys[i]] for i in range(3)]
        sent = [ref.masked(ref.tagged(group, label, rows[i]), pads[i]) for i in range(3)]
        columns = zip(*(struct.unpack(f">{len(each) // 8}Q", each) for each in sent), strict=True)
        total = ref.masked([sum(column) for column in columns], [])
        covered = b"\xe0"
        parts = [
            ref.member_part(group, m, label, [row[m] for row in keys], noise[m], covered, total)
            for m in range(3)
        ]
        yield {
            "name": name,
            "parameters": all_typed(SEARCHED | {"vault": "committee", "has-agent": False}),
            "made-key": made.hex(),
            "state": state.hex(),
            "sealed-state": ref.sealed_state(made, state).hex(),
            "group-key": group.hex(),
            "pad-keys": [[key.hex() for key in row] for row in keys],
            "field": field,
            "number": number,
            "values": rows,
            "noise": noise,
            "sent": [each.hex() for each in sent],
            "total": total.hex(),
            "covered": covered.hex(),
            "parts": [each.hex() for each in parts],
            "proofs": [
                [
                    ref.proof(key, label, covered, len(rows), total, part).hex()
                    for key, part in zip(row, parts, strict=True)
                ]
                for row in keys
            ],
            "sum": ref.added([*rows, *noise]),
        }


def sealed_keys() -> Iterator[Case]:
    """Map a sealed key and the recipient's private key to the prime inside."""
    for name, p, changes in (
        ("a node", P, {}),
        ("the agent itself", P, {"recipient": AGENT}),
        ("another epoch and layout", P, {"epoch": OTHER_EPOCH, "announced": SEARCHED}),
        ("the other prime", Q, {"plaintext": Q.to_bytes(32, "big")}),
    ):
        yield {"name": name} | sealed_key_case(**changes) | {"p": f"{p:064x}"}


def signatures() -> Iterator[Case]:
    """Map what is signed to the statement and the signature."""
    node, agent = ref.public_half(NODE), ref.public_half(AGENT)
    for name, announced, epoch, alias, examples, mean in (
        ("tries", ANNOUNCED, EPOCH, "1", 0, 0.0),
        ("a pool, weighted", POOLED | {"weighted": True}, EPOCH, "1", 600, 612.5),
        ("three candidates", MNIST | paper([1, 4], "search"), OTHER_EPOCH, "Grüße", 0, 0.0),
    ):
        join = ref.join_statement(epoch, announced, node, alias, examples)
        state = b"state" * announced["weighted"]
        key = ref.key_statement(epoch, announced, agent, MODULUS, node, mean, state)
        yield {
            "name": name,
            "epoch": epoch.hex(),
            "parameters": all_typed(announced),
            "parameters-digest": ref.parameters_digest(announced).hex(),
            "continued-parameters-digest": ref.parameters_digest(
                announced | {"continues": EPOCH}
            ).hex(),
            "signing-key": SIGNER.hex(),
            "public-key": node.hex(),
            "alias": alias,
            "num-examples": examples,
            "mean-examples": mean,
            "join-statement": join.hex(),
            "join-signature": ref.sign(SIGNER, join).hex(),
            "agent-public-key": agent.hex(),
            "modulus": MODULUS.hex(),
            "state": state.hex(),
            "key-statement": key.hex(),
            "key-signature": ref.sign(SIGNER, key).hex(),
        }
