"""A second implementation of prices, written from docs/reference/wire.md alone."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt, log, pi, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from vectors import reference as ref

Floats = NDArray[np.float64]

UNIT: Final = 2**18
"""Steps per client of a number in a slot."""
MOST_SUMS: Final = 9
LATER = 2.0
"""Factor of the noise in an epoch that goes on from another one."""
REMEMBERED: Final = 6


class Terms:
    """The announced terms, and the number of nodes."""

    def __init__(self, announced: ref.Announced, num_classes: int, num_clients: int) -> None:
        settings = json.loads(announced["rule-settings"])
        self.coverage = settings.get("coverage", 0.15)
        self.local_skew = settings.get("local_skew", 0.0)
        self.target = settings.get("target")
        self.classes, self.clients = num_classes, num_clients
        self.weighted = bool(announced["weighted"])
        self.heaviest = 4.0 if self.weighted else 1.0
        self.max_clients = announced["max-clients"]
        self.participants: int = announced["num-participants"]
        self.sigma = float(settings.get("noise", 1.5))
        self.blur = 0.6 / num_classes if self.sigma and num_classes < 10 else 0.0
        """Standard deviation of the lasting noise on a share."""
        ample = self.participants + isqrt(self.participants)
        wanted = max(40 if self.sigma else 0, ample)
        self.volunteers = max(self.participants, min(wanted, num_clients // 4 + 7))
        """V: the wanted number of volunteers where sums are taken."""
        self.drawn = min(self.volunteers, ample)
        """The wanted number of volunteers for a draw."""
        if "continues" in announced:
            self.sigma *= LATER
        self.members = 0 if announced["has-agent"] else 3
        self.times = float(self.members or 2)
        """Variance of the noise in a sum over all nodes, in multiples of sigma^2."""
        self.has_prices = self.volunteers < num_clients
        self.drowns = self.sigma != 0 and self.volunteers < 12

    @property
    def sum_budget(self) -> float:
        """Return the budget of sums: how many a node's label counts may enter."""
        has_limit = self.sigma and self.has_prices and not self.drowns
        return int(4 * self.sigma**2) if has_limit else float("inf")

    @property
    def most_sums(self) -> int:
        """Return the most sums of an epoch, which spend at most two thirds of the budget."""
        return min(MOST_SUMS, 2 * int(4 * self.sigma**2) // 3) if self.sigma else MOST_SUMS

    def width(self, number: int) -> int:
        """Return how many numbers a node contributes."""
        return self.classes + (number == 0) + self.weighted

    def room(self, number: int) -> int:
        """Return the offset added to each number, so that noise does not make it negative."""
        of_p = 6.0 * UNIT * self.sigma
        of_class = of_p / sqrt(self.classes)
        if number:
            return ceil((of_p if self.weighted else of_class) * sqrt(0.1))
        return ceil(of_class / 12 * sqrt(2.0 * max(self.max_clients, 80)))

    def largest(self, number: int) -> int:
        """Return the largest number in a slot."""
        return int(self.heaviest) * UNIT + 2 * self.room(number)

    def deviations(self, number: int) -> list[float]:
        """Return the standard deviation of the noise in each sum, in clients."""
        of_class = self.sigma / sqrt(self.classes)
        if number:
            return [of_class] * self.classes + [self.sigma] * self.weighted
        return [of_class * max(self.clients / self.volunteers, 5 / 3)] * self.width(0)


@dataclass
class State:
    """The state that all nodes share in the middle of an epoch."""

    terms: Terms
    num_sums: int = 0
    settled: bool = False
    opening: list[float] = field(default_factory=list)
    point: list[float] = field(default_factory=list)
    sums: list[tuple[list[float], list[float], float]] = field(default_factory=list)
    """Each later sum, newest first: the point, the means, and the variance of their noise."""


@dataclass
class Node:
    """A node's ``w p``, its weight, and what it keeps between epochs."""

    labels: list[float]
    weight: float
    seen: Floats = field(default_factory=lambda: np.zeros(0))
    """Its ``w p`` with lasting noise."""
    spent: float = 0.0
    """The spent part of its budget of sums."""
    chance: float = 0.0
    """The probability with which it draws, times N / K."""
    taken_at: float = 0.0
    """What was spent when it took this chance."""
    counts: Sequence[int] = ()
    """The label counts that it uses."""
    others: list["Node"] = field(default_factory=list)
    """The same node with the label counts that it used before."""

    def going_by(self, counts: Sequence[int]) -> "Node":
        """Return the node after it has read these label counts."""
        known = [self, *self.others]
        near = [each for each in known if each.spent and close(each.counts, counts)]
        found = min(near, key=lambda each: (each is not self, -each.spent), default=Node([], 1.0))
        found.counts = found.counts or counts
        found.others = [each for each in known if each is not found]
        return found

    def is_spent(self, terms: Terms) -> bool:
        """Return whether its budget of sums is spent."""
        return self.spent + self.cost(terms) > 1 + 1e-9

    def cost(self, terms: Terms) -> float:
        """Return the part of its budget of sums that one sum costs."""
        return max(1.0, self.weight) ** 2 / terms.sum_budget

    def drawn(self, latest: float, terms: Terms) -> float:
        """Return the probability with which it draws, and keep it."""
        average = terms.participants / terms.clients
        if latest == average or terms.sum_budget == float("inf"):
            return latest
        if self.spent < 5.0 * self.taken_at - 1e-9:
            return min(1.0, self.chance * average)
        self.chance, self.taken_at = latest / average, max(self.spent, 1 / 36)
        return latest


def close(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether less than a tenth of the samples have another class."""
    shares = [[Fraction(number, sum(counts)) for number in counts] for counts in (one, other)]
    moved = [abs(a - b) for a, b in zip(*shares, strict=True)]
    return bool(sum(moved) / 2 < Fraction(1, 10))


# --- what a node tells ----------------------------------------------------------------------------


def normals(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return normal numbers."""
    radius, angle = rng.random((2, *shape))
    return np.asarray(np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * pi * angle))


def noise(terms: Terms, number: int, rng: np.random.Generator, share: float) -> list[int]:
    """Return the noise of one party, which adds a share of the variance."""
    deviations = np.array(terms.deviations(number))
    found = normals(rng, deviations.shape) * deviations * sqrt(share) * UNIT
    return [round(each) for each in found.tolist()]


def blurred(labels: Floats, weights: Floats, noise: Floats) -> Floats:
    """Return ``w q`` with the label distributions q that are nearest to ``p + noise``."""
    noisy = labels / weights[:, None] + noise
    low, high = noisy.min(axis=1) - 1.0, noisy.max(axis=1)
    for _ in range(60):  # the parts above this level add up to 1
        level = (low + high) / 2.0
        is_low = np.maximum(noisy - level[:, None], 0.0).sum(axis=1) > 1.0
        low, high = np.where(is_low, level, low), np.where(is_low, high, level)
    return np.asarray(weights[:, None] * np.maximum(noisy - low[:, None], 0.0))


def look(terms: Terms, nodes: Sequence[Node], seed: int) -> None:
    """Blur what the nodes see of their own labels."""
    for name, node in enumerate(nodes):
        node.seen = np.array(node.labels)
        if terms.blur:
            rng = ref.generator(int.from_bytes(ref.draw_key(seed, "lasting", str(name))), "blur")
            noise = terms.blur * normals(rng, (1, terms.classes))
            node.seen = blurred(node.seen[None], np.array([node.weight]), noise)[0]


def numbers(state: State, node: Node, rng: np.random.Generator, *, is_spent: bool) -> list[int]:
    """Return a node's contribution to the next sum."""
    terms, number = state.terms, state.num_sums
    if number:
        p = sigmoid(logit(state, node))
        values = [p * share for share in node.labels] + [p] * terms.weighted
    else:
        square = sum(share * share for share in node.labels)
        values = [*node.labels, square / terms.heaviest]
        values += [node.weight**2 / terms.heaviest] * terms.weighted
    if is_spent:
        values = neutral(state)
    if terms.drowns or not terms.has_prices:
        values = [0.0] * len(values)
    room, most = terms.room(number), terms.largest(number)
    share = 0.0 if terms.members else 2.0 / terms.clients
    return [
        min(max(round(min(max(value, 0.0), terms.heaviest) * UNIT) + room + extra, 0), most)
        for value, extra in zip(values, noise(terms, number, rng, share), strict=True)
    ]


def neutral(state: State) -> list[float]:
    """Return what a node with a spent budget contributes before noise."""
    terms = state.terms
    if not state.num_sums:
        squares = [1.0 / terms.heaviest] * (1 + terms.weighted)
        return [1.0 / terms.classes] * terms.classes + squares
    known, part = scale(state), terms.volunteers / terms.clients
    ridge = known.c / (2.0 * (terms.participants - 1))
    wanted = known.weight * known.target - ridge * np.array(state.point[1 : 1 + terms.classes])
    return [*(part * wanted).tolist(), *[part] * terms.weighted]


# --- what the opening says ------------------------------------------------------------------------


class Scale(NamedTuple):
    """Target, mean weight, c and kappa."""

    target: Floats
    weight: float
    c: float
    kappa: float


def scale(state: State) -> Scale:
    """Return what the opening says about the clients."""
    terms = state.terms
    labels, (square, weight_square, deviation) = np.array(state.opening[:-3]), state.opening[-3:]
    weight, target = float(labels.sum()), np.full(terms.classes, 1.0 / terms.classes)
    if terms.target == "own":
        positive = np.maximum(labels, 0.0)
        target = positive / positive.sum()
    elif terms.target:
        target = np.array(terms.target)
    trace = square + weight_square * float(target @ target - 2.0 * target @ labels / weight)
    trace += terms.classes * deviation**2 - float(((labels - weight * target) ** 2).sum())
    if trace < 3e-4 and not deviation:
        return Scale(target, weight, 0.0, 0.0)
    c = terms.coverage * max(trace, deviation, 3e-4)
    return Scale(target, weight, c, (1.0 + terms.local_skew) / c)


def clipped_opening(terms: Terms, means: list[float]) -> list[float]:
    """Return the means of an opening, moved to values that clients can have."""
    labels, square, weight, weight_square = means[: terms.classes], means[terms.classes], 1.0, 1.0
    if terms.weighted:
        weight = min(max(sum(labels), 0.25), 4.0)
        weight_square = min(max(4.0 * means[-1], weight**2), 16.0)
    square = min(max(terms.heaviest * square, weight_square / terms.classes), weight_square)
    missing = (weight - sum(labels)) / terms.classes
    return [*(share + missing for share in labels), square, weight_square]


# --- synthetic clients ----------------------------------------------------------------------------


def newton_minimum(
    rows: Floats,
    curve: Callable[[Floats], tuple[float, Floats, Floats]],
    linear: Floats,
    ridge: Floats,
    at: Floats,
    *,
    reach: float,
) -> Floats:
    """Return the minimum of ``curve(rows at) + linear . at + ridge . at^2 / 2``, by Newton."""

    def value(where: Floats) -> float:
        return curve(rows @ where)[0] + float(linear @ where + ridge @ where**2 / 2.0)

    for _ in range(100):
        _, first, second = curve(rows @ at)
        slope = rows.T @ first + linear + ridge * at
        bend = rows.T @ (second[:, None] * rows) + np.diag(ridge)
        # Scaled to a unit diagonal, so that prices without curvature do no harm.
        units = np.outer(np.sqrt(np.diag(bend)), np.sqrt(np.diag(bend)))
        step = -np.linalg.solve(bend / units, slope / np.sqrt(np.diag(bend)))
        step /= np.sqrt(np.diag(bend))
        decrement, before = -float(slope @ step), value(at)
        if decrement <= 1e-14:
            return np.asarray(at + step)
        part = min(1.0, reach / float(abs(rows @ step).max()))
        for _ in range(19):
            if value(at + part * step) <= before - 1e-4 * part * decrement + 1e-13 * abs(before):
                break
            part /= 2.0
        at = at + part * step
    return at


@dataclass
class Synthetic:
    """Synthetic clients: ``w p``, w, and each one's share of all clients."""

    labels: Floats
    weights: Floats
    shares: Floats

    def fit(self, answers: Floats, means: Floats, ridge: Floats) -> "Synthetic":
        """Return the clients with the nearest shares for which the answers have these means."""

        def curve(logs: Floats) -> tuple[float, Floats, Floats]:
            shares = self.shares * np.exp(np.minimum(logs, 50.0))
            return float(shares.sum()), shares, shares

        found = newton_minimum(answers, curve, -means, ridge, np.zeros(len(means)), reach=3.0)
        return Synthetic(self.labels, self.weights, curve(answers @ found)[1])


@lru_cache(maxsize=1)
def synthetic(terms: Terms, opening: tuple[float, ...]) -> Synthetic:
    """Return synthetic clients that fit an opening."""
    classes, weight = terms.classes, sum(opening[: terms.classes])
    square, weight_square, deviation = opening[terms.classes :]
    away = [share / weight - 1.0 / classes for share in opening[:classes]]
    length = max(sum(part * part for part in away), 1e-12)
    seen = max(0.0, 1.0 - classes * (deviation / weight) ** 2 / length)
    mean = np.array([max(1.0 / classes + seen * part, 0.05 / classes) for part in away])
    mean = mean / mean.sum()
    of_mean = float((mean**2).sum())
    spread = (square / weight_square - of_mean) / (1.0 - of_mean)
    spread = min(max(spread, 0.003), 0.97)
    concentration = (1.0 - spread) / spread
    logs, radius, angle = ref.generator(0, "synthetic clients", classes).random((3, 3000, classes))
    relative = np.repeat([1.0, 3.0, 0.25], [1800, 600, 600])
    shape = relative[:, None] * concentration * mean
    normal = np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * np.pi * angle)
    cube = 1.0 - 1.0 / (9.0 * (shape + 1.0)) + normal / (3.0 * np.sqrt(shape + 1.0))
    size = 3.0 * np.log(np.maximum(cube, 0.01)) + np.log(shape + 1.0) + np.log1p(-logs) / shape
    drawn = np.exp(size - size.max(axis=1, keepdims=True))
    clients = [*(drawn / drawn.sum(axis=1, keepdims=True)), mean]
    shares = [0.85 / 3000] * 3000 + [0.01]
    blends = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0] if classes <= 100 else [0.3, 1.0]
    for part in blends:
        for label in range(classes):
            clients.append((1.0 - part) * mean + part * np.eye(classes)[label])
            shares.append(0.14 / len(blends) * mean[label])
    weights = np.full(len(shares), weight)
    if terms.weighted:
        widest = max(weight_square, weight**2 + 16.0 * deviation, 1.001 * weight**2)
        variance = log(widest / weight**2)
        normal = -1.5 + 0.5 * (np.arange(len(shares)) % 7)
        own = weight * np.exp(sqrt(variance) * normal - variance / 2.0)
        weights = np.clip(own, 0.25, 4.0)
    found = Synthetic(weights[:, None] * clients, weights, np.array(shares))
    ones, squares = np.ones(len(shares)), (found.labels**2).sum(axis=1)
    answers = np.column_stack([found.labels, ones, squares, found.weights**2])
    means = np.array([*opening[:classes], 1.0, square, weight_square])
    ridges = [terms.clients * (deviation**2 + 0.002**2 / classes)] * len(means)
    ridges[classes] = terms.clients * 0.002**2 / classes
    return found.fit(answers, means, np.array(ridges))


