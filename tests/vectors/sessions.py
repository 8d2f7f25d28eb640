"""Vectors of a node's replies in a session."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from vectors import reference as ref
from vectors.inputs import (
    ANNOUNCED,
    CLEAR,
    COUNTS,
    NODE,
    OTHER_MODULUS,
    OTHER_SIGNER,
    SEARCHED,
    SIGNER,
    STRANGER,
    TRUSTED,
    WEIGHTED,
    WITHOUT_AGENT,
    Case,
    added_by,
    encrypted,
    expected,
    overall,
    paper,
    prime,
    sums_of,
)
from vectors.steps import (
    FRANK,
    OWNER,
    PINNED,
    after_a_draw,
    answers,
    ask,
    choose,
    decisions,
    delivered,
    draw,
    joined,
    registered,
    rounds_to_draw,
    session,
    settled,
)

TRIES: Final = ((0, 2, 3, 4), (2, 3, 4, 7), (0, 5, 6, 8))
P_OWN: Final = ref.own_probabilities(ANNOUNCED, COUNTS[1], overall(ANNOUNCED))[0]
DRAWS: Final = {"decisions": decisions(P_OWN), "unwilling": b"\0"}


def sessions() -> Iterator[Case]:
    """Map requests to a node's replies: in plain numbers, or what they hold or decrypt to."""
    away = OWNER | {"unwilling-rounds": [0]}
    for name, willing, owner in (
        ("a node", True, OWNER),
        ("a node that does not train", False, away),
    ):
        hello = answers(ask("hello", {}), {"alias": "1", "willing": willing})
        yield session(f"{name} says hello", None, hello, owner=owner)
    yield from _joins()
    yield from _keys()
    yield from _settles()
    yield from _draws()
    yield from _chooses()


def _joins() -> Iterator[Case]:
    sizes = {"public-key": 32}

    def join(name: str, status: int, announced: Any = ANNOUNCED, **more: Any) -> Case:
        holds = {"status": {"int": status}} | ({} if status else {"num-classes": {"int": 4}})
        holds |= more.pop("holds", {})
        asked = ask("join", announced, holds=holds, sizes=sizes)
        return session(name, None, asked, **more)

    yield join("a node joins", 0)
    told = {"label-counts": {"bytes": struct.pack(">4q", *COUNTS[1]).hex()}}
    yield join("a node joins an epoch in the clear", 0, CLEAR, holds=told)
    asked = ask("join", WEIGHTED, holds={"num-examples": {"int": sum(COUNTS[1])}})
    yield session("a node tells how many samples it has", None, asked)
    holds = {"status": {"int": 0}, "alias": {"str": "1"}}
    asked = ask("join", ANNOUNCED, holds=holds, sizes={"signature": 96})
    yield session("a node with pinned keys joins", None, asked, owner=PINNED)
    yield join("a node is not willing", 1, owner=OWNER | {"unwilling-rounds": [0]})
    yield join("a node has no data", 2, label_counts=[0, 0, 0, 0])
    for number in (0, 3, 5):
        yield join(f"a node has {number} classes", 3, label_counts=[1] * number)
    odd: Sequence[Any] = (
        [1, -1, 0, 0], [0.5, 0.5, 0, 0], [2**42, 0, 0, 0], [[1, 2, 3, 4]], 7, "none", [True] * 4,
    )  # fmt: skip
    for counts in odd:
        yield join(f"a node has the label counts {counts}", 4, label_counts=counts)
    for name, limit in (
        ("of a smaller cohort", {"min-cohort": 2}),
        ("with shorter keys", {"key-bits": 496}),
        ("with a key size that is not a multiple of 16", {"key-bits": 520}),
        ("with longer keys than its owner wants", {"key-bits": 4112}),
        ("with wider slots than any", {"max-clients": 2**42}),
    ):
        yield join(f"a node refuses an epoch {name}", 5, ANNOUNCED | limit)
    for name, change in (
        ("by an unknown rule", {"rule": "nearest"}),
        ("by a rule for other settings", {"rule-settings": '{"coverage": 1}'}),
        ("without a reference set", {"rule-settings": '{"thresholds": {"1": 0.5}}'}),
        ("without thresholds", {"rule-settings": '{"reference_set": [1, 4]}'}),
        ("with settings that are not JSON", {"rule-settings": "{"}),
        ("with settings that are a list", {"rule-settings": "[1, 2, 4]"}),
        ("with endless settings", {"rule-settings": "[" * 2000}),
        ("with a threshold too few", paper([1, 2, 4], {"1": 0.5})),
        ("with a threshold too many", paper([1, 4], {"1": 0.5, "2": 0.5})),
        ("with a threshold above 1", paper([1, 4], {"1": 1.5})),
        ("with a threshold that is not a number", paper([1, 4], {"1": float("nan")})),
        ("with a threshold as text", paper([1, 4], {"1": "0.5"})),
        ("with thresholds of no kind", paper([1, 4], "usual")),
        ("with an empty reference set", paper([], {})),
        ("with a class set of no class", paper([0, 4], {"0": 0.5})),
        ("with a class set of one and a half", paper([1.5, 4], {"1": 0.5})),
        ("with more classes than any", paper([2**61, 2**62], {str(2**61): 0.5})),
        ("with a longer registry than any", paper([1, 5, 62], {"1": 0.5, "5": 0.1})),
        ("with more candidates than any", paper([*range(1, 11)], "search")),
    ):  # fmt: skip
        yield join(f"a node refuses an epoch {name}", 6, ANNOUNCED | change)
    yield join("a real node refuses an epoch in the clear", 7, CLEAR, owner=FRANK)
    yield join("a real node refuses an epoch of simulated ones", 7, owner=FRANK)
    short = {"alias": "1", "simulated": True}
    yield join("a node wants 2048 bits", 5, ANNOUNCED | {"key-bits": 2032}, owner=short)
    long = OWNER | {"max-key-bits": 10_000}
    yield join("a node refuses longer keys than any", 5, ANNOUNCED | {"key-bits": 8208}, owner=long)
    yield join("a node wants a larger cohort", 5, owner=OWNER | {"min-cohort": 4})


