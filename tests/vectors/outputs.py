"""What the second implementation makes of a vector's inputs.

The inputs of these vectors stand in the JSON files themselves. A function returns the other keys
of a case, which `make.py` then writes.
"""

import struct
from hashlib import sha256

from vectors import reference as ref
from vectors.inputs import ANNOUNCED, EPOCH, EXAMPLES, Case, all_typed, bytes_of, present, untyped


def categories(case: Case) -> Case:
    """Map samples per class to a slot of the registry."""
    sizes = tuple(case["reference-set"])
    u, codebook = ref.category(case["label-counts"], sizes, case["thresholds"]), ref.codebook(sizes)
    return {"category": list(u), "slot": codebook.index(u), "length": len(codebook)}


def distributions(case: Case) -> Case:
    """Map samples per class to fixed-point shares, followed by their squared norm."""
    return {"shares-and-square": ref.with_square(ref.fixed_point(case["label-counts"]))}


def layouts(case: Case) -> Case:
    """Map the parameters of an epoch to the position of every counter."""
    announced = untyped(case["parameters"])
    return {
        "candidates": ref.candidates(announced),
        "fields": ref.layout(announced),
    }


def packings(case: Case) -> Case:
    """Map counters to plaintexts; sums over several clients unpack the same way."""
    plaintexts = ref.pack(untyped(case["parameters"]), case["field"], case["values"])
    return {"plaintexts": [f"{plaintext:x}" for plaintext in plaintexts]}


def messages(case: Case) -> Case:
    """Map a message's values to its fields; optional fields may be left out."""
    header = ref.header(EPOCH, case["stage"], case["sequence"])
    return {"fields": all_typed(header | ref.fields_of(untyped(case["values"])))}


def bad_messages(case: Case) -> Case:
    """Invalid fields, and messages for another epoch, stage or request."""
    good = EXAMPLES[case["message"]]
    fields = untyped(messages(good)["fields"]) | ref.fields_of(untyped(case["changes"]))
    header = {name: good[name] for name in ("kind", "stage", "sequence")}
    return header | {"fields": all_typed(present(fields))}


def joins(case: Case) -> Case:
    """Map the parameters of an epoch and a node's settings and data to its status."""
    announced = present(ANNOUNCED | untyped(case["changes"]))
    holds = {"status": case["status"], "alias": case["owner"]["alias"]}
    sizes = {"public-key": 32}
    if not case["status"]:
        counts = case["label-counts"]
        holds["num-classes"] = len(counts)
        if announced["weighted"]:
            holds["num-examples"] = sum(counts)
        if announced["vault"] == "plain":
            holds |= ref.fields_of({"label-counts": counts})
        if "signing-key" in case["owner"]:
            sizes["signature"] = 96
    step = {"request": all_typed(ref.header(EPOCH, "join", 3) | announced)}
    return {"steps": [step | {"reply-holds": all_typed(holds), "reply-sizes": sizes}]}


def ciphertexts(case: Case) -> Case:
    """Map ciphertexts and the primes to plaintexts."""
    n = int(case["modulus"], 16)
    addends = [[int(plaintext, 16) for plaintext in row] for row in case["addends"]]
    vectors = [ref.encrypt(n, row, r) for row, r in zip(addends, case["randomness"], strict=True)]
    return {
        "vector": ref.add(n, *vectors).hex(),
        "plaintexts": [f"{plaintext:x}" for plaintext in ref.added(addends)],
    }


def committees(case: Case) -> Case:
    """Map three nodes' keys and numbers to their messages, each member's part, and the sum."""
    made, state, covered = bytes_of(case, "made-key", "state", "covered")
    rows, noise = case["values"], case["noise"]
    group, label = ref.group_key(made, state), ref.label(case["field"], case["number"])
    keys = [list(map(bytes.fromhex, row)) for row in case["pad-keys"]]  # by node
    sent = []
    for own, row in zip(keys, rows, strict=True):
        pad_name = ref.pad_name(group, label, len(row))
        pads = [ref.pad(key, pad_name, len(row) + 1) for key in own]
        sent.append(ref.masked(ref.tagged(group, label, row), pads))
    columns = zip(*(struct.unpack(f">{len(each) // 8}Q", each) for each in sent), strict=True)
    total = ref.masked([sum(column) for column in columns], [])
    parts = [
        ref.member_part(group, place, label, pad_keys, noise[place], covered, total)
        for place, pad_keys in enumerate(zip(*keys, strict=True))
    ]
    opened = b"".join([total, sha256(covered).digest(), *parts])
    return {
        "sealed-state": ref.sealed_state(made, state).hex(),
        "group-key": group.hex(),
        "sent": [each.hex() for each in sent],
        "total": total.hex(),
        "parts": [each.hex() for each in parts],
        "proofs": [
            [
                ref.proof(key, label, covered, len(rows), total, part).hex()
                for key, part in zip(own, parts, strict=True)
            ]
            for own in keys
        ],
        "sum": ref.added([*rows, *noise]),
        "next-group-key": ref.group_key(group, opened).hex(),
    }


def sealed_keys(case: Case) -> Case:
    """Map a sealed key and the recipient's private key to the prime inside."""
    private, info = bytes_of(case, "recipient-private-key", "info")
    p, ephemeral = bytes_of(case, "p", "ephemeral-private-key")
    recipient = ref.public_half(private)
    sealed = ref.seal(p, recipient, info, ephemeral)
    return {"recipient-public-key": recipient.hex(), "sealed": sealed.hex()}


def signatures(case: Case) -> Case:
    """Map what is signed to the statement and the signature."""
    announced, told = untyped(case["parameters"]), untyped(case["register"])
    epoch, node, signer = bytes_of(case, "epoch", "public-key", "signing-key")
    join = ref.join_statement(epoch, announced, node, case["alias"], case["num-examples"])
    appointment = ref.appointment(epoch, announced, told, case["place"], node)
    continued = announced | {"continues": EPOCH}
    return {
        "parameters-digest": ref.parameters_digest(announced).hex(),
        "continued-parameters-digest": ref.parameters_digest(continued).hex(),
        "join-statement": join.hex(),
        "join-signature": ref.sign(signer, join).hex(),
        "appointment-statement": appointment.hex(),
        "appointment-signature": ref.sign(signer, appointment).hex(),
    }


def draws(case: Case) -> Case:
    """Map a seed, an alias and rounds to uniform numbers."""
    names = "seed", "alias", "first-round", "num-rounds", "num-tries"
    rows = ref.seeded_draws(*(case[name] for name in names))
    return {"numbers": rows, "below-one-half": ref.bits(x < 0.5 for row in rows for x in row).hex()}


def probabilities(case: Case) -> Case:
    """Map the overall registry to the probability of each category."""
    found = ref.probability(case["overall-registry"], case["num-participants"])
    return {"probabilities": found}


def choices(case: Case) -> Case:
    """Map decrypted sums to the choice that follows."""
    if "expectations" in case:
        table = case["expectations"]
        flat = [number for row in table for number in row]
        return {"chosen": ref.best_candidate(flat, len(table[0]) - 1)}
    scores = ref.scores(case["sums"], case["local-skew"], case["target"])
    return {"scores": scores, "chosen": scores.index(min(scores))}