def reweighted(state: State, clients: Synthetic, rows: Floats, costs: Floats) -> Synthetic:
    """Return the clients with shares that fit the latest sums."""
    terms, blocks = state.terms, []
    for age, (point, means, variance) in enumerate(state.sums[:REMEMBERED]):
        p = sigmoid(rows @ point - costs)
        answers = [*(p * column for column in clients.labels.T), p]
        misfit = (0.002 * terms.volunteers) ** 2
        of_class = (0.3 * variance + misfit) / terms.classes
        ridges = [of_class] * terms.classes + [0.05 * variance + misfit]
        told = means if terms.weighted else [*means, sum(means)]
        block = list(zip(answers, told, ridges, strict=True))
        blocks += block[-1:] if age and (age + 1) * terms.classes > 600 else block
    if not blocks:
        return clients
    columns, wanted, resists = zip(*blocks, strict=True)
    return clients.fit(np.array(columns).T, np.array(wanted), np.array(resists) / terms.clients)


# --- prices ---------------------------------------------------------------------------------------


def advanced(state: State, sums: Sequence[int]) -> State:
    """Return the state after a sum over all nodes."""
    terms, number = state.terms, state.num_sums
    room = terms.room(number)
    means = [(number / terms.clients - room) / UNIT for number in sums]
    deviations = [one * sqrt(terms.times) / terms.clients for one in terms.deviations(number)]
    for mean, deviation in zip(means, deviations, strict=True):
        assert -8 * deviation - 1e-4 <= mean <= terms.heaviest + 8 * deviation + 1e-4
    if number:
        heard = (state.point, means, terms.times * terms.sigma**2)
        history = [heard, *state.sums]
        state = replace(state, num_sums=number + 1, sums=history)
    else:
        state = State(terms, 1, False, [*clipped_opening(terms, means), deviations[0]])
    told = scale(state)
    if not told.kappa:
        state.settled = True
        return state
    state.point, gain = best_prices(state, terms.volunteers)
    if number:
        of_p = means[-1] if terms.weighted else sum(means)
        missed = abs(terms.clients / terms.volunteers * of_p - 1.0)
        relative = terms.sigma * sqrt(terms.times) / terms.volunteers
        state.settled = missed < 0.02 + 2.0 * relative and gain < 0.003 + 2.0 * relative**2
    return state


