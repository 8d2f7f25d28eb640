"""Vectors of sessions: a node, its memory, requests in order, and its replies or refusals.

All keys are throw-away keys.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import gmpy2
from vectors import reference as ref
from vectors.inputs import ANNOUNCED, EPOCH, Case, all_typed

OTHER_EPOCH: Final = bytes(range(1, 17))
SEARCH: Final = {"reference_set": [1, 4], "thresholds": "search"}
SEARCHED: Final = ANNOUNCED | {"rule-settings": json.dumps(SEARCH)}
CLEAR: Final = ANNOUNCED | {"vault": "plain"}
WITHOUT_AGENT: Final = ANNOUNCED | {"has-agent": False}
WEIGHTED: Final = ANNOUNCED | {"weighted": True}
COUNTS: Final = [
    [50, 3, 2, 1], [20, 30, 0, 5], [10, 10, 10, 10], [0, 0, 40, 2], [30, 31, 1, 0],
    [7, 0, 0, 0], [25, 20, 2, 1], [1, 2, 3, 40], [16, 15, 1, 1],
]  # fmt: skip
"""Samples per class of the nine example nodes."""


def secret(name: str) -> bytes:
    """Return 32 bytes that stand for a private key."""
    return hashlib.sha256(f"dubhe test vector: {name}".encode()).digest()


def prime(name: str) -> int:
    """Return a prime of 256 bits, the two highest ones set."""
    return int(gmpy2.next_prime(int.from_bytes(secret(name), "big") | 3 << 254))


P, OTHER_P = prime("p"), prime("r")
N, OTHER_N = P * prime("q"), OTHER_P * prime("s")
MODULUS, OTHER_MODULUS = (n.to_bytes(64, "big") for n in (N, OTHER_N))
AGENT, NODE, STRANGER = secret("agent"), secret("node"), secret("stranger")
SIGNER, OTHER_SIGNER = secret("signing"), secret("signing too")
TRUSTED: Final = [ref.sign(key, b"")[:32].hex() for key in (SIGNER, OTHER_SIGNER)]


def added_by(index: int) -> list[int]:
    """Return the contribution of one of the nine nodes to a sum."""
    return ref.with_square(ref.fixed_point(COUNTS[index]))


def sums_of(*tries: Sequence[int]) -> list[list[int]]:
    """Return the sums of the distributions of some of the nine nodes."""
    return [ref.added(map(added_by, each)) for each in tries]


def overall(announced: Mapping[str, Any]) -> list[int]:
    """Return the sum of the nine nodes' registries, candidate by candidate."""
    return ref.overall_registry(announced, COUNTS)


def expected(announced: Mapping[str, Any]) -> list[int]:
    """Return the sum of the nine nodes' expected data, candidate by candidate."""
    return ref.added(ref.expectations(announced, row, overall(announced)) for row in COUNTS)


def encrypted(announced: Mapping[str, Any], field: str, values: Sequence[int]) -> bytes:
    """Return a vector as it travels over the wire."""
    if announced["vault"] == "plain":
        return ref.in_the_clear(values)
    return ref.encrypt(N, ref.pack(announced, field, values), 77)


OWNER: Final = {"alias": "1", "simulated": True, "min-key-bits": 512}
FRANK: Final = {"alias": "1", "min-key-bits": 512}
PINNED: Final = OWNER | {"signing-key": SIGNER.hex(), "trusted-keys": TRUSTED}
OWN: Final = ref.public_half(NODE)
OTHERS: Final = [ref.public_half(bytes([number]) * 32) for number in range(1, 21)]
"""The nodes' public keys."""


def session(name: str, kept: Case | None, *steps: Case, owner: Mapping[str, Any] = OWNER) -> Case:
    """Return a session of the node of row 1: its owner's settings, its memory, and the requests."""
    case = {"name": name, "owner": dict(owner), "label-counts": COUNTS[1]}
    return case | ({} if kept is None else {"kept": kept}) | {"steps": list(steps)}


def joined(announced: ref.Announced = ANNOUNCED, **more: Any) -> Case:
    """Return the memory of a node that joined."""
    return {
        "parameters": all_typed(announced), "label-counts": COUNTS[1], "epoch": EPOCH.hex(),
        "sequence": 2, "delivery-private-key": NODE.hex(), "registered": False,
    } | more  # fmt: skip


