"""Writes the test vectors of the wire format: `python tests/vectors/make.py`.

Everything is computed by reference.py from fixed inputs, so that the files never change unless the
format does. The keys are throw-away keys that stand here in the open.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gmpy2

sys.path.insert(0, str(Path(__file__).parents[1]))
from vectors import reference as ref

FOLDER: Final = Path(__file__).parent
EPOCH: Final = bytes(range(16))
OTHER_EPOCH: Final = bytes(range(1, 17))

Case = dict[str, Any]

ANNOUNCED: Final[dict[str, Any]] = {
    "reference-set": [1, 2, 4],
    "thresholds": [0.6, 0.3],
    "num-participants": 4,
    "key-bits": 512,
    "max-clients": 20,
    "min-cohort": 3,
    "max-draws": 200,
    "max-sums": 100,
    "seed": 7,
    "volunteer-tries": 1,
    "group-size": 0,
    "calibrated": False,
    "coverage": 0.0,
    "floor": 0.0,
    "local-skew": 0.5,
    "block-size": 0,
}
CALIBRATED: Final = ANNOUNCED | {"calibrated": True, "coverage": 0.1, "floor": 0.1}
SEARCHED: Final = ANNOUNCED | {"thresholds": [0.5, 0.2, 0.6, 0.3, 0.9, 0.45]}
GROUPED: Final = ANNOUNCED | {"min-cohort": 2, "group-size": 2, "volunteer-tries": 4}
BLOCKS: Final = ANNOUNCED | {"block-size": 4}
MNIST: Final = ANNOUNCED | {
    "reference-set": [1, 2, 10],
    "thresholds": [0.7, 0.1],
    "num-participants": 20,
    "key-bits": 2048,
    "max-clients": 1000,
}
COUNTS: Final = [
    [50, 3, 2, 1], [20, 30, 0, 5], [10, 10, 10, 10], [0, 0, 40, 2], [30, 31, 1, 0],
    [7, 0, 0, 0], [25, 20, 2, 1], [1, 2, 3, 40], [16, 15, 1, 1],
]  # fmt: skip
"""Samples of the nine nodes of the examples."""


def secret(name: str) -> bytes:
    """Return 32 bytes that stand for a private key."""
    return hashlib.sha256(f"dubhe test vector: {name}".encode()).digest()


def prime(name: str, bits: int = 256) -> int:
    """Return a prime of so many bits, the two highest ones set."""
    number = int.from_bytes(secret(name), "big") >> (256 - bits)
    return int(gmpy2.next_prime(number | 3 << (bits - 2)))


P, Q = prime("p"), prime("q")
N = P * Q
MODULUS = N.to_bytes(64, "big")
AGENT, NODE, STRANGER = secret("agent"), secret("node"), secret("stranger")


def told(value: Any) -> Any:
    """Return a value with its type beside it, for JSON."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return {"floats" if any(isinstance(x, float) for x in value) else "ints": value}
    return {type(value).__name__: value}