def best_prices(state: State, wanted: float) -> tuple[list[float], float]:
    """Return the prices for a number of volunteers, and what they gain.

    They minimise the dual over synthetic clients.
    """
    terms, told = state.terms, scale(state)
    clients = synthetic(terms, tuple(state.opening))
    seen = clients.labels
    if terms.blur:
        rng = ref.generator(0, "lasting noise", terms.classes)
        seen = blurred(seen, clients.weights, terms.blur * normals(rng, seen.shape))
    x = seen - np.outer(clients.weights, told.target)
    columns = [np.ones(len(x)), *x.T]
    columns += [clients.weights - told.weight] * terms.weighted
    rows, costs = np.array(columns).T, told.kappa * (x**2).sum(axis=1)
    clients = reweighted(state, clients, rows, costs)
    factor = terms.clients / wanted
    start = np.zeros(rows.shape[1])
    start[0] = float(clients.shares @ costs)
    linear, ridge = np.zeros(len(start)), np.full(len(start), 1e-9)
    linear[0] = -1.0
    ridge[1 : 1 + terms.classes] = told.c / (2.0 * (terms.participants - 1))
    ridge[1 + terms.classes :] += 10.0 * state.opening[-1] ** 2
    if state.sums:
        point, means, variance = state.sums[0]
        start = np.array(point)
        chances = clients.shares * sigmoid(rows @ start - costs)
        lacking = np.array(means[: terms.classes]) - chances @ clients.labels
        of_p = means[-1] - float(chances.sum()) if terms.weighted else float(lacking.sum())
        length = float(lacking @ lacking) + of_p**2 * terms.weighted
        of_noise = 2.0 * variance * (2 if terms.weighted else 1) / terms.clients**2
        trust = terms.clients / terms.volunteers * max(0.0, 1.0 - of_noise / max(length, 1e-300))
        lacking, of_p = trust * lacking, trust * of_p
        total = float(lacking.sum())
        if terms.blur:
            linear[1 : 1 + terms.classes] += (
                terms.clients / terms.volunteers * (chances @ (clients.labels - seen))
            )
        linear[0] += of_p
        linear[1 : 1 + terms.classes] += lacking - total * told.target
        if terms.weighted:
            linear[-1] += total - told.weight * of_p

    def softplus(values: Floats) -> tuple[float, Floats, Floats]:
        weights, logits = factor * clients.shares, values - costs
        p = sigmoid(logits)
        return float(weights @ np.logaddexp(0.0, logits)), weights * p, weights * p * (1.0 - p)

    def dual(where: Floats) -> float:
        return softplus(rows @ where)[0] + float(linear @ where + ridge @ where**2 / 2.0)

    found = newton_minimum(rows, softplus, linear, ridge, start, reach=20.0)
    prices = np.rint(np.clip(found, -(2.0**20), 2.0**20) * 1024) / 1024
    return prices.tolist(), told.c * (dual(start) - dual(prices))


