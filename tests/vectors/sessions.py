"""Vectors of a node in a session: what it answers, and what it refuses."""

from collections.abc import Iterator
from typing import Any, Final

from vectors import reference as ref
from vectors.inputs import (
    AGENT,
    ANNOUNCED,
    BLOCKS,
    CALIBRATED,
    COUNTS,
    GROUPED,
    MODULUS,
    OTHER_EPOCH,
    SEARCHED,
    Case,
    all_told,
    asked,
    draw_of,
    encrypted,
    fixed,
    kept,
    overall,
    registered,
    request,
    sealing,
    sums_of,
    sums_request,
)

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
    for limit, says in ((0.5, "says so"), (2.0, "is content with less")):
        now = [0, 0, 0, 60]
        moved = ref.label_shift(ref.fixed_point(COUNTS[1]), ref.fixed_point(now)) > limit
        yield {
            "name": f"a node whose labels have moved {says}",
            "kept": registered(ANNOUNCED),
            "label-counts-now": now,
            "max-label-shift": limit,
            "request": request("participate", draw_of()),
            "reply": all_told(
                {
                    "decisions": ref.bits(x < p for row in rows for x in row),
                    "unwilling": ref.bits([False, False, moved]),
                }
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