def registered(announced: ref.Announced = ANNOUNCED, num_joined: int = len(COUNTS)) -> Case:
    """Return the memory of a node that registered."""
    key = {"modulus": MODULUS.hex(), "p": f"{P:064x}"} if announced["vault"] == "paillier" else {}
    return joined(announced, registered=True, **{"num-joined": num_joined}, **key)


def ask(
    stage: str, values: Mapping[str, Any], sequence: int = 3, /, epoch: bytes = EPOCH, **reply: Any
) -> Case:
    """Return a request, and what its reply `decrypts_to` or has as `sizes`."""
    step = {"request": all_typed(ref.header(epoch, stage, sequence) | ref.fields_of(values))}
    return step | {f"reply-{name.replace('_', '-')}": what for name, what in reply.items()}


def answers(step: Case, reply: Mapping[str, Any]) -> Case:
    """Return a request with its reply."""
    return step | {"reply": all_typed(ref.fields_of(reply))}


def refused(step: Case, error: str = "RefusedError") -> Case:
    """Return a request with its error."""
    return step | {"error": error}


def rounds_to_draw(rounds: int, tries: int, first: int = 1) -> dict[str, Any]:
    """Return a request to draw for some rounds."""
    return {"first-round": first, "num-rounds": rounds, "num-tries": tries}


DRAW: Final = rounds_to_draw(2, 3)


def sum_request(
    announced: ref.Announced = ANNOUNCED, which: int = 0, **changes: Any
) -> dict[str, Any]:
    """Return the sum over the nine nodes under a number, or a changed one, and the first draws."""
    field, total = "registration", overall(announced)
    if which and len(ref.candidates(announced)) > 1:
        field, total = "settlement", expected(announced)
    vector = encrypted(announced, field, changes.pop("total", total))
    told = {"sums": vector, "num-clients": len(COUNTS), "number": which} | changes
    request = {f"rule-sum.{name}": what for name, what in told.items()}
    return request | {f"draws.{name}": what for name, what in DRAW.items()}


def decisions(p: float, first: int = 1, rounds: int = 2, tries: int = 3) -> bytes:
    """Return the draws of the node of row 1."""
    rows = ref.seeded_draws(7, "1", first, rounds, tries)
    return ref.bits(x < p for row in rows for x in row)


def settled(p: float, finding: Any = b"") -> dict[str, Any]:
    """Return the reply of the node of row 1 once the rule is settled, with its draws."""
    return {"finding": finding, "draws.decisions": decisions(p), "draws.unwilling": b"\0"}


def draw(sequence: int, rounds: int, tries: int, first: int = 1) -> Case:
    """Return a request to draw under given thresholds, with the reply of the node of row 1."""
    reply = {"decisions": decisions(P_OWN, first, rounds, tries), "unwilling": b"\0"}
    return answers(ask("participate", rounds_to_draw(rounds, tries, first), sequence), reply)


def searched() -> tuple[Case, Case]:
    """Return requests with the two sums of a search, of which the second one settles the rule."""
    own, best = COUNTS[1], ref.best_candidate(expected(SEARCHED), 4)
    told = ref.expectations(SEARCHED, own, overall(SEARCHED))
    p = ref.own_probabilities(SEARCHED, own, overall(SEARCHED))[best]
    first = ask("settle", sum_request(SEARCHED), decrypts_to={"contribution": told})
    second = ask("settle", sum_request(SEARCHED, 1), 4)
    return first, answers(second, settled(p, ref.candidates(SEARCHED)[best]))


def settles() -> Case:
    """Return the request with the only sum of given thresholds, and the node's reply."""
    return answers(ask("settle", sum_request()), settled(P_OWN))


def after_settling(name: str, *steps: Case) -> Case:
    """Return a session of a node that has settled the rule, and so knows the only sum."""
    return session(name, registered(), settles(), *steps)


def refused_session(
    name: str, kept: Case | None, stage: str, values: Any, error: str = "RefusedError", **more: Any
) -> Case:
    """Return a session with a single request, which is refused."""
    return session(name, kept, refused(ask(stage, values), error), **more)