def sigmoid(logits: Any) -> Any:
    """Return P for a logit."""
    return np.exp(-np.logaddexp(0.0, -logits))


def logit(state: State, node: Node) -> float:
    """Return the logit of a node's P at a state's prices."""
    told, point = scale(state), np.array(state.point)
    x = node.seen - node.weight * told.target
    features = [1.0, *x] + [node.weight - told.weight] * state.terms.weighted
    return float(np.array(features) @ point - told.kappa * (x @ x))


def probability(terms: Terms, state: State, node: Node, dither: float) -> float:
    """Return the probability that a node volunteers: one of 16 levels."""
    if not scale(state).kappa:
        return terms.participants / terms.clients
    share = terms.drawn / terms.clients
    low, high = 0.02 * share, 1.0 - 0.02 * (1.0 - share)
    low, high = (np.log(part) - np.log1p(-part) for part in (low, high))
    own, step = min(max(logit(state, node), low), high), (high - low) / 15
    level = low + step * min(int((own - low) / step), 14)
    exact, below, above = (float(sigmoid(each)) for each in (own, level, level + step))
    return above if exact - below > dither * (above - below) else below


def nodes_of(
    announced: ref.Announced, label_counts: Sequence[Sequence[int]], before: Sequence[Node]
) -> list[Node]:
    """Return the nodes after they have read their label counts; none before the first epoch."""
    mean, found = ref.mean_size(label_counts), []
    terms = Terms(announced, len(label_counts[0]), len(label_counts))
    most = 1.2 if terms.sigma else 4.0
    earlier = before or [Node([], 1.0) for _ in label_counts]
    for counts, last in zip(label_counts, earlier, strict=True):
        node = last.going_by(counts)
        node.weight = min(most, ref.weight(sum(counts), mean)) if announced["weighted"] else 1.0
        shares = ref.fixed_point(node.counts)
        node.labels = [node.weight * share / ref.SCALE for share in shares]
        found.append(node)
    return found