def _keys() -> Iterator[Case]:
    own, others = ref.public_half(NODE), [ref.public_half(bytes([n]) * 32) for n in range(1, 20)]
    for name, keys in (
        ("of its epoch", [own, *others[:2]]),
        ("for as many as may be", [*others, own]),
        ("although a public key cannot be used", [others[0], bytes(32), own]),
    ):
        sizes = {"modulus": 64, "sealed-keys": 80 * len(keys)}
        asked = ask("keygen", {"roster.public-keys": b"".join(keys)}, sizes=sizes)
        yield session(f"an agent makes the key {name}", joined(), asked)
    signers = [SIGNER, OTHER_SIGNER, STRANGER]
    keys = [own, *others[:2]]
    signed = [
        ref.sign(signer, ref.join_statement(bytes(range(16)), ANNOUNCED, key, alias))
        for signer, key, alias in zip(signers, keys, "123", strict=True)
    ]
    asked = {
        "roster.public-keys": b"".join(keys),
        "roster.alias-digests": b"".join(map(ref.alias_digest, "123")),
        "roster.signatures": b"".join(signed),
    }
    sizes = {"modulus": 64, "sealed-keys": 240, "signatures": 288}
    trusted = [*TRUSTED, signed[2][:32].hex()]
    yield session(
        "an agent signs its key for each recipient",
        joined(),
        ask("keygen", asked, sizes=sizes),
        owner=PINNED | {"trusted-keys": trusted},
    )
    told = {"registration": ref.registration(ANNOUNCED, COUNTS[1]), "distribution": added_by(1)}
    register = ask("register", delivered(), decrypts_to=told)
    yield session("a node registers", joined(), register)
    alone = {"registration": told["registration"]}
    asked_alone = ask("register", delivered(announced=WITHOUT_AGENT), decrypts_to=alone)
    yield session("a node registers for no agent", joined(WITHOUT_AGENT), asked_alone)
    other = delivered(modulus=OTHER_MODULUS, plaintext=prime("r").to_bytes(32, "big"))
    again = ask("register", other, 4, decrypts_to=told)
    yield session("a node registers anew under another key", joined(), register, again)
    signed_key = ask("register", delivered(signer=OTHER_SIGNER), decrypts_to=told)
    yield session("a node registers under a signed key", joined(), signed_key, owner=PINNED)
    clear = {field: encrypted(CLEAR, field, values) for field, values in told.items()}
    asked_clear = answers(ask("register", {"num-joined": len(COUNTS)}), clear)
    yield session("a simulated node registers in the clear", joined(CLEAR), asked_clear)
    for mean in (100.0, 55.0, 1000.0, 1.0, 1e300):
        weight = ref.weight(sum(COUNTS[1]), mean)
        scaled = ref.with_square(ref.weighted(COUNTS[1], weight))
        told = {"registration": ref.registration(WEIGHTED, COUNTS[1]), "distribution": scaled}
        values = delivered(announced=WEIGHTED) | {"mean-examples": mean}
        step = ask("register", values, decrypts_to=told)
        yield session(f"a node counts {weight} where the mean is {mean}", joined(WEIGHTED), step)
    told = {"registration": ref.registration(SEARCHED, COUNTS[1]), "distribution": added_by(1)}
    key = delivered(announced=SEARCHED)
    register = ask("register", key, decrypts_to=told)
    yield session("a node registers under each candidate", joined(SEARCHED), register)