def all_told(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return named values with their types."""
    return {str(name): told(value) for name, value in values.items()}


# --- good -----------------------------------------------------------------------------------------


def categories() -> Iterator[Case]:
    """From samples of each class to a slot of the registry."""
    given: list[tuple[str, Sequence[int], list[int], list[float]]] = [
        ("one class dominates", [1, 8, 1, 0], [1, 2, 4], [0.7, 0.2]),
        ("two classes dominate", [5, 1, 4, 0], [1, 2, 4], [0.7, 0.2]),
        ("none dominates", [6, 1, 1, 2], [1, 2, 4], [0.7, 0.3]),
        ("exactly the threshold", [6, 4, 0, 0], [1, 2, 4], [0.6, 0.3]),
        ("equal classes: the lower one", [5, 5, 5, 5], [1, 2, 4], [0.25, 0.2]),
        ("threshold 0: the largest class", [3, 3, 4, 4], [1, 4], [0.0]),
        ("a single class", [0, 0, 0, 9], [1, 2, 4], [1.0, 0.5]),
        ("no size below C", [9, 0, 1], [3], []),
        ("the paper's thresholds", [0, 3, 0, 9, 0, 1, 0, 0, 2, 5], [1, 2, 10], [0.7, 0.1]),
        ("ten classes, the last pair", [0, 0, 0, 0, 0, 0, 0, 0, 5, 6], [1, 2, 10], [0.7, 0.1]),
        ("four sizes", [4, 4, 4, 1, 0], [1, 2, 3, 5], [0.9, 0.4, 0.3]),
    ]  # fmt: skip
    for name, counts, sizes, thresholds in given:
        u = ref.category(counts, sizes, thresholds)
        yield {
            "name": name,
            "label-counts": list(counts),
            "reference-set": sizes,
            "thresholds": thresholds,
            "category": list(u),
            "slot": ref.codebook(sizes).index(u),
            "length": len(ref.codebook(sizes)),
        }


def distributions() -> Iterator[Case]:
    """From samples of each class to fixed-point shares and the squared norm behind them."""
    given = {
        "exact": [3, 1],
        "ties to the lower class": [1, 1, 1],
        "remainders, largest first": [1, 2, 4],
        "one class": [0, 0, 5],
        "seven equal classes": [2] * 7,
        "large counts": [2**40, 3, 2**39 + 1],
        "few of many": [1] + [0] * 51,
        "squared norm rounds half up": [1448, 1047128],
    }
    for name, counts in given.items():
        yield {
            "name": name,
            "label-counts": counts,
            "shares-and-square": ref.with_square(ref.fixed_point(counts)),
        }


def layouts() -> Iterator[Case]:
    """From the parameters of an epoch to the place of every counter."""
    given = {
        "four classes, 512 bits": ANNOUNCED,
        "the paper's ten classes, 2048 bits": MNIST,
        "three candidates": SEARCHED,
        "52 classes at 8962 clients span two ciphertexts": MNIST
        | {"reference-set": [1, 52], "thresholds": [0.06], "max-clients": 8962},
    }
    for name, announced in given.items():
        yield {
            "name": name,
            "parameters": all_told(announced),
            "fields": ref.layout(announced),
            "digest": ref.layout_digest(announced).hex(),
        }


def packings() -> Iterator[Case]:
    """From counters to plaintexts; the sums of several clients unpack the same way."""
    registry = [0] * 11
    registry[4] = 1
    share = ref.with_square(ref.fixed_point(COUNTS[1]))
    for name, announced, field, values, clients in (
        ("a registry", ANNOUNCED, "registry", registry, 1),
        ("a distribution", ANNOUNCED, "distribution", share, 1),
        ("a sum of nine registries", ANNOUNCED, "registry", [1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 3], 9),
        ("twenty distributions, all slots full", ANNOUNCED, "distribution", [20 * 2**20] * 5, 20),
        ("moments over several ciphertexts", ANNOUNCED, "moments", list(range(55)), 1),
    ):  # fmt: skip
        yield {
            "name": name,
            "parameters": all_told(announced),
            "field": field,
            "values": values,
            "num-clients": clients,
            "plaintexts": [f"{plaintext:x}" for plaintext in ref.pack(announced, field, values)],
        }


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


def sealing(**changes: Any) -> Case:
    """Return one sealed key and all that it is bound to."""
    case: Case = {
        "epoch": EPOCH, "agent": AGENT, "recipient": NODE, "announced": ANNOUNCED, "plaintext":
        P.to_bytes(32, "big"), "ephemeral": secret("ephemeral"),
    } | changes  # fmt: skip
    digest = ref.layout_digest(case["announced"])
    recipient = ref.public_half(case["recipient"])
    info = ref.info(case["epoch"], ref.public_half(case["agent"]), recipient, MODULUS, digest)
    return {
        "epoch": case["epoch"].hex(),
        "agent-public-key": ref.public_half(case["agent"]).hex(),
        "recipient-private-key": case["recipient"].hex(),
        "recipient-public-key": recipient.hex(),
        "modulus": MODULUS.hex(),
        "layout-digest": digest.hex(),
        "info": info.hex(),
        "sealed": ref.seal(case["plaintext"], recipient, info, case["ephemeral"]).hex(),
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


def draws() -> Iterator[Case]:
    """From a seed, an alias and rounds to uniform numbers."""
    for name, seed, alias, first, rounds, tries in (
        ("one round", 7, "3", 1, 1, 4),
        ("two rounds, more than one block of tries", 7, "3", 2, 2, 34),
        ("a name that is not ASCII", 2**40, "Zoë \N{GREEK SMALL LETTER SIGMA}", 1, 1, 3),
        ("a late round", 0, "laptop", 10**6, 1, 2),
        ("the tries of a search, round 0", 7, "3", 0, 1, 6),
    ):
        rows = ref.seeded_draws(seed, alias, first, rounds, tries)
        yield {
            "name": name,
            "seed": seed,
            "alias": alias,
            "first-round": first,
            "num-rounds": rounds,
            "num-tries": tries,
            "numbers": rows,
            "below-one-half": ref.bits(x < 0.5 for row in rows for x in row).hex(),
        }


def probabilities() -> Iterator[Case]:
    """From the overall registry to the probability of each category."""
    for name, overall, participants, tries in (
        ("two categories", [10, 0, 40], 4, 1),
        ("capped at 1", [1, 1, 50], 20, 1),
        ("volunteers for groups", [10, 20, 70], 5, 4),
        ("never more than half of all", [10, 10, 10], 5, 100),
        ("one category", [0, 30, 0], 7, 1),
    ):
        wanted = ref.volunteers(participants, tries, sum(overall))
        yield {
            "name": name,
            "overall-registry": overall,
            "num-participants": participants,
            "volunteer-tries": tries,
            "num-volunteers": wanted,
            "probabilities": ref.probability(overall, wanted),
        }


def sums_of(*groups: Sequence[int]) -> list[list[int]]:
    """Return the sums of the distributions of some of the nine nodes."""
    return [
        [sum(numbers) for numbers in zip(*(fixed(index) for index in group), strict=True)]
        for group in groups
    ]


def fixed(index: int) -> list[int]:
    """Return what one of the nine nodes adds to a sum."""
    return ref.with_square(ref.fixed_point(COUNTS[index]))


def choices() -> Iterator[Case]:
    """From decrypted sums to what the agent answers."""
    tries = sums_of((0, 1, 2, 3), (3, 4, 5, 7), (0, 5, 6, 8), (1, 2, 3, 7))
    groups = sums_of((0, 1), (2, 3), (4, 5), (6, 7), (3, 8))
    for name, sums, size, skew in (
        ("best of four tries", tries, 0, 0.0),
        ("best of four tries, local skew", tries, 0, 0.5),
        ("equal tries: the first", [tries[0], tries[0]], 0, 0.5),
        ("two groups of two", groups, 2, 0.0),
        ("two groups of two, local skew", groups, 2, 0.5),
    ):
        scores = ref.scores(sums, skew)
        best = ref.best_groups(sums, 2, skew) if size else [scores.index(min(scores))]
        yield {
            "name": name,
            "sums": sums,
            "num-participants": 4,
            "group-size": size,
            "local-skew": skew,
            "scores": scores,
            "chosen": best,
        }
    table = [[30, 10, 40], [11, 10, 21], [5, 5, 10], [10, 10, 20]]
    yield {"name": "best candidate", "expectations": table, "candidate": ref.best_candidate(table)}


# --- a node in a session ----------------------------------------------------------------------


def kept(announced: Mapping[str, Any], index: int = 1, **more: Any) -> Case:
    """Return what a node knows before a request."""
    return {
        "parameters": all_told(announced),
        "label-counts": COUNTS[index],
        "alias": str(index),
        "epoch": EPOCH.hex(),
        "sequence": 2,
        "recipient-private-key": NODE.hex(),
        **more,
    }


def registered(announced: Mapping[str, Any], index: int = 1, **more: Any) -> Case:
    """Return what a node knows after it registered."""
    return kept(announced, index, modulus=MODULUS.hex(), p=f"{P:064x}", **more)


def request(stage: str, values: Mapping[str, Any], **head: Any) -> dict[str, Any]:
    """Return a request as it travels."""
    return all_told(ref.header(EPOCH, stage, 3) | head | ref.fields_of(values))


def overall(announced: Mapping[str, Any]) -> list[int]:
    """Return the registries of the nine nodes, added up, candidate by candidate."""
    length = len(ref.codebook(announced["reference-set"]))
    table = []
    for thresholds in ref.candidates(announced):
        slots = [ref.slot(counts, announced["reference-set"], thresholds) for counts in COUNTS]
        table += [slots.count(place) for place in range(length)]
    return table


def encrypted(
    announced: Mapping[str, Any], field: str, values: Sequence[int], r: int = 77
) -> bytes:
    """Return an encrypted vector."""
    return ref.encrypt(N, ref.pack(announced, field, values), 77)


def asked(announced: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the overall registry as nodes are given it."""
    vector = encrypted(announced, "registry", overall(announced))
    return {"overall-registry": vector, "num-registered": len(COUNTS), **more}


def draw_of(**more: Any) -> dict[str, Any]:
    """Return a request to draw for two rounds of three tries."""
    return asked(ANNOUNCED, **{
        "first-round": 1, "num-rounds": 2, "num-tries": 3, "probabilities": b"", "candidate": 0,
    } | more)  # fmt: skip


def sums_request(groups: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return a request to choose from some sums of one round."""
    vectors = [encrypted(ANNOUNCED, "distribution", sums) for sums in sums_of(*groups)]
    return {
        "sums": b"".join(vectors),
        "num-sums": [len(groups)],
        "num-clients": [len(group) for group in groups],
    }


TRIES: Final = ((0, 2, 3, 4), (2, 3, 4, 7), (0, 5, 6, 8))


def sessions() -> Iterator[Case]:
    """From a request to the reply of a node: fields in the clear, or what a vector decrypts to."""
    registration = {
        "modulus": MODULUS,
        "agent-public-key": ref.public_half(AGENT),
        "sealed-key": bytes.fromhex(sealing()["sealed"]),
        "recipients-digest": bytes(32),
        "signature": bytes(96),
    }
    registry = [0] * 11
    registry[ref.slot(COUNTS[1], [1, 2, 4], [0.6, 0.3])] = 1
    yield {
        "name": "a node registers",
        "kept": kept(ANNOUNCED),
        "request": request("register", registration),
        "reply-decrypts-to": {"registry": registry, "distribution": fixed(1)},
    }
    slot = ref.slot(COUNTS[1], [1, 2, 4], [0.6, 0.3])
    p = ref.probability(overall(ANNOUNCED), 4)[slot]
    rows = ref.seeded_draws(7, "1", 1, 2, 3)
    yield {
        "name": "a node draws from its seed",
        "kept": registered(ANNOUNCED),
        "request": request("participate", draw_of()),
        "reply": all_told(
            {"decisions": ref.bits(x < p for row in rows for x in row), "unwilling": b"\x00"}
        ),
    }
    calibrated = [0] * 11
    calibrated[slot] = 2**19
    yield {
        "name": "a node draws with a calibrated probability of one half",
        "kept": registered(CALIBRATED),
        "request": request(
            "participate",
            draw_of() | {"probabilities": encrypted(CALIBRATED, "probabilities", calibrated)},
        ),
        "reply": all_told(
            {"decisions": ref.bits(x < 0.5 for row in rows for x in row), "unwilling": b"\x00"}
        ),
    }
    for index, what in ((0, "its own moments"), (1, "those of its category's name")):
        place = ref.slot(COUNTS[index], [1, 2, 4], [0.6, 0.3])
        few = overall(ANNOUNCED)[place] < 3
        names = ref.codebook([1, 2, 4])[place]
        nominal = ref.with_square(ref.fixed_point([int(label in names) for label in range(4)]))
        own = nominal if few else fixed(index)
        yield {
            "name": f"a node tells {what}",
            "kept": registered(CALIBRATED, index),
            "request": request("moments", asked(CALIBRATED, candidate=0)),
            "reply-decrypts-to": {"moments": [0] * (5 * place) + own + [0] * (5 * (10 - place))},
        }
    expectations: list[int] = []
    for row, thresholds in enumerate(ref.candidates(SEARCHED)):
        place = ref.slot(COUNTS[1], [1, 2, 4], thresholds)
        p = ref.probability(overall(SEARCHED)[row * 11 : row * 11 + 11], 4)[place]
        expectations += [round(p * number) for number in [*fixed(1)[:-1], ref.SCALE]]
    yield {
        "name": "a node tells what it expects of each candidate",
        "kept": registered(SEARCHED),
        "request": request("expect", asked(SEARCHED) | {"num-tries": 0}),
        "reply-decrypts-to": {"expectations": expectations},
    }
    table = [[8 * ref.SCALE, 4 * ref.SCALE, 2 * ref.SCALE, 2 * ref.SCALE, 16 * ref.SCALE]] * 2
    table = [*table, [4 * ref.SCALE] * 4 + [16 * ref.SCALE]]
    flat = [number for row_ in table for number in row_]
    yield {
        "name": "an agent names the best candidate",
        "kept": registered(SEARCHED),
        "request": request(
            "search",
            {"sums": encrypted(SEARCHED, "expectations", flat), "num-tries": 0, "num-clients": 16},
        ),
        "reply": all_told({"candidate": ref.best_candidate(table)}),
    }
    scores = ref.scores(sums_of(*TRIES), 0.5)
    yield {
        "name": "an agent names the best try",
        "kept": registered(ANNOUNCED, **{"num-registered": 9}),
        "request": request("determine", sums_request(TRIES)),
        "reply": all_told(ref.fields_of({"chosen": [scores.index(min(scores))]})),
    }
    pairs = ((0, 2), (3, 4), (5, 6), (7, 8))
    yield {
        "name": "an agent names the best groups",
        "kept": registered(GROUPED, **{"num-registered": 9}),
        "request": request("determine", sums_request(pairs)),
        "reply": all_told(ref.fields_of({"chosen": ref.best_groups(sums_of(*pairs), 2, 0.5)})),
    }
    blocks = ((0, 1, 2, 3), (4, 5, 6, 7, 8))
    registries = []
    for block in blocks:
        slots = [ref.slot(COUNTS[index], [1, 2, 4], [0.6, 0.3]) for index in block]
        registries.append([slots.count(place) for place in range(11)])
    registries[1][0] += 1  # one client registered twice
    yield {
        "name": "an agent finds the block that does not add up",
        "kept": registered(BLOCKS),
        "request": request(
            "check",
            {
                "registries": b"".join(encrypted(BLOCKS, "registry", r) for r in registries),
                "distributions": b"".join(
                    encrypted(BLOCKS, "distribution", sums) for sums in sums_of(*blocks)
                ),
                "num-clients": [4, 5],
            },
        ),
        "reply": all_told({"passed": b"\x80"}),
    }


# --- bad ------------------------------------------------------------------------------------------


def bad_messages() -> Iterator[Case]:
    """Fields that are no message, or one of another time."""
    good = {f"{case['stage']} {case['kind']}": case for case in messages()}

    def spoilt(of: str, name: str, error: str = "MalformedMessageError", **change: Any) -> Case:
        fields = dict(good[of]["fields"])
        for key, value in change.items():
            if value is None:
                del fields[key.replace("_", "-")]
            else:
                fields |= all_told(ref.fields_of({key.replace("_", "-"): value}))
        return {
            "name": f"{of}: {name}",
            "kind": good[of]["kind"],
            "stage": good[of]["stage"],
            "sequence": good[of]["sequence"],
            "fields": fields,
            "error": error,
        }

    yield spoilt("hello request", "another version", "StaleMessageError", version=2)
    yield spoilt("hello request", "no version", version=None)
    yield spoilt("hello request", "an unknown stage", stage="train")
    yield spoilt("hello request", "a short epoch", epoch=EPOCH[:15])
    yield spoilt("hello request", "the epoch as text", epoch=EPOCH.hex())
    yield spoilt("hello request", "sequence 0", sequence=0)
    yield spoilt("hello request", "sequence is a truth value", sequence=True)
    yield spoilt("hello request", "a field too many", label=3)
    yield spoilt("hello reply", "of another epoch", "StaleMessageError", epoch=OTHER_EPOCH)
    yield spoilt("hello reply", "of another request", "StaleMessageError", sequence=9)
    yield spoilt("hello reply", "an empty alias", alias="")
    yield spoilt("hello reply", "an alias of 257 bytes", alias="a" * 257)
    yield spoilt("hello reply", "willing is a number", willing=1)
    yield spoilt("join request", "a threshold too few", thresholds=[0.6])
    yield spoilt("join request", "numbers that are not whole", thresholds=bytes(15))
    yield spoilt("join request", "K below min-cohort", num_participants=2)
    yield spoilt("join request", "coverage is not a number", coverage="much")
    yield spoilt("join request", "floor above 1", floor=1.5)
    yield spoilt("join request", "a group larger than K", group_size=5)
    yield spoilt("join request", "a block of min-cohort", block_size=3)
    yield spoilt("join request", "coverage is whole", coverage=1)
    yield spoilt("join request", "no group-size", group_size=None)
    yield spoilt("join reply", "status 6", status=6)
    yield spoilt("join reply", "a key of 31 bytes", public_key=bytes(31))
    yield spoilt("join reply", "a signature of 64 bytes", signature=bytes(64))
    yield spoilt("keygen request", "a broken key", public_keys=bytes(95))
    yield spoilt("register request", "a digest of 31 bytes", recipients_digest=bytes(31))
    yield spoilt("check request", "no block", num_clients=b"")
    yield spoilt("expect request", "nobody registered", num_registered=0)
    yield spoilt("search request", "a negative number of tries", num_tries=-1)
    yield spoilt("calibrate request", "more clients than registered", num_clients=101)
    yield spoilt("participate request", "round 0", first_round=0)
    yield spoilt("participate request", "too many draws", num_tries=2**20)
    yield spoilt("determine request", "sums of nobody", num_clients=[4, 4, 5, 4, 0])
    yield spoilt("determine request", "a number too few", num_clients=[4, 4, 5, 4])
    yield spoilt("determine reply", "of another stage", stage="participate")


def bad_ciphertexts() -> Iterator[Case]:
    """Bytes that a node does not decrypt."""
    good = ref.encrypt(N, [42], 7)
    for name, vector in (
        ("empty", b""),
        ("a byte too few", good[:-1]),
        ("a byte too many", good + b"\x00"),
        ("zero", bytes(128)),
        ("n", N.to_bytes(128, "big")),
        ("n^2", (N * N).to_bytes(128, "big")),
        ("a multiple of p", (P * 12345).to_bytes(128, "big")),
        ("a good one, then zero", good + bytes(128)),
    ):
        yield {
            "name": name,
            "modulus": MODULUS.hex(),
            "p": f"{P:064x}",
            "vector": vector.hex(),
            "error": "DecryptionError",
        }


def bad_packings() -> Iterator[Case]:
    """Plaintexts that cannot be the sum of so many clients."""
    for name, field, plaintexts, clients in (
        ("a slot above its bound", "registry", [5], 4),
        ("bits behind the last slot", "registry", [1 << 55], 4),
        ("a plaintext too many", "registry", [1, 0], 4),
        ("none", "registry", [], 4),
        ("a share above one each", "distribution", [4 * 2**20 + 1], 4),
    ):
        yield {
            "name": name,
            "parameters": all_told(ANNOUNCED),
            "field": field,
            "num-clients": clients,
            "plaintexts": [f"{plaintext:x}" for plaintext in plaintexts],
            "error": "DecryptionError",
        }


def bad_sealed_keys() -> Iterator[Case]:
    """Sealed keys that do not open, or hold no prime of the modulus."""
    good = sealing()
    flipped = bytearray.fromhex(good["sealed"])
    flipped[40] ^= 1
    for name, case in (
        ("changed on the way", good | {"sealed": flipped.hex()}),
        ("a byte too few", good | {"sealed": good["sealed"][:-2]}),
        ("empty", good | {"sealed": ""}),
        ("for another recipient", good | {"recipient-private-key": STRANGER.hex()}),
        ("of another epoch", good | {"epoch": OTHER_EPOCH.hex()}),
        ("of another agent", good | {"agent-public-key": ref.public_half(STRANGER).hex()}),
        ("of another layout", good | {"layout-digest": bytes(32).hex()}),
        ("no prime of the modulus", sealing(plaintext=prime("r").to_bytes(32, "big"))),
        ("one", sealing(plaintext=(1).to_bytes(32, "big"))),
        ("a prime with a zero in front", sealing(plaintext=P.to_bytes(33, "big"))),
    ):
        yield {"name": name} | case | {"error": "SealError"}


def bad_signatures() -> Iterator[Case]:
    """Signatures that a node with pinned keys does not accept for a statement."""
    statement = ref.join_statement(EPOCH, ANNOUNCED, ref.public_half(NODE))
    good = ref.sign(secret("signing"), statement)
    for name, signature in (
        ("none", bytes(96)),
        ("by a stranger", ref.sign(STRANGER, statement)),
        ("another's key before it", ref.sign(STRANGER, statement)[:32] + good[32:]),
        ("changed", good[:-1] + bytes([good[-1] ^ 1])),
        ("a byte too few", good[:-1]),
        ("of another epoch", ref.sign(secret("signing"), ref.join_statement(
            OTHER_EPOCH, ANNOUNCED, ref.public_half(NODE)))),
        ("of other parameters", ref.sign(secret("signing"), ref.join_statement(
            EPOCH, CALIBRATED, ref.public_half(NODE)))),
    ):  # fmt: skip
        yield {
            "name": name,
            "trusted-keys": [ref.sign(secret("signing"), b"")[:32].hex()],
            "statement": statement.hex(),
            "signature": signature.hex(),
            "error": "UntrustedError",
        }


def bad_sessions() -> Iterator[Case]:
    """Well-formed requests that a node refuses; its state stays as it was."""
    node = registered(ANNOUNCED)
    agent = registered(ANNOUNCED, **{"num-registered": 9})
    wrong = overall(ANNOUNCED)
    wrong[0] += 1
    empty = overall(ANNOUNCED)
    empty[0] += empty[ref.slot(COUNTS[1], [1, 2, 4], [0.6, 0.3])]
    empty[ref.slot(COUNTS[1], [1, 2, 4], [0.6, 0.3])] = 0
    refused, stale = "RefusedError", "StaleMessageError"
    requests: list[tuple[str, Case, dict[str, Any], str]] = [
        ("of another epoch", node, request("participate", draw_of(), epoch=OTHER_EPOCH), stale),
        ("answered before", node, request("participate", draw_of(), sequence=2), stale),
        ("a registry that does not add up", node, request("participate", draw_of() | {
            "overall-registry": encrypted(ANNOUNCED, "registry", wrong)}), refused),
        ("a registry without the node's own", node, request("participate", draw_of() | {
            "overall-registry": encrypted(ANNOUNCED, "registry", empty)}), refused),
        ("a registry of two clients", node, request("participate", draw_of() | {
            "num-registered": 2}), refused),
        ("a registry that does not decrypt", node, request("participate", draw_of() | {
            "overall-registry": bytes(128)}), refused),
        ("more draws than were announced", node, request("participate", draw_of() | {
            "num-tries": 101}), refused),
        ("no such candidate", node, request("participate", draw_of(candidate=1)), refused),
        ("calibration that was not announced", node, request("participate", draw_of() | {
            "probabilities": encrypted(ANNOUNCED, "probabilities", [0] * 11)}), refused),
        ("moments that were not announced", node,
            request("moments", asked(ANNOUNCED, candidate=0)), refused),
        ("a sum over two clients", agent, request("determine", sums_request([(0, 2)])), refused),
        ("a sum over others than it says", agent, request("determine", sums_request([(0, 2, 3)])
            | {"num-clients": [4]}), refused),
        ("more sums than half the clients", agent,
            request("determine", sums_request([(0, 2, 3)] * 5)), refused),
        ("tries of different size", agent,
            request("determine", sums_request([(0, 2, 3), (0, 2, 3, 4)])), refused),
        ("a search where nothing is searched", node,
            request("expect", asked(ANNOUNCED) | {"num-tries": 0}), refused),
        ("blocks that were not announced", node, request("check", {"registries": bytes(128),
            "distributions": bytes(128), "num-clients": [4]}), refused),
    ]  # fmt: skip
    for name, before, sent, error in requests:
        yield {"name": name, "kept": before, "request": sent, "error": error}


GOOD: Final = {
    "categories": categories,
    "distributions": distributions,
    "layouts": layouts,
    "packings": packings,
    "messages": messages,
    "ciphertexts": ciphertexts,
    "sealed_keys": sealed_keys,
    "signatures": signatures,
    "draws": draws,
    "probabilities": probabilities,
    "choices": choices,
    "sessions": sessions,
}
BAD: Final = {
    "bad_messages": bad_messages,
    "bad_ciphertexts": bad_ciphertexts,
    "bad_packings": bad_packings,
    "bad_sealed_keys": bad_sealed_keys,
    "bad_signatures": bad_signatures,
    "bad_sessions": bad_sessions,
}


def files() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file."""
    for name, cases in (GOOD | BAD).items():
        about = " ".join((cases.__doc__ or "").split())
        content = {"protocol-version": ref.VERSION, "about": about, "cases": list(cases())}
        yield f"{name}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all files beside this script."""
    for name, text in files():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
