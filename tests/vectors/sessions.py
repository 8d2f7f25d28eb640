"""Vectors of a node in a session: what it answers."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from vectors import reference as ref
from vectors.inputs import (
    ANNOUNCED,
    CLEAR,
    COUNTS,
    GROUPED,
    NODE,
    OTHER_MODULUS,
    OTHER_SIGNER,
    PRICES,
    SEARCHED,
    SIGNER,
    STRANGER,
    TARGETED,
    TRUSTED,
    WEIGHTED,
    Case,
    encrypted,
    expected,
    fixed,
    overall,
    paper,
    prices,
    prime,
    sums_of,
)
from vectors.steps import (
    FRANK,
    OWNER,
    PINNED,
    answers,
    ask,
    choose,
    decisions,
    delivered,
    draw,
    given,
    joined,
    registered,
    session,
    usual_answer,
)

TRIES: Final = ((0, 2, 3, 4), (2, 3, 4, 7), (0, 5, 6, 8))
P_OWN: Final = ref.own_probabilities(ANNOUNCED, COUNTS[1], overall(ANNOUNCED))[0]
DRAWS: Final = {"decisions": decisions(P_OWN), "unwilling": b"\0"}


def sessions() -> Iterator[Case]:
    """From requests to the replies of a node: in the clear, or what they hold or decrypt to."""
    hello = answers(ask("hello", {}), {"alias": "1", "willing": True})
    yield session("a node says hello", None, hello)
    yield session(
        "a node that does not train says hello",
        None,
        answers(ask("hello", {}), {"alias": "1", "willing": False}),
        owner=OWNER | {"unwilling-rounds": [0]},
    )
    yield from _joins()
    yield from _keys()
    yield from _settles()
    yield from _draws()
    yield from _chooses()


def _joins() -> Iterator[Case]:
    sizes = {"public-key": 32}

    def join(name: str, status: int, announced: Any = ANNOUNCED, **more: Any) -> Case:
        holds = {"status": {"int": status}, "num-classes": {"int": 0 if status else 4}}
        if announced["weighted"] and not status:
            holds["num-examples"] = {"int": 55}
        asked = ask("join", announced, holds=holds, sizes=sizes)
        return session(name, None, asked, **more)

    yield join("a node joins", 0)
    yield join("a node joins an epoch in the clear", 0, CLEAR)
    yield join("a node says how many samples it has", 0, WEIGHTED)
    yield join("a node joins an epoch by prices", 0, PRICES)
    yield join("a node joins an epoch by prices for a target", 0, TARGETED)
    many = FRANK | {"max-key-bits": 8192}
    yield join("a node joins with longer keys", 0, ANNOUNCED | {"key-bits": 8192}, owner=many)
    holds = {"status": {"int": 0}, "alias": {"str": "1"}}
    asked = ask("join", ANNOUNCED, holds=holds, sizes={"signature": 96})
    yield session("a node with pinned keys joins", None, asked, owner=PINNED)
    yield join("a node is not willing", 1, owner=OWNER | {"unwilling-rounds": [0]})
    yield join("a node has no data", 2, label_counts=[0, 0, 0, 0])
    for number in (0, 3, 5):
        yield join(f"a node has {number} classes", 3, label_counts=[1] * number)
    five = ANNOUNCED | prices(target=[0.2] * 5)
    yield join("a node has 4 classes for a target of 5", 3, five)
    odd: Sequence[Any] = (
        [1, -1, 0, 0], [0.5, 0.5, 0, 0], [2**42, 0, 0, 0], [[1, 2, 3, 4]], 7, "none", [True] * 4,
    )  # fmt: skip
    for counts in odd:
        yield join(f"a node has the label counts {counts}", 4, label_counts=counts)
    for name, change in (
        ("of a smaller cohort", {"min-cohort": 2}),
        ("with shorter keys", {"key-bits": 496}),
        ("with a key size that is not a multiple of 16", {"key-bits": 520}),
        ("with longer keys", {"key-bits": 4112}),
        ("with wider slots than any", {"max-clients": 2**42}),
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
        ("by prices for a target above 1", prices(target=[0.5, 0.5, 0.5, 0])),
        ("by prices without coverage", prices(0.0)),
        ("by prices of less than nothing", prices(0.3, -1.0)),
        ("by prices of any number", prices(10**400)),
        ("by prices of text", {"rule": "prices", "rule-settings": '{"coverage": "0.3"}'}),
    ):  # fmt: skip
        yield join(f"a node refuses an epoch {name}", 5, ANNOUNCED | change)
    endless = ANNOUNCED | {"key-bits": 8208}
    owner = OWNER | {"max-key-bits": 2**40}
    yield join("a node refuses an epoch with longer keys than any", 5, endless, owner=owner)
    yield join("a real node refuses an epoch in the clear", 5, CLEAR, owner=FRANK)
    short = {"alias": "1", "simulated": True}
    yield join("a node wants 2048 bits", 5, ANNOUNCED | {"key-bits": 2032}, owner=short)
    yield join("a node wants a larger cohort", 5, owner=OWNER | {"min-cohort": 4})


def _keys() -> Iterator[Case]:
    own, others = ref.public_half(NODE), [ref.public_half(bytes([n]) * 32) for n in range(1, 20)]
    for name, keys in (
        ("of its epoch", [own, *others[:2]]),
        ("for as many as may be", [*others, own]),
        ("although a public key cannot be used", [others[0], bytes(32), own]),
    ):
        sizes = {"modulus": 64, "sealed-keys": 80 * len(keys)}
        asked = ask("keygen", {"public-keys": b"".join(keys)}, sizes=sizes)
        yield session(f"an agent makes the key {name}", joined(), asked)
    signers = [SIGNER, OTHER_SIGNER, STRANGER]
    keys = [own, *others[:2]]
    signed = [
        ref.sign(signer, ref.join_statement(bytes(range(16)), ANNOUNCED, key))
        for signer, key in zip(signers, keys, strict=True)
    ]
    asked = {"public-keys": b"".join(keys), "signatures": b"".join(signed)}
    sizes = {"modulus": 64, "sealed-keys": 240, "signatures": 288}
    trusted = [*TRUSTED, signed[2][:32].hex()]
    yield session(
        "an agent signs its key for each recipient",
        joined(),
        ask("keygen", asked, sizes=sizes),
        owner=PINNED | {"trusted-keys": trusted},
    )
    told = {"registration": ref.registration(ANNOUNCED, COUNTS[1]), "distribution": fixed(1)}
    register = ask("register", delivered(), decrypts_to=told)
    yield session("a node registers", joined(), register)
    other = delivered(modulus=OTHER_MODULUS, plaintext=prime("r").to_bytes(32, "big"))
    again = ask("register", other, 4, decrypts_to=told)
    yield session("a node registers anew under another key", joined(), register, again)
    signed_key = ask("register", delivered(signer=OTHER_SIGNER), decrypts_to=told)
    yield session("a node registers under a signed key", joined(), signed_key, owner=PINNED)
    clear = {field: encrypted(CLEAR, field, values) for field, values in told.items()}
    asked_clear = answers(ask("register", {}), clear)
    yield session("a simulated node registers in the clear", joined(CLEAR), asked_clear)
    told = {"registration": ref.registration(SEARCHED, COUNTS[1]), "distribution": fixed(1)}
    key = delivered(announced=SEARCHED)
    register = ask("register", key, decrypts_to=told)
    yield session("a node registers under each candidate", joined(SEARCHED), register)
    for mean in (10.0, 39.5, 1e9):
        told = {"registration": ref.registration(WEIGHTED, COUNTS[1])}
        told["distribution"] = ref.balance(WEIGHTED, COUNTS[1], mean)
        asked = delivered(announced=WEIGHTED) | {"mean-examples": mean}
        register = ask("register", asked, decrypts_to=told)
        name = f"a node of 55 samples registers where the mean is {mean}"
        yield session(name, joined(WEIGHTED), register)
    for name, announced in (("prices", PRICES), ("prices for a target", TARGETED)):
        field = next(each for each in ref.layout(announced) if each["name"] == "registration")
        weighted = {"mean-examples": 40.0} if announced["weighted"] else {}
        told = {"distribution": ref.balance(announced, COUNTS[1], weighted.get("mean-examples"))}
        asked = delivered(announced=announced) | weighted
        sizes = {"registration": field["ciphertexts"] * 128}
        register = ask("register", asked, decrypts_to=told, sizes=sizes)
        yield session(f"a node registers by {name}", joined(announced), register)


def _settles() -> Iterator[Case]:
    reply = {"finding": b""}
    settled = answers(ask("settle", given()), reply)
    yield session("given thresholds are settled at once", registered(), settled)
    told = ref.expectations(SEARCHED, COUNTS[1], overall(SEARCHED))
    first = ask("settle", given(SEARCHED), decrypts_to={"contribution": told})
    best = ref.best_candidate(expected(SEARCHED), 4)
    found = ref.candidates(SEARCHED)[best]
    second = answers(ask("settle", given(SEARCHED, 1), 4), {"finding": found})
    p = ref.own_probabilities(SEARCHED, COUNTS[1], overall(SEARCHED))
    reply = {"decisions": decisions(p[best]), "unwilling": b"\0"}
    third = answers(ask("participate", draw(SEARCHED, 1), 5), reply)
    yield session("a search finds thresholds", registered(SEARCHED), first, second, third)
    third = third | {"request": ask("participate", draw(SEARCHED, 1), 4)["request"]}
    yield session("a draw may bring the last sum", registered(SEARCHED), first, third)
    without = overall(SEARCHED)
    place = 5 + ref.slots_of(SEARCHED, COUNTS[1])[1]
    without[place], without[5] = 0, without[5] + without[place]
    told = ref.expectations(SEARCHED, COUNTS[1], without)
    asked = ask("settle", given(SEARCHED, total=without), decrypts_to={"contribution": told})
    yield session("a search without the node's own", registered(SEARCHED), asked)
    reply["decisions"] = decisions(p[ref.usual_candidate(SEARCHED)])
    alone = answers(ask("participate", draw(SEARCHED)), reply)
    yield session("a search that is not finished", registered(SEARCHED), alone)


def _draws() -> Iterator[Case]:
    participate = answers(ask("participate", draw()), DRAWS)
    yield session("a node draws from its seed", registered(), participate)
    later = draw() | {"first-round": 4, "num-rounds": 1, "num-tries": 34}
    reply = {"decisions": decisions(P_OWN, 4, 1, 34), "unwilling": b"\0"}
    again = answers(ask("participate", later, 4), reply)
    yield session("a node draws twice", registered(), participate, again)
    whole = draw() | {"num-rounds": 1, "num-tries": 200}
    reply = {"decisions": decisions(P_OWN, 1, 1, 200), "unwilling": b"\0"}
    spent = answers(ask("participate", whole), reply)
    yield session("a node spends all its draws", registered(), spent)
    sizes = {"decisions": 1, "unwilling": 1}
    private = ask("participate", draw(), sizes=sizes)
    yield session("a real node draws in private", registered(), private, owner=FRANK)
    clear = answers(ask("participate", draw(CLEAR)), DRAWS)
    yield session("a node draws in an epoch in the clear", registered(CLEAR), clear)
    without = overall(ANNOUNCED)
    place = ref.slots_of(ANNOUNCED, COUNTS[1])[0]
    without[0], without[place] = without[0] + without[place], 0
    reply = {"decisions": decisions(4 / 9), "unwilling": b"\0"}
    alone = answers(ask("participate", draw() | given(total=without)), reply)
    yield session("a node without its own in the sum draws like any other", registered(), alone)
    # Nine nodes tell too few numbers for prices: nothing is decrypted.
    reply = {"decisions": decisions(4 / 9), "unwilling": b"\0"}
    few = answers(ask("participate", draw() | {"sums": b"any"}), reply)
    yield session("a node among too few for prices draws like any other", registered(PRICES), few)
    for limit, says in ((0.5, "says so"), (2.0, "is content with less")):
        now = [0, 0, 0, 60]
        moved = ref.label_shift(ref.fixed_point(COUNTS[1]), ref.fixed_point(now)) > limit
        yield session(
            f"a node whose labels have moved {says}",
            registered(),
            answers(
                ask("participate", draw()),
                DRAWS | {"unwilling": ref.bits([False, False, moved])},
            ),
            owner=OWNER | {"max-label-shift": limit},
            label_counts=now,
        )
    yield session(
        "a node draws its yes in a round in which it will not train",
        registered(),
        answers(ask("participate", draw()), DRAWS | {"unwilling": ref.bits([False, True, False])}),
        owner=OWNER | {"unwilling-rounds": [2]},
    )

    frank = FRANK | {"max-draws-per-day": 12}
    sizes = {"decisions": 1, "unwilling": 1}
    twice = [ask("participate", draw(), number, sizes=sizes) for number in (3, 4)]
    yield session("a real node draws all it may in a day", registered(), *twice, owner=frank)
    often = [answers(ask("participate", draw(), number), DRAWS) for number in (3, 4)]
    owner = OWNER | {"max-draws-per-day": 6, "max-epochs-per-day": 1}
    yield session("a simulated node draws without end", registered(), *often, owner=owner)


def _chooses() -> Iterator[Case]:
    def best_of(tries: Any) -> int:
        scores = ref.scores(sums_of(*tries))
        return scores.index(min(scores))

    best = [best_of(TRIES)]
    asked = ask("determine", choose(ANNOUNCED, TRIES), 4)
    yield session(
        "an agent names the best try",
        registered(),
        usual_answer(),
        answers(asked, {"chosen": best}),
    )
    six = ANNOUNCED | {"num-participants": 6}
    tries = ((0, 2, 3, 4, 5, 6), (2, 3, 4, 6, 7, 8))
    yield session(
        "an agent names the best of all but three clients",
        registered(six),
        usual_answer(six),
        answers(ask("determine", choose(six, tries), 4), {"chosen": [best_of(tries)]}),
    )
    rounds = (TRIES[:1], TRIES[:0:-1])
    asked = ask("determine", choose(ANNOUNCED, *rounds), 4)
    best = [0, best_of(rounds[1])]
    yield session(
        "an agent names the best of each round",
        registered(),
        usual_answer(),
        answers(asked, {"chosen": best}),
    )
    sums = choose(ANNOUNCED, TRIES)
    wrong = encrypted(ANNOUNCED, "distribution", [2**20] * 3 + [2**20 - 1, 2**19])
    size = len(wrong)
    for place in range(2):
        spoilt = sums["sums"][: place * size] + wrong + sums["sums"][(place + 1) * size :]
        others = [index for index in range(3) if index != place]
        best = [others[best_of([TRIES[index] for index in others])]]
        asked = ask("determine", sums | {"sums": spoilt}, 4)
        yield session(
            f"an agent passes over sum {place} that does not add up",
            registered(),
            usual_answer(),
            answers(asked, {"chosen": best}),
        )
    bare = sums | {"sums": sums["sums"][:size] + bytes(size) + sums["sums"][2 * size :]}
    best = [(0, 2)[best_of([TRIES[0], TRIES[2]])]]
    yield session(
        "an agent passes over a sum that does not decrypt",
        registered(),
        usual_answer(),
        answers(ask("determine", bare, 4), {"chosen": best}),
    )
    pairs = ((0, 2), (3, 4), (5, 6), (7, 8))
    best = ref.best_groups(sums_of(*pairs), [2] * 4, [2, 2])
    asked = ask("determine", choose(GROUPED, pairs), 4)
    yield session(
        "an agent names the best groups",
        registered(GROUPED),
        usual_answer(GROUPED),
        answers(asked, {"chosen": best}),
    )
    uneven = GROUPED | {"num-participants": 5, "volunteer-tries": 3}
    groups = ((0, 2), (3, 4), (5, 6, 7), (1, 7, 8))
    best = ref.best_groups(sums_of(*groups), [2, 2, 3, 3], [2, 3])
    asked = ask("determine", choose(uneven, groups), 4)
    yield session(
        "an agent names groups of two sizes",
        registered(uneven),
        usual_answer(uneven),
        answers(asked, {"chosen": best}),
    )