def choose(announced: ref.Announced, *rounds: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return a request to choose among sums over some of the nine nodes, for each round."""
    sums = sums_of(*(clients for tries in rounds for clients in tries))
    vectors = [encrypted(announced, "distribution", each) for each in sums]
    return {"sums": b"".join(vectors), "num-tries": list(map(len, rounds))}


def appoint(
    keys: Sequence[bytes], aliases: str = "", openers: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return a request to be the agent, with the digests of aliases of one letter, if any."""
    own = [keys.index(OWN) if OWN in keys else 0]
    values = {"roster.public-keys": b"".join(keys), "openers": openers or own}
    digests = b"".join(map(ref.alias_digest, aliases))
    return values | ({"roster.alias-digests": digests} if aliases else {})


def signed_join(
    key: bytes, signer: bytes, alias: str, announced: ref.Announced = ANNOUNCED
) -> bytes:
    """Return the signature of a node that joins."""
    return ref.sign(signer, ref.join_statement(EPOCH, announced, key, alias))


CLEAR_KEY: Final = {
    "num-joined": len(COUNTS), "opener-keys": b"", "roster": b"", "public": b"", "sealed-key": b""
}  # fmt: skip
"""A request to register in the clear."""
TOLD: Final[dict[str, Any]] = {
    "num-joined": len(COUNTS), "opener-keys": ref.public_half(AGENT), "roster": bytes(32),
    "public": MODULUS,
}  # fmt: skip
"""What the agent tells all nodes when they register."""


def delivered(
    announced: ref.Announced = ANNOUNCED,
    prime: int = P,
    recipient: bytes = OWN,
    **changes: Any,
) -> dict[str, Any]:
    """Return a request to register under the agent's key; `changes` say what else it tells."""
    told = TOLD | {name.replace("_", "-"): what for name, what in changes.items()}
    info = ref.appointment(EPOCH, announced, told, 0, recipient)
    sealed = ref.seal(prime.to_bytes(32, "big"), recipient, info, secret("ephemeral"))
    return told | {"sealed-key": sealed}


def signed_key(
    signer: bytes, *, public: bytes = MODULUS, place: int = 0, recipient: bytes = OWN
) -> dict[str, Any]:
    """Return a request to register under the agent's key, with a signature on a statement."""
    statement = ref.appointment(EPOCH, ANNOUNCED, TOLD | {"public": public}, place, recipient)
    return delivered() | {"signatures": ref.sign(signer, statement)}


OTHER_KEY: Final = delivered(prime=OTHER_P, public=OTHER_MODULUS)


# --- what a node answers --------------------------------------------------------------------------

TRIES: Final = ((0, 2, 3, 4), (2, 3, 4, 7), (0, 5, 6, 8))
P_OWN: Final = ref.own_probabilities(ANNOUNCED, COUNTS[1], overall(ANNOUNCED))[0]


def sessions() -> Iterator[Case]:
    """Map requests to a node's replies: in plain numbers, or what they hold or decrypt to."""
    away = OWNER | {"unwilling-rounds": [0]}
    for name, willing, owner in (
        ("a node", True, OWNER),
        ("a node that does not train", False, away),
    ):
        hello = answers(ask("hello", {}), {"alias": "1", "willing": willing})
        yield session(f"{name} says hello", None, hello, owner=owner)
    yield from _keys()
    yield from _settles()
    yield from _chooses()


def _keys() -> Iterator[Case]:
    for name, keys in (
        ("of its epoch", [OWN, *OTHERS[:2]]),
        ("for as many as may be", [*OTHERS[:19], OWN]),
        ("although a public key cannot be used", [OTHERS[0], bytes(32), OWN]),
    ):
        sizes = {"public": 64, "sealed-keys": 80 * len(keys)}
        step = ask("appoint", appoint(keys), sizes=sizes)
        yield session(f"an agent makes the key {name}", joined(), step)
    keys, signers = [OWN, *OTHERS[:2]], [SIGNER, OTHER_SIGNER, STRANGER]
    signed = list(map(signed_join, keys, signers, "123"))
    asked = appoint(keys, "123") | {"roster.signatures": b"".join(signed)}
    sizes = {"public": 64, "sealed-keys": 240, "signatures": 288}
    trusted = [*TRUSTED, signed[2][:32].hex()]
    step, owner = ask("appoint", asked, sizes=sizes), PINNED | {"trusted-keys": trusted}
    yield session("an agent signs its key for each recipient", joined(), step, owner=owner)
    told = {"registration": ref.registration(ANNOUNCED, COUNTS[1]), "distribution": added_by(1)}
    register = ask("register", delivered(), decrypts_to=told)
    yield session("a node registers", joined(), register)
    alone = {"registration": told["registration"]}
    asked_alone = ask("register", delivered(WITHOUT_AGENT), decrypts_to=alone)
    yield session("a node registers for no agent", joined(WITHOUT_AGENT), asked_alone)
    asked_signed = ask("register", signed_key(OTHER_SIGNER), decrypts_to=told)
    yield session("a node registers under a signed key", joined(), asked_signed, owner=PINNED)
    clear = {field: encrypted(CLEAR, field, values) for field, values in told.items()}
    asked_clear = answers(ask("register", CLEAR_KEY), clear)
    yield session("a simulated node registers in the clear", joined(CLEAR), asked_clear)
    for mean in (100.0, 55.0, 1000.0, 1.0, 1e300):
        weight = ref.weight(sum(COUNTS[1]), mean)
        scaled = ref.with_square(ref.weighted(COUNTS[1], weight))
        told = {"registration": ref.registration(WEIGHTED, COUNTS[1]), "distribution": scaled}
        step = ask("register", delivered(WEIGHTED, mean_examples=mean), decrypts_to=told)
        yield session(f"a node counts {weight} where the mean is {mean}", joined(WEIGHTED), step)
    told = {"registration": ref.registration(SEARCHED, COUNTS[1]), "distribution": added_by(1)}
    key = delivered(SEARCHED)
    register = ask("register", key, decrypts_to=told)
    yield session("a node registers under each candidate", joined(SEARCHED), register)


def _settles() -> Iterator[Case]:
    yield after_settling("given thresholds are settled at once")
    asked_clear = answers(ask("settle", sum_request(CLEAR)), settled(P_OWN))
    yield session("a rule is settled in an epoch in the clear", registered(CLEAR), asked_clear)
    owner = FRANK | {"max-draws-per-day": 5}
    undrawn = answers(ask("settle", sum_request()), {"finding": b""})
    yield session("a sixth draw in a day of five, on settling", registered(), undrawn, owner=owner)
    without = overall(ANNOUNCED)
    place = ref.slots_of(ANNOUNCED, COUNTS[1])[0]
    without[0], without[place] = without[0] + without[place], 0
    alone = answers(ask("settle", sum_request(total=without)), settled(4 / 9))
    yield session("a node without its own in the sum draws like any other", registered(), alone)
    five = sum_request(total=[5] + [0] * 10) | {"rule-sum.num-clients": 5}
    half = answers(ask("settle", five), settled(4 / 5))
    yield session("a sum of just above half of the nodes that joined", registered(), half)

    first, second = searched()
    drawn = {name: second["reply"][f"draws.{name}"] for name in ("decisions", "unwilling")}
    third = ask("participate", DRAW, 5) | {"reply": drawn}
    yield session("a search finds thresholds", registered(SEARCHED), first, second, third)
    without = overall(SEARCHED)
    place = 5 + ref.slots_of(SEARCHED, COUNTS[1])[1]
    without[place], without[5] = 0, without[5] + without[place]
    told = ref.expectations(SEARCHED, COUNTS[1], without)
    asked = sum_request(SEARCHED, total=without)
    step = ask("settle", asked, decrypts_to={"contribution": told})
    yield session("a search without the node's own", registered(SEARCHED), step)

    later, more = draw(4, 1, 34, first=4), draw(5, 1, 160)
    yield after_settling("a node draws again and again", later, more)
    sizes = {"draws.decisions": 1, "draws.unwilling": 1}
    private = ask("settle", sum_request(), sizes=sizes)
    yield session("a real node draws in private", registered(), private, owner=FRANK)
    first_round = bytes([decisions(P_OWN)[0] & 0b1110_0000])  # three tries in each round
    drawn = {"draws.decisions": first_round, "draws.unwilling": ref.bits([False, True])}
    step = answers(ask("settle", sum_request()), {"finding": b""} | drawn)
    name = "a node says no to each try of a round in which it will not train"
    yield session(name, registered(), step, owner=OWNER | {"unwilling-rounds": [2]})


def _chooses() -> Iterator[Case]:
    def best_of(tries: Any) -> int:
        scores = ref.scores(sums_of(*tries))
        return scores.index(min(scores))

    def chooses(name: str, asked: Any, best: list[int]) -> Case:
        return after_settling(name, answers(ask("determine", asked, 4), {"chosen": best}))

    yield chooses("an agent names the best try", choose(ANNOUNCED, TRIES), [best_of(TRIES)])
    rounds = (TRIES[:1], TRIES[:0:-1])
    best = [0, best_of(rounds[1])]
    yield chooses("an agent names the best of each round", choose(ANNOUNCED, *rounds), best)
    sums = choose(ANNOUNCED, TRIES)
    wrong = encrypted(ANNOUNCED, "distribution", [2**20] * 3 + [2**20 - 1, 2**19])
    two = choose(ANNOUNCED, [(0, 2)])["sums"]
    size = len(wrong)
    for place, vector, name in (
        (0, wrong, "sum 0 that does not add up"),
        (1, wrong, "sum 1 that does not add up"),
        (1, bytes(size), "a sum that does not decrypt"),
        (1, two, "a sum of two clients"),
    ):
        spoilt = sums["sums"][: place * size] + vector + sums["sums"][(place + 1) * size :]
        others = [index for index in range(3) if index != place]
        best = [others[best_of([TRIES[index] for index in others])]]
        yield chooses(f"an agent passes over {name}", sums | {"sums": spoilt}, best)


# --- what a node refuses --------------------------------------------------------------------------

STALE: Final = "StaleMessageError"
DAY_IS_SPENT: Final = "DailyLimitError"
UNTRUSTED: Final = "UntrustedError"


def bad_sessions() -> Iterator[Case]:
    """Yield requests that a node refuses; it keeps its memory, but counts what it decrypted."""
    yield from _stale()
    yield from _bad_appoint()
    yield from _bad_register()
    yield from _bad_sums()
    yield from _bad_search()
    yield from _bad_draws()
    yield from _bad_determine()


def _stale() -> Iterator[Case]:
    name = "of an epoch of which the node never heard"
    yield refused_session(name, None, "settle", sum_request(), STALE)
    other = ask("settle", sum_request(), epoch=OTHER_EPOCH)
    yield session("of another epoch", registered(), refused(other, STALE))
    for sequence in (1, 2):
        early = refused(ask("settle", sum_request(), sequence), STALE)
        yield session(f"number {sequence}, answered before", registered(), early)
    yield after_settling("the same request again", refused(settles(), STALE))
    first = ask("join", ANNOUNCED)
    second = ask("join", ANNOUNCED, 4, epoch=OTHER_EPOCH)
    again = refused(ask("join", ANNOUNCED, 5), STALE)
    yield session("an epoch joined twice", None, first, again)
    yield session("an epoch before the last", None, first, second, again)
    away = ask("settle", sum_request(), 4)
    unwilling = {"alias": "1", "unwilling-rounds": [0]}
    yield session("a node that did not join", None, first, refused(away), owner=unwilling)
    twice = first, refused(ask("join", ANNOUNCED, 4, epoch=OTHER_EPOCH), DAY_IS_SPENT)
    owner = FRANK | {"max-epochs-per-day": 1}
    yield session("a second epoch in a day of one", None, *twice, owner=owner)


def _bad_appoint() -> Iterator[Case]:
    pair, three = [OWN, OTHERS[0]], [OWN, *OTHERS[:2]]
    for name, announced, keys in (
        ("for others only", ANNOUNCED, OTHERS[:3]),
        ("for nobody", ANNOUNCED, []),
        ("for one of them twice", ANNOUNCED, [*three, OTHERS[0]]),
        ("for the agent twice", ANNOUNCED, [OWN, *three]),
        ("for fewer than a cohort", ANNOUNCED, pair),
        ("for more than there may be", ANNOUNCED, [OWN, *OTHERS]),
        ("for two in the clear", CLEAR, pair),
    ):
        yield refused_session(f"a key {name}", joined(announced), "appoint", appoint(keys))
    for name, openers in (
        ("by another node", [1]),
        ("by two nodes", [0, 1]),
        ("by a node that did not join", [3]),
        ("by a node before the first", [-3]),
    ):
        values = appoint(three, openers=openers)
        yield refused_session(f"a key {name}", joined(), "appoint", values)
    asked, late = ask("appoint", appoint(three)), ask("appoint", appoint(three), 4)
    yield session("a second key", joined(), asked, refused(late))
    yield refused_session("a key after registering", registered(), "appoint", appoint(three))
    small = ANNOUNCED | {"min-cohort": 2}
    signed = partial(signed_join, key=OTHERS[0], signer=OTHER_SIGNER, alias="2", announced=small)
    mine, good = signed_join(OWN, SIGNER, "1", announced=small), signed()
    for name, signatures in (
        ("without signatures", None),
        ("with an empty list of signatures", []),
        ("with a signature too few", [mine]),
        ("with a signature too many", [mine, good, good]),
        ("with zeros for a signature", [mine, bytes(96)]),
        ("with two signatures that changed places", [good, mine]),
        ("signed by a stranger", [mine, signed(signer=STRANGER)]),
        ("signed twice by one node", [mine, signed(signer=SIGNER)]),
        ("signed for another key", [mine, signed(key=OTHERS[1])]),
        ("signed under other parameters", [mine, signed(announced=ANNOUNCED)]),
    ):
        values = appoint(pair, "12")
        if signatures is not None:
            values["roster.signatures"] = b"".join(signatures)
        name = f"recipients {name}"  # noqa: PLW2901
        yield refused_session(name, joined(small), "appoint", values, UNTRUSTED, owner=PINNED)


def _bad_register() -> Iterator[Case]:
    malformed = "MalformedMessageError"
    flipped = bytearray(delivered()["sealed-key"])
    flipped[40] ^= 1
    for name, values, error in (
        ("that is missing", CLEAR_KEY, "RefusedError"),
        ("of an even modulus", delivered() | {"public": MODULUS[:-1] + b"\0"}, malformed),
        ("of a longer modulus", delivered() | {"public": MODULUS + b"\1"}, malformed),
        ("of a shorter modulus", delivered() | {"public": b"\0" + MODULUS[1:]}, malformed),
        ("of another modulus", delivered() | {"public": OTHER_MODULUS}, "RefusedError"),
        ("by another agent", delivered() | {"opener-keys": OTHERS[0]}, "RefusedError"),
        ("by two agents", delivered() | {"opener-keys": TOLD["opener-keys"] + OWN}, "RefusedError"),
        ("for another node", delivered(recipient=OTHERS[0]), "RefusedError"),
        ("for another roster", delivered() | {"roster": b"\1" * 32}, "RefusedError"),
        ("for another number of nodes", delivered() | {"num-joined": 999}, "RefusedError"),
        ("under other parameters", delivered(SEARCHED), "RefusedError"),
        ("that holds no prime", delivered(prime=int.from_bytes(b"\1" * 32, "big")), "RefusedError"),
        ("that was changed", delivered() | {"sealed-key": bytes(flipped)}, "RefusedError"),
        ("that is empty", delivered() | {"sealed-key": b""}, "RefusedError"),
    ):
        yield refused_session(f"a key {name}", joined(), "register", values, error)
    key = delivered(CLEAR)
    yield refused_session("a key in an epoch in the clear", joined(CLEAR), "register", key)

    first, again = ask("register", delivered()), ask("register", delivered(), 4)
    yield session("a key that is there already", joined(), first, refused(again))
    late = refused(ask("register", OTHER_KEY, 4))
    yield session("another key in the same epoch", joined(), first, late)
    key = delivered(WEIGHTED)
    yield refused_session("a weight without a mean", joined(WEIGHTED), "register", key)
    mean = delivered() | {"mean-examples": 100.0}
    yield refused_session("a mean where all count the same", joined(), "register", mean)
    clear = ask("register", CLEAR_KEY), ask("register", CLEAR_KEY, 4)
    yield session("twice in the clear", joined(CLEAR), clear[0], refused(clear[1]))

    for name, values in (
        ("without a signature", delivered()),
        ("with zeros for a signature", delivered() | {"signatures": bytes(96)}),
        ("signed by a stranger", signed_key(STRANGER)),
        ("signed for another node", signed_key(SIGNER, recipient=bytes(32))),
        ("signed for another key", signed_key(SIGNER, public=OTHER_MODULUS)),
        ("signed at another place", signed_key(SIGNER, place=1)),
    ):
        yield refused_session(
            f"a key {name}", joined(), "register", values, UNTRUSTED, owner=PINNED
        )


def _bad_sums() -> Iterator[Case]:
    for stage, values in (
        ("settle", sum_request()),
        ("participate", DRAW),
        ("determine", choose(ANNOUNCED, ((0, 2, 3),))),
    ):
        yield refused_session(f"{stage} before register", joined(), stage, values)
    first, *others = overall(ANNOUNCED)
    foreign = ref.encrypt(OTHER_N, ref.pack(ANNOUNCED, "registration", [first, *others]), 77)
    vector = sum_request()["rule-sum.sums"]
    half = "of fewer than half of the nodes that joined"
    for name, changes in (
        ("of two clients", {"num-clients": 2}),
        (half, {"num-clients": 4, "total": [4] + [0] * 10}),
        ("of more clients than there may be", {"num-clients": 21}),
        ("of more clients than joined", {"num-clients": 11}),
        ("of fewer clients than it says", {"num-clients": 10}),
        ("of more clients than it says", {"num-clients": 8}),
        ("with one more", {"total": [first + 1, *others]}),
        ("with a slot above the clients", {"total": [first + 10, *others]}),
        ("with a slot above all clients", {"total": [31, *others]}),
        ("of nothing", {"total": [0] * 11}),
        ("that is zero", {"sums": bytes(128)}),
        ("that is empty", {"sums": b""}),
        ("of a ciphertext too many", {"sums": vector * 2}),
        ("under another key", {"sums": foreign}),
        ("that is number 1, before number 0", {"number": 1}),
    ):
        one_lost = registered(num_joined=len(COUNTS) + 1)
        yield refused_session(f"a sum {name}", one_lost, "settle", sum_request(**changes))
    negative = b"\x80" + sum_request(CLEAR)["rule-sum.sums"][1:]
    for name, sums in (
        ("that is not in the clear", vector),
        ("with a number below zero", negative),
    ):
        values = sum_request(CLEAR, sums=sums)
        yield refused_session(f"a sum {name}", registered(CLEAR), "settle", values)
    for number in (0, 1):
        step = refused(ask("settle", sum_request(ANNOUNCED, number), 4))
        yield after_settling(f"number {number} after number 0 has settled the rule", step)


def _bad_search() -> Iterator[Case]:
    (first, second), good = searched(), expected(SEARCHED)
    for name, changes in (
        ("of two clients", {"num-clients": 2}),
        ("of more clients than registered", {"num-clients": 10}),
        ("that do not add up", {"total": [good[0] + 100, *good[1:]]}),
        ("that expect nobody", {"total": [0] * 15}),
        ("that expect nobody under one candidate", {"total": [*good[:10], *[0] * 5]}),
        ("above all clients", {"total": [10 * ref.SCALE] * 15}),
        ("that do not decrypt", {"sums": bytes(128)}),
        ("out of turn", {"number": 2}),
    ):
        step = refused(ask("settle", sum_request(SEARCHED, 1, **changes), 4))
        yield session(f"expectations {name}", registered(SEARCHED), first, step)
    again = refused(ask("settle", sum_request(SEARCHED), 4))
    yield session("the first sum of a search again", registered(SEARCHED), first, again)
    early = refused(ask("participate", DRAW, 4))
    yield session("a draw before the rule is settled", registered(SEARCHED), first, early)
    for number, total in ((1, good), (2, overall(SEARCHED))):
        late = refused(ask("settle", sum_request(SEARCHED, number, total=total), 5))
        name = f"number {number} after number 1 has settled the rule"
        yield session(name, registered(SEARCHED), first, second, late)
    wrong = refused(ask("settle", sum_request(SEARCHED, total=[0] * 15)))
    right = refused(ask("settle", sum_request(SEARCHED), 4))
    yield session("the right sum after a refused sum", registered(SEARCHED), wrong, right)
    wrong = refused(ask("settle", sum_request(SEARCHED, 1, total=[0] * 15), 4))
    for name, stage, values in (
        ("a draw", "participate", DRAW),
        ("a choice", "determine", choose(SEARCHED, [(0, 2, 3, 4)])),
    ):
        step = refused(ask(stage, values, 5))
        yield session(f"{name} after a refused sum", registered(SEARCHED), first, wrong, step)


def _bad_draws() -> Iterator[Case]:
    yield refused_session("a draw before any sum", registered(), "participate", DRAW)
    owner = FRANK | {"max-draws-per-day": 6}
    more = refused(ask("participate", rounds_to_draw(1, 1), 4), DAY_IS_SPENT)
    first = ask("settle", sum_request())
    yield session("a seventh draw in a day of six", registered(), first, more, owner=owner)


def _bad_determine() -> Iterator[Case]:
    four = (0, 2, 3, 4)
    some = choose(ANNOUNCED, [four])
    yield refused_session("a choice before any sum", registered(), "determine", some)
    size = len(some["sums"])
    invalid = _one_invalid_sum(four, [1, 0, 0, 0, 0])
    second = {"sums": some["sums"] + invalid["sums"], "num-tries": [1, 1]}
    for name, values in (
        ("of two clients", choose(ANNOUNCED, [(0, 2)])),
        ("of one client", choose(ANNOUNCED, [(0,)])),
        ("of three clients", choose(ANNOUNCED, [four[:3]])),
        ("of five clients", choose(ANNOUNCED, [(*four, 5)])),
        ("that is missing", some | {"sums": b""}),
        ("that is cut", some | {"sums": some["sums"][:-1]}),
        ("that is one too many", some | {"sums": some["sums"] * 2}),
        ("that is zero", some | {"sums": bytes(size)}),
        ("with a share too few", _one_invalid_sum(four, [-1, 0, 0, 0, 0])),
        ("with a share too many", _one_invalid_sum(four, [0, 1, 0, 0, 0])),
        ("with the square in place of a share", _one_invalid_sum(four, [-1, 0, 0, 0, 1])),
        ("with a share above all clients", _one_invalid_sum(four, [4 * ref.SCALE + 1, 0, 0, 0, 0])),
        ("in a second round that has no other", some | second),
        ("of which none is of four clients", choose(ANNOUNCED, [four[:3], (*four, 5)])),
        ("that are five of nine clients", choose(ANNOUNCED, [four] * 5)),
        ("that are five in five rounds", choose(ANNOUNCED, *[[four]] * 5)),
    ):
        yield after_settling(f"sums {name}", refused(ask("determine", values, 4)))

    parts = []
    for sequence, (number, fits) in enumerate(((3, True), (2, False), (1, True), (1, False)), 4):
        step = ask("determine", choose(ANNOUNCED, [four] * number), sequence)
        parts.append(answers(step, {"chosen": [0]}) if fits else refused(step))
    yield after_settling("five sums of nine clients in portions", *parts)
    bad = [refused(ask("determine", invalid, sequence)) for sequence in range(4, 8)]
    step = refused(ask("determine", some, 8))
    yield after_settling("a sum after four that were refused", *bad, step)
    for name, participants in (("of all but two clients", 7), ("of more clients than fit", 2**62)):
        announced = ANNOUNCED | {"num-participants": participants}
        step = refused(ask("determine", choose(announced, [range(1, 8)]), 4))
        first = ask("settle", sum_request(announced))
        yield session(f"a sum {name}", registered(announced), first, step)


def _one_invalid_sum(clients: Sequence[int], change: Sequence[int]) -> dict[str, Any]:
    """Return a request with one invalid sum."""
    sums = ref.added([change, *map(added_by, clients)])
    vector = encrypted(ANNOUNCED, "distribution", sums)
    return {"sums": vector, "num-tries": [1]}