def _settles() -> Iterator[Case]:
    at_once = answers(ask("settle", draw()), settled(P_OWN))
    yield session("given thresholds are settled at once", registered(), at_once)
    owner, last = FRANK | {"max-draws-per-day": 5}, {"finding": b""}
    undrawn = answers(ask("settle", draw()), last)
    yield session("a sixth draw in a day of five, on settling", registered(), undrawn, owner=owner)
    told = ref.expectations(SEARCHED, COUNTS[1], overall(SEARCHED))
    first = ask("settle", draw(SEARCHED), decrypts_to={"contribution": told})
    best = ref.best_candidate(expected(SEARCHED), 4)
    found = ref.candidates(SEARCHED)[best]
    p = ref.own_probabilities(SEARCHED, COUNTS[1], overall(SEARCHED))
    second = answers(ask("settle", draw(SEARCHED, 1), 4), settled(p[best], found))
    reply = {"decisions": decisions(p[best]), "unwilling": b"\0"}
    third = answers(ask("participate", draw(SEARCHED, 1), 5), reply)
    yield session("a search finds thresholds", registered(SEARCHED), first, second, third)
    all_draws = draw(SEARCHED) | rounds_to_draw(1, 200)
    early = ask("settle", all_draws, decrypts_to={"contribution": told})
    name = "draws that were asked for too early cost nothing"
    yield session(name, registered(SEARCHED), early, second, third)
    third = third | {"request": ask("participate", draw(SEARCHED, 1), 4)["request"]}
    yield session("a draw may bring the last sum", registered(SEARCHED), first, third)
    without = overall(SEARCHED)
    place = 5 + ref.slots_of(SEARCHED, COUNTS[1])[1]
    without[place], without[5] = 0, without[5] + without[place]
    told = ref.expectations(SEARCHED, COUNTS[1], without)
    asked = ask("settle", draw(SEARCHED, total=without), decrypts_to={"contribution": told})
    yield session("a search without the node's own", registered(SEARCHED), asked)
    five = [5] + [0] * 10
    more = draw(total=five) | {"num-clients": 5}
    half = answers(ask("settle", more), settled(4 / 5))
    yield session("a sum of just above half of the nodes that joined", registered(), half)
    wide = ANNOUNCED | paper([1, 2, 4], "search")
    p = ref.own_probabilities(wide, COUNTS[1], overall(wide))
    reply = {"decisions": decisions(p[ref.default_candidate(wide)]), "unwilling": b"\0"}
    alone = answers(ask("participate", draw(wide)), reply)
    yield session("a search that is not finished", registered(wide), alone)


def _draws() -> Iterator[Case]:
    def drawn(values: Any, p: float, *numbers: int, sequence: int = 3) -> Case:
        reply = {"decisions": decisions(p, *numbers), "unwilling": b"\0"}
        return answers(ask("participate", values, sequence), reply)

    participate = drawn(draw(), P_OWN)
    yield session("a simulated node draws by its keys", registered(), participate)
    later = draw() | rounds_to_draw(1, 34, first=4)
    again = drawn(later, P_OWN, 4, 1, 34, sequence=4)
    yield session("a node draws twice", registered(), participate, again)
    whole = draw() | rounds_to_draw(1, 200)
    spent = drawn(whole, P_OWN, 1, 1, 200)
    yield session("a node spends all its draws", registered(), spent)
    sizes = {"decisions": 1, "unwilling": 1}
    private = ask("participate", draw(), sizes=sizes)
    yield session("a real node draws in private", registered(), private, owner=FRANK)
    yield session(
        "a node draws in an epoch in the clear", registered(CLEAR), drawn(draw(CLEAR), P_OWN)
    )
    without = overall(ANNOUNCED)
    place = ref.slots_of(ANNOUNCED, COUNTS[1])[0]
    without[0], without[place] = without[0] + without[place], 0
    alone = drawn(draw(total=without), 4 / 9)
    yield session("a node without its own in the sum draws like any other", registered(), alone)
    reply = DRAWS | {"unwilling": ref.bits([False, True])}
    step, owner = answers(ask("participate", draw()), reply), OWNER | {"unwilling-rounds": [2]}
    name = "a node draws its yes in a round in which it will not train"
    yield session(name, registered(), step, owner=owner)


def _chooses() -> Iterator[Case]:
    def best_of(tries: Any) -> int:
        scores = ref.scores(sums_of(*tries))
        return scores.index(min(scores))

    def chooses(name: str, asked: Any, best: list[int]) -> Case:
        return after_a_draw(name, answers(ask("determine", asked, 4), {"chosen": best}))

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
