"""Vectors of plaintext computations: categories, packing, draws, choices."""

from collections.abc import Iterator, Sequence

from vectors import reference as ref
from vectors.inputs import (
    ANNOUNCED,
    COUNTS,
    MNIST,
    SEARCHED,
    Case,
    added_by,
    all_typed,
    overall,
    paper,
    sums_of,
)


def categories() -> Iterator[Case]:
    """Map samples per class to a slot of the registry."""
    given: list[tuple[str, Sequence[int], list[int], list[float]]] = [
        ("one class dominates", [1, 8, 1, 0], [1, 2, 4], [0.7, 0.2]),
        ("two classes dominate", [5, 1, 4, 0], [1, 2, 4], [0.7, 0.2]),
        ("none dominates", [6, 1, 1, 2], [1, 2, 4], [0.7, 0.3]),
        ("exactly the threshold", [6, 4, 0, 0], [1, 2, 4], [0.6, 0.3]),
        ("exactly a threshold that no double is equal to", [7, 3], [1, 2], [0.7]),
        ("just below the threshold", [699_999_999, 300_000_001], [1, 2], [0.7]),
        ("exactly the threshold, and equal classes", [2, 5, 5], [1, 3], [5 / 12]),
        ("equal classes: the lower one", [5, 5, 5, 5], [1, 2, 4], [0.25, 0.2]),
        ("threshold 0: the largest class", [3, 3, 4, 4], [1, 4], [0.0]),
        ("a single class", [0, 0, 0, 9], [1, 2, 4], [1.0, 0.5]),
        ("no size below C", [9, 0, 1], [3], []),
        ("the paper's thresholds", [0, 3, 0, 9, 0, 1, 0, 0, 2, 5], [1, 2, 10], [0.7, 0.1]),
        ("ten classes, the last pair", [0, 0, 0, 0, 0, 0, 0, 0, 5, 6], [1, 2, 10], [0.7, 0.1]),
        ("four sizes", [4, 4, 4, 1, 0], [1, 2, 3, 5], [0.9, 0.4, 0.3]),
    ]  # fmt: skip
    for name, counts, sizes, thresholds in given:
        u, codebook = ref.category(counts, sizes, thresholds), ref.codebook(tuple(sizes))
        yield {
            "name": name, "label-counts": list(counts), "reference-set": sizes,
            "thresholds": thresholds, "category": list(u), "slot": codebook.index(u),
            "length": len(codebook),
        }  # fmt: skip


def distributions() -> Iterator[Case]:
    """Map samples per class to fixed-point shares, followed by their squared norm."""
    given = {
        "exact": [3, 1], "ties to the lower class": [1, 1, 1],
        "remainders, largest first": [1, 2, 4], "one class": [0, 0, 5],
        "seven equal classes": [2] * 7, "large counts": [2**40, 3, 2**39 + 1],
        "fifty classes, many ties": [3, 1] * 25,
        "as many samples as may be": [2**41, 2**41 - 1], "in one class": [2**42 - 1],
        "few of many": [1] + [0] * 51, "squared norm rounds half up": [1448, 1047128],
    }  # fmt: skip
    for name, counts in given.items():
        yield {
            "name": name,
            "label-counts": counts,
            "shares-and-square": ref.with_square(ref.fixed_point(counts)),
        }


def layouts() -> Iterator[Case]:
    """Map the parameters of an epoch to the position of every counter."""
    given = {
        "four classes, 512 bits": ANNOUNCED,
        "the paper's ten classes, 2048 bits": MNIST,
        "three candidates": SEARCHED,
        "nine candidates, thirds and halves": MNIST | paper([1, 2, 10], "search"),
        "52 classes at 8962 clients span two ciphertexts": MNIST
        | paper([1, 52], {"1": 0.06})
        | {"max-clients": 8962},
    }
    for name, announced in given.items():
        yield {
            "name": name,
            "parameters": all_typed(announced),
            "candidates": ref.candidates(announced),
            "fields": ref.layout(announced),
            "digest": ref.layout_digest(announced).hex(),
        }


def packings() -> Iterator[Case]:
    """Map counters to plaintexts; sums over several clients unpack the same way."""
    share = added_by(1)
    for name, announced, field, values, clients in (
        ("a registry", ANNOUNCED, "registration", ref.registration(ANNOUNCED, COUNTS[1]), 1),
        ("a distribution", ANNOUNCED, "distribution", share, 1),
        ("a sum of nine registries", ANNOUNCED, "registration", overall(ANNOUNCED), 9),
        ("twenty distributions, all slots full", ANNOUNCED, "distribution", [20 * 2**20] * 5, 20),
        ("many slots over several ciphertexts", MNIST | paper([1, 52], {"1": 0.5}) | {
            "max-clients": 8962}, "distribution", list(range(53)), 1),
    ):  # fmt: skip
        yield {
            "name": name,
            "parameters": all_typed(announced),
            "field": field,
            "values": values,
            "num-clients": clients,
            "plaintexts": [f"{plaintext:x}" for plaintext in ref.pack(announced, field, values)],
        }


def draws() -> Iterator[Case]:
    """Map a seed, an alias and rounds to uniform numbers."""
    for name, seed, alias, first, rounds, tries in (
        ("one round", 7, "3", 1, 1, 4),
        ("two rounds, more than one block of tries", 7, "3", 2, 2, 34),
        ("a name that is not ASCII", 2**40, "Zoë \N{GREEK SMALL LETTER SIGMA}", 1, 1, 3),
        ("a late round", 0, "laptop", 10**6, 1, 2),
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
    """Map the overall registry to the probability of each category."""
    for name, counts, participants, pool in (
        ("two categories", [10, 0, 40], 4, 1),
        ("capped at 1", [1, 1, 50], 20, 1),
        ("four times K volunteers", [10, 20, 70], 5, 4),
        ("never more than a quarter of all and seven", [20, 20, 20], 5, 100),
        ("one category", [0, 30, 0], 7, 1),
        ("more participants than clients", [0, 3, 0], 7, 1),
    ):
        announced = {"num-participants": participants, "pool": pool}
        wanted = ref.volunteers(announced, sum(counts))
        yield {
            "name": name,
            "overall-registry": counts,
            "num-participants": participants,
            "pool": pool,
            "num-volunteers": wanted,
            "probabilities": ref.probability(counts, wanted),
        }


def choices() -> Iterator[Case]:
    """Map decrypted sums to the choice that follows."""
    tries = sums_of((0, 1, 2, 3), (3, 4, 5, 7), (0, 5, 6, 8), (1, 2, 3, 7))
    heavier = [[number * (1 + index) for number in row] for index, row in enumerate(tries)]
    target = [0.5, 0.25, 0.125, 0.125]
    for name, sums, skew, aim in (
        ("best of four tries", tries, 0.0, None),
        ("best of four tries, local skew", tries, 0.5, None),
        ("best of four tries, local skew and a target", tries, 0.5, target),
        ("best of four tries of unequal weight", heavier, 0.5, target),
        ("equal tries: the first", [tries[0], tries[0]], 0.5, None),
    ):
        scores = ref.scores(sums, skew, aim)
        yield {
            "name": name, "sums": sums, "local-skew": skew, "target": aim, "scores": scores,
            "chosen": scores.index(min(scores)),
        }  # fmt: skip
    table = [[30, 10, 40], [11, 10, 21], [5, 5, 10], [10, 10, 20]]
    flat = [number for row in table for number in row]
    best = ref.best_candidate(flat, 2)
    yield {"name": "best candidate", "expectations": table, "chosen": best}
