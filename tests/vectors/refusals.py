"""Vectors of well-formed requests that a node refuses."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from vectors import reference as ref
from vectors.inputs import (
    ANNOUNCED,
    CLEAR,
    COUNTS,
    EPOCH,
    MODULUS,
    NODE,
    OTHER_EPOCH,
    OTHER_MODULUS,
    OTHER_N,
    OTHER_SIGNER,
    POOLED,
    SEARCHED,
    SIGNER,
    STRANGER,
    WEIGHTED,
    Case,
    N,
    added_by,
    encrypted,
    expected,
    overall,
    prime,
)
from vectors.steps import (
    FRANK,
    PINNED,
    after_a_draw,
    answers,
    ask,
    choose,
    decisions,
    delivered,
    draw,
    first_draw,
    joined,
    refused,
    refused_session,
    registered,
    rounds_to_draw,
    session,
    settled,
    sum_request,
)

STALE: Final = "StaleMessageError"
DAY_IS_SPENT: Final = "DailyLimitError"
UNTRUSTED: Final = "UntrustedError"
SCALE: Final = ref.SCALE
CLEAR_KEY: Final = {"num-joined": len(COUNTS)}
"""A request to register in the clear."""

_CLIENTS: Final[dict[str, Any]] = {"num-clients": 20, "total": [0] * 4 + [20] + [0] * 6}
"""Twenty clients of one category."""

FEWER_THAN_HALF: Final[dict[str, Any]] = {"num-clients": 4, "total": [4] + [0] * 10}
"""Four of the nine nodes that joined."""


def bad_sessions() -> Iterator[Case]:
    """Yield requests that a node refuses; it keeps its memory, but counts what it decrypted."""
    yield from _stale()
    yield from _keygen()
    yield from _register()
    yield from _sums()
    yield from _search()
    yield from _draws()
    yield from _determine()


def _stale() -> Iterator[Case]:
    yield refused_session(
        "of an epoch of which the node never heard", None, "participate", draw(), STALE
    )
    other = ask("participate", draw(), epoch=OTHER_EPOCH)
    yield session("of another epoch", registered(), refused(other, STALE))
    for sequence in (1, 2):
        early = refused(ask("participate", draw(), sequence), STALE)
        yield session(f"number {sequence}, answered before", registered(), early)
    yield after_a_draw("the same request again", refused(first_draw(), STALE))
    first = ask("join", ANNOUNCED)
    second = ask("join", ANNOUNCED, 4, epoch=OTHER_EPOCH)
    again = refused(ask("join", ANNOUNCED, 5), STALE)
    yield session("an epoch joined twice", None, first, again)
    yield session("an epoch before the last", None, first, second, again)
    away = ask("participate", draw(), 4)
    unwilling = {"alias": "1", "unwilling-rounds": [0]}
    yield session("a node that did not join", None, first, refused(away), owner=unwilling)
    twice = first, refused(ask("join", ANNOUNCED, 4, epoch=OTHER_EPOCH), DAY_IS_SPENT)
    owner = FRANK | {"max-epochs-per-day": 1}
    yield session("a second epoch in a day of one", None, *twice, owner=owner)


def _keygen() -> Iterator[Case]:
    own = ref.public_half(NODE)
    others = [ref.public_half(bytes([number]) * 32) for number in range(1, 21)]

    def keygen(name: str, keys: Sequence[bytes]) -> Case:
        return refused_session(
            f"a key {name}", joined(), "keygen", {"roster.public-keys": b"".join(keys)}
        )

    yield keygen("for others only", others[:3])
    yield keygen("for nobody", [])
    yield keygen("for one of them twice", [own, *others[:2], others[0]])
    yield keygen("for the agent twice", [own, own, *others[:2]])
    yield keygen("for fewer than a cohort", [own, others[0]])
    yield keygen("for more than there may be", [own, *others])
    two = {"roster.public-keys": b"".join([own, *others[:1]])}
    yield refused_session("a key for two in the clear", joined(CLEAR), "keygen", two)

    asked = {"roster.public-keys": b"".join([own, *others[:2]])}
    yield session("a second key", joined(), ask("keygen", asked), refused(ask("keygen", asked, 4)))
    recipients = [own, others[0]]
    pair = ANNOUNCED | {"min-cohort": 2}

    def statement(
        key: bytes, epoch: bytes = EPOCH, announced: Any = pair, alias: str = "2", number: int = 0
    ) -> bytes:
        return ref.join_statement(epoch, announced, key, alias, number)

    mine = ref.sign(SIGNER, statement(own, alias="1"))
    good = ref.sign(OTHER_SIGNER, statement(others[0]))
    of_another_epoch = statement(others[0], OTHER_EPOCH)
    of_other_terms = statement(others[0], announced=ANNOUNCED)
    for name, signatures in (
        ("without signatures", None),
        ("with an empty list of signatures", []),
        ("with a signature too few", [mine]),
        ("with a signature too many", [mine, good, good]),
        ("with zeros for a signature", [mine, bytes(96)]),
        ("with two signatures that changed places", [good, mine]),
        ("signed by a stranger", [mine, ref.sign(STRANGER, statement(others[0]))]),
        ("signed twice by one node", [mine, ref.sign(SIGNER, statement(others[0]))]),
        ("signed for another key", [mine, ref.sign(OTHER_SIGNER, statement(others[1]))]),
        ("signed in another epoch", [mine, ref.sign(OTHER_SIGNER, of_another_epoch)]),
        ("signed under other parameters", [mine, ref.sign(OTHER_SIGNER, of_other_terms)]),
        (
            "signed under another alias",
            [mine, ref.sign(OTHER_SIGNER, statement(others[0], alias="3"))],
        ),
        (
            "signed with another number",
            [mine, ref.sign(OTHER_SIGNER, statement(others[0], number=9))],
        ),
    ):
        values: dict[str, Any] = {
            "roster.public-keys": b"".join(recipients),
            "roster.alias-digests": ref.alias_digest("1") + ref.alias_digest("2"),
        }
        if signatures is not None:
            values["roster.signatures"] = b"".join(signatures)
        name = f"recipients {name}"  # noqa: PLW2901
        yield refused_session(name, joined(pair), "keygen", values, UNTRUSTED, owner=PINNED)


def _register() -> Iterator[Case]:
    malformed = "MalformedMessageError"
    flipped = bytearray(delivered()["key.sealed-key"])
    flipped[40] ^= 1
    for name, values, error in (
        ("that is missing", CLEAR_KEY, "RefusedError"),
        ("of an even modulus", delivered() | {"key.modulus": MODULUS[:-1] + b"\0"}, malformed),
        ("of a longer modulus", delivered() | {"key.modulus": MODULUS + b"\1"}, malformed),
        ("of a shorter modulus", delivered() | {"key.modulus": b"\0" + MODULUS[1:]}, malformed),
        ("of another modulus", delivered() | {"key.modulus": OTHER_MODULUS}, "RefusedError"),
        ("by another agent", delivered(agent=STRANGER), "RefusedError"),
        ("for another node", delivered(recipient=STRANGER), "RefusedError"),
        ("for another epoch", delivered(epoch=OTHER_EPOCH), "RefusedError"),
        ("for another layout", delivered(announced=SEARCHED), "RefusedError"),
        ("that holds no prime", delivered(plaintext=b"\1" * 32), "RefusedError"),
        ("that was changed", delivered() | {"key.sealed-key": bytes(flipped)}, "RefusedError"),
        ("that is empty", delivered() | {"key.sealed-key": b""}, "RefusedError"),
    ):
        yield refused_session(f"a key {name}", joined(), "register", values, error)
    key = delivered(announced=CLEAR)
    yield refused_session("a key in an epoch in the clear", joined(CLEAR), "register", key)

    other = delivered(modulus=OTHER_MODULUS, plaintext=prime("r").to_bytes(32, "big"))
    first, again = ask("register", delivered()), ask("register", delivered(), 4)
    yield session("a key that is there already", joined(), first, refused(again))
    late = ask("register", other, 5)
    read = first_draw(ANNOUNCED, 4)
    yield session("another key after the first sum", joined(), first, read, refused(late))
    wrong = overall(ANNOUNCED)
    wrong[0] += 1
    spoilt = refused(ask("participate", draw(total=wrong), 4))
    yield session("another key after a refused sum", joined(), first, spoilt, refused(late))
    key = delivered(announced=WEIGHTED)
    yield refused_session("a weight without a mean", joined(WEIGHTED), "register", key)
    mean = delivered() | {"mean-examples": 100.0}
    yield refused_session("a mean where all count the same", joined(), "register", mean)
    clear = ask("register", CLEAR_KEY), ask("register", CLEAR_KEY, 4)
    yield session("twice in the clear", joined(CLEAR), clear[0], refused(clear[1]))

    for name, values in (
        ("without a signature", delivered()),
        ("with zeros for a signature", delivered() | {"key.signature": bytes(96)}),
        ("signed by a stranger", delivered(signer=STRANGER)),
        ("signed in another epoch", delivered(signer=SIGNER, signed={"epoch": OTHER_EPOCH})),
        ("signed under other terms", delivered(signer=SIGNER, signed={"announced": POOLED})),
        ("signed for another node", delivered(signer=SIGNER, signed={"recipient": bytes(32)})),
        ("signed for another agent", delivered(signer=SIGNER, signed={"agent": bytes(32)})),
        ("signed for another key", delivered(signer=SIGNER, signed={"modulus": OTHER_MODULUS})),
        ("signed for another mean", delivered(signer=SIGNER, signed={"mean": 2.0})),
    ):
        yield refused_session(
            f"a key {name}", joined(), "register", values, UNTRUSTED, owner=PINNED
        )


def _sums() -> Iterator[Case]:
    for stage, values in (
        ("settle", draw()),
        ("participate", draw()),
        ("determine", choose(ANNOUNCED, ((0, 2, 3),))),
    ):
        yield refused_session(f"{stage} before register", joined(), stage, values)
    total = overall(ANNOUNCED)
    one_more, one_moved, huge = list(total), list(total), list(total)
    one_more[0] += 1
    one_moved[0], one_moved[1] = total[0] + 10, total[1]
    huge[0] = 31
    foreign = ref.encrypt(OTHER_N, ref.pack(ANNOUNCED, "registration", total), 77)
    for name, changes in (
        ("of two clients", {"num-clients": 2}),
        ("of fewer than half of the nodes that joined", FEWER_THAN_HALF),
        ("of more clients than there may be", {"num-clients": 21}),
        ("of more clients than joined", {"num-clients": 11}),
        ("of fewer clients than it says", {"num-clients": 10}),
        ("of more clients than it says", {"num-clients": 8}),
        ("with one more", {"total": one_more}),
        ("with a slot above the clients", {"total": one_moved}),
        ("with a slot above all clients", {"total": huge}),
        ("of nothing", {"total": [0] * 11}),
        ("that is zero", {"sums": bytes(128)}),
        ("that is empty", {"sums": b""}),
        ("of a ciphertext too many", {"sums": sum_request()["sums"] * 2}),
        ("under another key", {"sums": foreign}),
        ("that is exchange 1", {"exchange": 1}),
    ):
        values, one_lost = draw(**changes), registered(num_joined=len(COUNTS) + 1)
        yield refused_session(f"a sum {name}", one_lost, "participate", values)
        yield refused_session(f"a sum {name}, to settle", one_lost, "settle", values)
    for name, vector in (
        ("that is not in the clear", sum_request()["sums"]),
        ("with a number below zero", b"\x80" + sum_request(CLEAR)["sums"][1:]),
    ):
        draws = draw(CLEAR) | {"sums": vector}
        yield refused_session(f"a sum {name}", registered(CLEAR), "participate", draws)

    again = ref.encrypt(N, ref.pack(ANNOUNCED, "registration", total), 78)
    for name, changes in (
        ("with other bytes", {"sums": again}),
        ("of other clients", {"num-clients": 10, "total": one_more}),
        ("that says another number", {"num-clients": 10}),
        ("that comes after the rule is settled", {"exchange": 1}),
        ("that comes after one that is missing", {"exchange": 2}),
    ):
        step = refused(ask("participate", draw(**changes), 4))
        yield after_a_draw(f"another sum {name}", step)
    wrong = refused(ask("participate", draw(total=one_more)))
    for name, values in (
        ("the right sum", draw()),
        ("the same sum", draw(total=one_more)),
        ("a later sum", draw() | {"exchange": 1}),
    ):
        step = refused(ask("participate", values, 4))
        yield session(f"{name} after a refused one", registered(), wrong, step)
    yield after_a_draw("to settle what was settled by a draw", refused(ask("settle", draw(), 4)))


def _search() -> Iterator[Case]:
    told = ref.expectations(SEARCHED, COUNTS[1], overall(SEARCHED))
    first = ask("settle", draw(SEARCHED), decrypts_to={"contribution": told})
    good = expected(SEARCHED)
    for name, changes in (
        ("of two clients", {"num-clients": 2}),
        ("of more clients than registered", {"num-clients": 10}),
        ("that do not add up", {"total": [good[0] + 100, *good[1:]]}),
        ("that expect nobody", {"total": [0] * 15}),
        ("that expect nobody under one candidate", {"total": [*good[:10], *[0] * 5]}),
        ("above all clients", {"total": [10 * SCALE] * 15}),
        ("that do not decrypt", {"sums": bytes(128)}),
    ):
        step = refused(ask("settle", draw(SEARCHED, 1, **changes), 4))
        yield session(f"expectations {name}", registered(SEARCHED), first, step)
        step = refused(ask("participate", draw(SEARCHED, 1, **changes), 4))
        yield session(f"expectations {name}, to draw", registered(SEARCHED), first, step)
    early = ask("participate", draw(SEARCHED), 4)
    late = refused(ask("participate", draw(SEARCHED, 1), 5))
    yield session("another sum after a draw", registered(SEARCHED), first, early, late)
    found = ref.candidates(SEARCHED)[ref.best_candidate(good, 4)]
    p = ref.own_probabilities(SEARCHED, COUNTS[1], overall(SEARCHED))
    reply = settled(p[ref.best_candidate(good, 4)], found)
    second = answers(ask("settle", draw(SEARCHED, 1), 4), reply)
    again = refused(ask("settle", draw(SEARCHED, 1), 5))
    yield session("to settle a search again", registered(SEARCHED), first, second, again)
    for name, total in (("a third sum", good), ("a third sum like the first", overall(SEARCHED))):
        third = refused(ask("settle", draw(SEARCHED, 2, total=total), 5))
        yield session(name, registered(SEARCHED), first, second, third)


def _draws() -> Iterator[Case]:
    for rounds, tries in ((1, 201), (2, 101), (201, 1)):
        asked = draw() | rounds_to_draw(rounds, tries)
        yield refused_session(
            f"{rounds} x {tries} draws of 200", registered(), "participate", asked
        )
    too_many = refused(ask("settle", draw() | rounds_to_draw(1, 201)))
    p = ref.own_probabilities(ANNOUNCED, COUNTS[1], overall(ANNOUNCED))[0]
    six = answers(ask("settle", draw(), 4), settled(p))
    more = refused(ask("participate", draw() | rounds_to_draw(1, 195), 5))
    yield session("more draws than 200, on settling", registered(), too_many, six, more)
    parts = [
        ask("participate", draw() | rounds_to_draw(1, tries), sequence)
        for sequence, tries in enumerate((150, 51, 50, 1), start=3)
    ]
    parts[1::2] = map(refused, parts[1::2])
    yield session("more draws than 200 in portions", registered(), *parts)
    owner = FRANK | {"max-draws-per-day": 6}
    more = ask("participate", draw() | rounds_to_draw(1, 1), 4)
    steps = ask("participate", draw()), refused(more, DAY_IS_SPENT)
    yield session("a seventh draw in a day of six", registered(), *steps, owner=owner)
    p = 12 / 20
    told = {"decisions": decisions(p, 1, 1, 66), "unwilling": b"\0"}
    values = draw(POOLED, **_CLIENTS)
    full = answers(ask("participate", values | rounds_to_draw(1, 66)), told)
    more = refused(ask("participate", values | rounds_to_draw(1, 1), 4))
    name = "draws of twelve volunteers for four places, which count three times"
    yield session(name, registered(POOLED, num_joined=20), full, more)


def _determine() -> Iterator[Case]:
    four = (0, 2, 3, 4)
    some = choose(ANNOUNCED, [four])
    yield refused_session("a sum before any draw", registered(), "determine", some)
    wrong = overall(ANNOUNCED)
    wrong[0] += 1
    spoilt = refused(ask("participate", draw(total=wrong)))
    step = refused(ask("determine", some, 4))
    yield session("a sum after a refused sum of all", registered(), spoilt, step)
    size = len(some["sums"])
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
        ("with a share above all clients", _one_invalid_sum(four, [4 * SCALE + 1, 0, 0, 0, 0])),
        ("in a second round that has no other", _second_round_invalid(four)),
        ("of which none is of four clients", choose(ANNOUNCED, [four[:3], (*four, 5)])),
        ("that are five of nine clients", choose(ANNOUNCED, [four] * 5)),
        ("that are five in five rounds", choose(ANNOUNCED, *[[four]] * 5)),
    ):
        yield after_a_draw(f"sums {name}", refused(ask("determine", values, 4)))

    parts = []
    for sequence, (number, fits) in enumerate(((3, True), (2, False), (1, True), (1, False)), 4):
        step = ask("determine", choose(ANNOUNCED, [four] * number), sequence)
        parts.append(answers(step, {"chosen": [0]}) if fits else refused(step))
    yield after_a_draw("five sums of nine clients in portions", *parts)
    bad = [
        refused(ask("determine", _one_invalid_sum(four, [1, 0, 0, 0, 0]), sequence))
        for sequence in range(4, 8)
    ]
    step = refused(ask("determine", some, 8))
    yield after_a_draw("a sum after four that were refused", *bad, step)
    for name, participants in (("of all but two clients", 7), ("of more clients than fit", 2**62)):
        announced = ANNOUNCED | {"num-participants": participants}
        step = refused(ask("determine", choose(announced, [range(1, 8)]), 4))
        first = ask("participate", draw(announced))
        yield session(f"a sum {name}", registered(announced), first, step)


def _one_invalid_sum(clients: Sequence[int], change: Sequence[int]) -> dict[str, Any]:
    """Return a request with one invalid sum."""
    sums = [sum(column) for column in zip(change, *map(added_by, clients), strict=True)]
    vector = encrypted(ANNOUNCED, "distribution", sums)
    return {"sums": vector, "num-tries": [1]}


def _second_round_invalid(clients: Sequence[int]) -> dict[str, Any]:
    good, bad = choose(ANNOUNCED, [clients]), _one_invalid_sum(clients, [1, 0, 0, 0, 0])
    return {"sums": good["sums"] + bad["sums"], "num-tries": [1, 1]}
