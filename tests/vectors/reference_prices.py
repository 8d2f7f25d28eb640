"""A second implementation of prices, written from docs/reference/wire.md alone, to 32 classes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import exp, log, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from vectors import reference as ref

Floats = NDArray[np.float64]


def on_grid(value: Any) -> Any:
    """Round to multiples of 2^-14."""
    return np.rint(np.asarray(value) * 2**14) / 2**14


class Node(NamedTuple):
    """Where a node stands."""

    x: Floats
    weight: float

    @property
    def square(self) -> float:
        """Return s."""
        return sum(float(part) ** 2 for part in self.x)


class Terms:
    """What is announced, and how many nodes there are."""

    def __init__(self, announced: ref.Announced, num_classes: int, num_clients: int) -> None:
        settings = json.loads(announced["rule-settings"])
        self.coverage = settings.get("coverage", 0.3)
        self.skew_price = 1.0 + settings.get("local_skew", 0.0)
        self.target = np.array(settings.get("target") or [1.0 / num_classes] * num_classes)
        self.classes, self.clients = num_classes, num_clients
        self.weighted = bool(announced["weighted"])
        self.heaviest = 4.0 if self.weighted else 1.0
        self.volunteers = float(ref.volunteers(announced, num_clients))
        self.participants = max(2, announced["num-participants"])
        self.most = 2**20 - 1
        later = sum(size for _, size, _, _ in slots(self, replace(first(self), evaluations=1)))
        if 2045 // later >= 24 and announced["max-clients"] <= 2047:
            self.most = (2 ** min(26, 2045 // later) - 1) // announced["max-clients"]

    def ridge(self, kappa: float) -> Floats:
        """Return what the dual has beside softplus, for each feature."""
        of_class = self.skew_price / (2.0 * (self.participants - 1)) / kappa
        return np.array([of_class] * self.classes + [1e-5] * self.weighted)

    def num_sums(self) -> int:
        """Return how many sums a node reads at most."""
        state = first(self)
        opening, later = (
            sum(size for _, size, _, _ in slots(self, replace(state, evaluations=number)))
            for number in (0, 1)
        )
        spare = self.clients * (self.classes - 1) // 2 - opening
        return 0 if spare < 0 else 1 + min(8, spare // later)


@dataclass
class State:
    """What all nodes know in the middle of an epoch."""

    evaluations: int
    settled: bool
    reach: float
    shift: float
    mean_weight: float
    radius: float
    kappa: float
    base_kappa: float
    base: Floats
    point: Floats

    def points(self) -> list[Floats]:
        """Return where to evaluate."""
        lengths = [0.5, 0.2] if self.evaluations else []
        return [self.point, *(self.base + part * (self.point - self.base) for part in lengths)]

    def prices(self) -> tuple[Floats, float]:
        """Return the prices that hold without a further exchange, and kappa."""
        base = self.base + np.eye(len(self.base))[0] * self.shift
        kappa = self.base_kappa + self.reach * (self.kappa - self.base_kappa)
        return base + self.reach * (self.point - base), kappa


def first(terms: Terms) -> State:
    """Return the state at the opening."""
    none = np.zeros(1 + terms.classes + terms.weighted)
    radius = terms.heaviest * sqrt(3.0 if terms.weighted else 2.0)
    return State(0, False, 1.0, 0.0, 1.0, radius, 0.0, 0.0, none, none)


def slots(terms: Terms, state: State) -> list[tuple[str, int, float, float]]:
    """Return name, number, and range of the numbers, in their order."""
    sent, square = terms.classes + terms.weighted - 1, state.radius**2 / 4
    last = [
        ("q", 1, 0.0, 0.25),
        ("mean", sent, -state.radius / 4, state.radius / 4),
        ("matrix", sent * (sent + 1) // 2, -square, square),
    ]
    if state.evaluations:
        above, bend = ("above", 3, 0.0, 1024.0), ("bend", 3, 0.0, log(2.0))
        moment = ("moment", sent, -terms.heaviest, terms.heaviest)
        return [above, bend, ("p", 1, 0.0, 1.0), moment, *last]
    before = [("remembers", 1, 0.0, 1.0), ("intercept", 1, -8192.0, 8192.0), ("p", 1, 0.0, 1.0)]
    prices, most = ("prices", sent, -8192.0, 8192.0), 4.0 * terms.heaviest**4
    return [*before, prices, *last, ("spread", 1 + sent, -most, most)]


def features(state: State, node: Node) -> list[float]:
    """Return x, and the weight above the mean where nodes differ in it."""
    more = [node.weight - state.mean_weight] * (len(state.point) - 1 - len(node.x))
    return [*node.x.tolist(), *more]


def numbers(
    terms: Terms, state: State, node: Node, rng: np.random.Generator, remembered: Sequence[float]
) -> list[int]:
    """Return what a node adds to the sums."""
    own = features(state, node)
    logits = [
        min(max(float(at[0] + at[1:] @ own) - state.kappa * node.square, -1024.0), 1024.0)
        for at in state.points()
    ]
    p = 1.0 / (1.0 + exp(-logits[0])) if logits[0] > -700 else 0.0
    q = p / (1.0 + exp(min(logits[0], 700.0)))
    shorter = min(1.0, state.radius / max(sqrt(sum(part**2 for part in own)), 1e-12))

    def sent(values: Sequence[float]) -> list[float]:
        return [part for label, part in enumerate(values) if label != terms.classes - 1]

    near = sent([part * shorter for part in own])
    prices = list(remembered) if len(remembered) == 1 + len(own) else [0.0] * (1 + len(own))
    told = {
        "remembers": [float(len(remembered) == 1 + len(own))],
        "intercept": prices[:1],
        "prices": sent(prices[1:]),
        "above": [max(logit, 0.0) for logit in logits],
        "bend": [log1p(exp(-abs(logit))) for logit in logits],
        "p": [p],
        "moment": [p * part for part in sent(own)],
        "q": [q],
        "mean": [q * part for part in near],
        "matrix": [q * left * right for left, right in combinations_with_replacement(near, 2)],
        "spread": [node.square * part for part in [node.square, *sent(own)]],
    }
    units = [
        min(max((value - low) / (high - low), 0.0), 1.0) * terms.most
        for name, _, low, high in slots(terms, state)
        for value in told[name]
    ]
    return [min(int(unit + rng.random()), terms.most) for unit in units]


class Read(NamedTuple):
    """What the sums say of a point."""

    sums: Mapping[str, Floats]
    whole: Floats
    """Matrix that adds the last class, which is minus the others."""
    q: float
    mean: Floats
    covariance: Floats
    trace: float

    def every(self, name: str) -> Floats:
        """Return a sum for all features."""
        return np.asarray(self.sums[name] @ self.whole)


def read(terms: Terms, state: State, sums: Sequence[int]) -> Read:
    """Undo the scaling of the sums over all nodes."""
    found, rest = {}, list(sums)
    for name, size, low, high in slots(terms, state):
        unit = (high - low) / terms.most
        found[name] = np.array([terms.clients * low + value * unit for value in rest[:size]])
        rest = rest[size:]
    number = terms.classes + terms.weighted
    whole = np.delete(np.eye(number), terms.classes - 1, axis=0)
    whole[: terms.classes - 1, terms.classes - 1] = -1.0
    q = max(float(found["q"][0]), terms.clients / terms.most)
    mean = found["mean"] @ whole / q
    triangle = np.zeros((number - 1, number - 1))
    triangle[np.triu_indices(number - 1)] = found["matrix"]
    full = whole.T @ (triangle + np.triu(triangle, 1).T) @ whole / q - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(full)
    covariance = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
    return Read(found, whole, q, mean, covariance, float(np.diag(full)[: terms.classes].sum()))


def opened(terms: Terms, state: State, seen: Read) -> State:
    """Return the state after the opening."""
    share, clients, mean = terms.volunteers / terms.clients, terms.clients, seen.mean
    even = log(share / (1.0 - share))
    equal = on_grid([even, *np.zeros(len(mean))])
    least = max(3e-4, 4.0 * terms.classes * terms.heaviest**2 / terms.most / sqrt(clients))
    state = replace(state, evaluations=1)
    if seen.trace < least:
        return replace(state, settled=True, base=equal, point=equal)
    kappa = max(float(on_grid(terms.skew_price / (terms.coverage * seen.trace))), 2.0**-14)
    square = seen.trace + float(mean[: terms.classes] @ mean[: terms.classes])
    spread = float(seen.sums["spread"][0]) / clients - square**2
    joint = seen.sums["spread"][1:] @ seen.whole / clients - square * mean
    if terms.weighted:
        state.mean_weight = float(on_grid(1.0 + mean[-1]))
        mean = np.append(mean[:-1], 0.0)
    hessian = (1.0 - share) * seen.covariance + np.diag(terms.ridge(kappa))
    b = np.linalg.solve(hessian, (1.0 - share) * kappa * joint - mean)
    b *= min(1.0, 2.0 / sqrt(float(b @ seen.covariance @ b)))
    variance = float(b @ seen.covariance @ b - 2.0 * kappa * b @ joint) + kappa**2 * spread
    variance = max(variance, 1e-9)
    excess = (0.5 - share) * min(variance, 4.0)
    point = on_grid([even + kappa * square - float(b @ mean) - excess, *b])
    reach = float(on_grid(min(1.0, variance**-0.5)))
    base, base_kappa = equal, 0.0
    if (remembers := float(seen.sums["remembers"][0])) >= clients / 4:
        base, base_kappa, reach = point, kappa, 1.0
        point = on_grid(np.append(seen.sums["intercept"], seen.every("prices")) / remembers)
    of_weights = float(np.diag(seen.covariance)[terms.classes :].sum())
    radius = min(state.radius, float(on_grid(4.0 * sqrt(square + of_weights))))
    state = replace(state, reach=reach, radius=radius, kappa=kappa, base_kappa=base_kappa)
    return replace(state, base=base, point=point)


def advanced(terms: Terms, state: State, seen: Read) -> State:
    """Return the state after a later evaluation."""
    wanted, ridge, q = terms.volunteers, terms.ridge(state.kappa), seen.q
    state = replace(state, evaluations=state.evaluations + 1)
    softplus = (seen.sums["above"] + seen.sums["bend"]) / wanted
    duals = [
        float(own - at[0] + ridge @ at[1:] ** 2 / 2)
        for own, at in zip(softplus, state.points(), strict=True)
    ]
    least = -terms.coverage * duals[0]
    duals[0] -= max(1e-3, 1024.0 / terms.most / sqrt(wanted))
    if state.reach and (best := int(np.argmin(on_grid(duals)))):
        to_guess = state.evaluations == 2 and state.base_kappa
        point = state.base if to_guess else on_grid(state.points()[best])
        return replace(state, point=point, reach=0.0)
    found, a, b = max(float(seen.sums["p"][0]), 1e-6 * wanted), state.point[0], state.point[1:]
    slope, ratio = min(max(q / found, 0.02), 1.0), wanted / found
    shift = log(ratio) / slope
    if ratio < 1.0:
        shift = log(ratio * slope / (1.0 - (1.0 - slope) * ratio))
    shift = min(max(shift, -6.0), 6.0)
    factor = exp(slope * shift)
    grown = (factor - 1.0) / slope * q
    missing, weight = (found + grown) / wanted - 1.0, q * factor / wanted
    gradient = (seen.every("moment") + grown * seen.mean) / wanted + ridge * b
    hessian = weight * seen.covariance + np.diag(ridge)
    step = np.linalg.solve(hessian, missing * seen.mean - gradient)
    deviation = max(sqrt(max(float(step @ seen.covariance @ step), 0.0)), 1e-9)
    part = min(1.0, 30.0 / deviation)
    gain = terms.coverage * float(step @ hessian @ step) / 2.0
    small = deviation < 0.1 or gain < 1e-3 * max(1.0, least)
    moved = a + shift - missing / weight - part * float(seen.mean @ step)
    return replace(
        state,
        settled=small and abs(found / wanted - 1.0) < 0.02,
        reach=float(on_grid(min(1.0, 1.0 / deviation))),
        shift=float(on_grid(shift)),
        base_kappa=state.kappa,
        base=state.point,
        point=on_grid([moved, *(b + part * step)]),
    )


def probability(terms: Terms, state: State, node: Node, dither: float) -> float:
    """Return with what probability a node volunteers: one of 16 levels."""
    share = terms.volunteers / terms.clients
    if not state.kappa:
        return share
    low, high = 0.02 * share, 1.0 - 0.02 * (1.0 - share)
    low, high = log(low / (1.0 - low)), log(high / (1.0 - high))
    prices, kappa = state.prices()
    own = float(prices[0] + prices[1:] @ features(state, node)) - kappa * node.square
    own, step = min(max(own, low), high), (high - low) / 15
    level = min(int((own - low) / step), 14)
    exact, below, above = (
        1.0 / (1.0 + exp(-logit)) for logit in (own, low + level * step, low + (level + 1) * step)
    )
    return above if exact - below > dither * (above - below) else below


def epoch(
    announced: ref.Announced,
    label_counts: Sequence[Sequence[int]],
    seed: int,
    sequence: int,
    remembered: Sequence[float] = (),
) -> tuple[list[float], list[float], int]:
    """Return each node's probability, what all of them keep, and how many sums it took."""
    terms = Terms(announced, len(label_counts[0]), len(label_counts))
    most, mean = terms.num_sums(), ref.mean_size(label_counts)
    if not most or terms.volunteers >= terms.clients:
        return [min(1.0, terms.volunteers / terms.clients)] * terms.clients, [], 0
    nodes = []
    for counts in label_counts:
        weight = ref.weight(sum(counts), mean) if terms.weighted else 1.0
        shares = np.array(ref.fixed_point(counts)) / ref.SCALE
        nodes.append(Node(weight * (shares - terms.target), weight))
    state, kept = first(terms), remembered
    for exchange in range(most + 1):
        draws = [
            ref.generator(seed, "rounding", str(row), sequence, exchange)
            for row in range(len(nodes))
        ]
        if exchange:
            found = [
                probability(terms, state, node, rng.random())
                for node, rng in zip(nodes, draws, strict=True)
            ]
            if state.settled or exchange == most:
                break
        told = [numbers(terms, state, *pair, kept) for pair in zip(nodes, draws, strict=True)]
        seen = read(terms, state, [sum(column) for column in zip(*told, strict=True)])
        state = (advanced if exchange else opened)(terms, state, seen)
    return found, state.prices()[0].tolist() if state.evaluations > 1 else [], state.evaluations