def epoch(
    announced: ref.Announced,
    nodes: Sequence[Node],
    seed: int,
    sequence: int,
    last: State | None = None,
) -> tuple[list[float], State | None, int]:
    """Return each node's probability, the last state, and the number of sums.

    If the epoch goes on from the last one, `last` is that epoch's last state.
    The nodes count the sums that they enter, and keep what outlasts the epoch.
    """
    terms = Terms(announced, len(nodes[0].labels), len(nodes))
    state = State(terms)
    if last is not None and "continues" in announced:
        point = last.point or [0.0] * (1 + terms.width(1))
        state = replace(last, terms=terms, num_sums=1, settled=False, point=point)
    look(terms, nodes, seed)

    def rngs(number: int) -> list[np.random.Generator]:
        """Return each node's random generator for a sum."""
        names = map(str, range(terms.clients))
        return [ref.generator(seed, "rounding", name, sequence, number) for name in names]

    def add_up(draws: Sequence[np.random.Generator]) -> list[int]:
        """Let all nodes contribute."""
        told = []
        for node, rng in zip(nodes, draws, strict=True):
            is_spent = node.is_spent(terms)
            told.append(numbers(state, node, rng, is_spent=is_spent))
            node.spent = min(1.0, node.spent + node.cost(terms))
        for place in range(terms.members):
            rng = ref.generator(seed, "member", sequence, number, place)
            told.append(noise(terms, state.num_sums, rng, 1.0))
        return ref.added(told)

    number = 0
    sums = add_up(rngs(number))
    if not terms.has_prices or terms.drowns:
        return [min(1.0, terms.participants / terms.clients)] * terms.clients, None, 1
    while True:
        state = advanced(state, sums)
        number += 1
        draws = rngs(number)
        dithers = [rng.random() for rng in draws]
        if state.settled or state.num_sums >= terms.most_sums:
            break
        sums = add_up(draws)
    drawing = state
    if scale(state).kappa:
        drawing = replace(state, point=best_prices(state, terms.drawn)[0])
    found = [
        probability(terms, drawing, node, dither)
        for node, dither in zip(nodes, dithers, strict=True)
    ]
    drawn = [node.drawn(latest, terms) for node, latest in zip(nodes, found, strict=True)]
    return drawn, state, number
