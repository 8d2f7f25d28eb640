"""The result of studying your own federation: tables, and a verdict in words.

`dubhe_lab.study` selects clients without training and hands the distances to `FederationStudy`.
The verdict rests on a formula that turns distances from uniform into points of accuracy
(`points_of_digits`). It was fitted to training runs on handwritten digits in random federations,
so other federations get a range instead of a number. `dubhe paper verdict` measures how well the
verdict holds.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from io import StringIO
from math import isfinite
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.jupyter import JupyterMixin
from rich.text import Text

from dubhe_flwr.adapter.arguments import DubheArguments
from dubhe_flwr.core.prices import PrivacyBound
from dubhe_lab.report.methods import method_label
from dubhe_lab.report.table import Table

_LEGEND: Final = (
    "Distances from uniform range from 0 (all classes equally frequent) to 2. The pooled data of "
    "ten rounds matters most for the model. Skew of clients: how far each client is from its "
    "round's mix. Clients trained: at least once in this study. kB: all nodes together."
)
_VERDICTS: Final = {
    "much": "Dubhe helps a lot here.",
    "little": "Dubhe helps a little here.",
    "not": "Dubhe hardly helps here.",
}
_NINE_OF_TEN: Final = {"much": (2.7, 17.7), "little": (-1.1, 5.8), "not": (-1.7, 1.1)}
_MOST_POINTS: Final = 15.0
_FITTED_CLASSES: Final = 10
_FITTED_CLIENTS: Final = range(25, 301)
_FITTED_PARTICIPANTS: Final = range(3, 41)
_ELSEWHERE: Final = (1 / 3, 2)
"""Smallest and largest ratio of actual to predicted gain in federations unlike the fitted ones."""


def points_of_digits(emd: float, lasting: Sequence[float], distance: Sequence[float]) -> float:
    """Return roughly the points of accuracy that Dubhe gains on handwritten digits, at most 15.

    `lasting` (ten rounds pooled) and `distance` (one round) hold the distances from uniform with
    random selection and with Dubhe. The formula cubes `lasting`, since losing more of a class costs
    more the rarer it already is. Single rounds matter where clients hold few classes. The
    coefficients are fitted; see docs/verdict.md.

    >>> round(points_of_digits(1.0, lasting=(0.5, 0.1), distance=(0.6, 0.2)), 1)
    7.0
    """
    lasts = lasting[0] ** 3 - lasting[1] ** 3
    return min(
        _MOST_POINTS, 35.0 * (0.5 + emd) * lasts + 1.1 * emd**3 * (distance[0] - distance[1])
    )


def _points(points: float) -> str:
    rounded = round(points, 1) + 0.0  # not -0.0
    return f"{rounded:.1f}" if points < _MOST_POINTS else f"{points:.0f} or more"


def _rounded(seconds: float) -> str:
    """Return a measured time to one digit, since further digits differ from run to run.

    >>> [_rounded(seconds) for seconds in (0.0114, 0.086, 0.0004, 21.0)]
    ['0.01', '0.09', '< 0.001', '20']
    """
    return f"{float(f'{seconds:.1g}'):g}" if seconds >= 0.001 else "< 0.001"


def verdict_on(points: float) -> str:
    """Return the verdict on predicted points: "much" from 5, "little" from 0.5, else "not".

    >>> [verdict_on(points) for points in (5.0, 4.9, 0.5, 0.4)]
    ['much', 'little', 'little', 'not']
    """
    return "much" if points >= 5.0 else "little" if points >= 0.5 else "not"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The balance that a selection method reached, as means over the rounds.

    `distance` is ``||p_o - p_u||_1``, from 0 to 2, with clients weighted as the strategy averages
    them. `lasting` is the same for the mean p_o of ten consecutive rounds, which matters most for
    the model. `local_skew` is ``||p_l - p_o||_1`` of the selected clients, and `coverage` the share
    of clients selected at least once.
    """

    distance: float
    lasting: float
    local_skew: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Dubhe's cost in a round besides training, for all nodes together.

    `node_seconds` is the median node's computing time on this machine, encryption included.
    """

    exchanges: float
    messages: float
    bytes_up: float
    bytes_down: float
    node_seconds: float


@dataclass(frozen=True, kw_only=True)
class FederationStudy(JupyterMixin):
    """The result of `dubhe_lab.study`; `helps` and `verdict` say whether Dubhe helps, and why.

    A notebook displays it as a terminal does.

    Parameters
    ----------
    read : str
        What was read from the table: classes and totals.
    extremes : str
        The smallest and the largest client, with their names, which `to_dict` leaves out.
    num_clients, num_classes : int
        ``N`` and ``C``.
    sizes : tuple of int
        Samples of the smallest, the median and the largest client.
    rho, emd : float
        Size of the largest class over the smallest, and EMD_avg: how much clients differ, 0 to 2.
    global_emd : float
        How far the data of all clients together is from uniform, from 0 to 2.
    methods : mapping of str to Reached
        Results of random selection, Dubhe, and the greedy oracle, which sees all labels.
    costs : mapping of str to Cost
        Costs of a round with a registration, and of one without.
    arguments : DubheArguments
        The settings that Dubhe selected with.
    privacy : PrivacyBound, optional
        What Dubhe's noisy sums reveal about one client at worst; None if sums are exact.
    sweep : mapping of int to mapping of str to Reached
        Results of random selection and Dubhe for this and other numbers of participants.
    lasting_range : tuple of float, optional (default: one registration)
        Dubhe's `lasting` in nine of ten registrations, if `methods` has the mean over many.
    """

    read: str
    extremes: str
    num_clients: int
    num_classes: int
    sizes: tuple[int, int, int]
    rho: float
    emd: float
    global_emd: float
    methods: Mapping[str, Reached]
    costs: Mapping[str, Cost]
    arguments: DubheArguments
    privacy: PrivacyBound | None
    sweep: Mapping[int, Mapping[str, Reached]]
    lasting_range: tuple[float, float] | None = None

    @property
    def points(self) -> float:
        """Points of accuracy that Dubhe would gain if the samples were handwritten digits."""
        return self._points_of(self.methods)

    def _points_of(self, methods: Mapping[str, Reached]) -> float:
        both = [methods[name] for name in ("random", "dubhe")]
        return points_of_digits(self.emd, [m.lasting for m in both], [m.distance for m in both])

    @property
    def chance(self) -> str | None:
        """Why labels do not influence who trains, so that only chance is at work; else None."""
        return self._chance_with(self.arguments.num_participants)

    def _chance_with(self, wanted: int) -> str | None:
        """Return the same for another number of participants."""
        arguments = replace(self.arguments, num_participants=wanted)
        return None if arguments.determined.has_agent else arguments.remark(self.num_clients)

    @property
    def helps(self) -> str:
        """The verdict in a word: "much", "little" or "not"; see `verdict_on`."""
        return "not" if self.chance else verdict_on(self.points)

    @property
    def verdict(self) -> str:
        """Three paragraphs: the verdict with its reason, the distances, and the gain.

        Only the first one if chance selects.
        """
        random, dubhe = (self.methods[name] for name in ("random", "dubhe"))
        is_near = 2 * self.arguments.num_participants > self.num_clients
        if self.chance:
            return f"{_VERDICTS[self.helps]} {self.chance}{self._transposed()}"
        why = f" {self._reason()}" if is_near or self.helps != "much" else ""
        return (
            f"{_VERDICTS[self.helps]}{why} {self._assumption()}"
            f"\n\nThe pooled data of ten rounds is {random.lasting:.2f} from uniform with random "
            f"selection and {dubhe.lasting:.2f} with Dubhe; for a single round it is "
            f"{random.distance:.2f} and {dubhe.distance:.2f}. {self._noise()}"
            f"Clients differ by {self.emd:.2f}."
            f"\n\n{self._worth()}{self._weights()}"
        )

    def _assumption(self) -> str:
        """Return which test the verdict is about, and what to expect from another one."""
        return (
            "This assumes that every class counts the same in your test (balanced accuracy). If "
            f"your test has the federation's own mix, which is {self.global_emd:.2f} from uniform, "
            f"Dubhe gains nothing: random selection already has {self._near()}that mix, and the "
            "more skewed it is, the more accuracy Dubhe costs."
        )

    @property
    def _sizes_differ(self) -> bool:
        """Whether the largest client is more than a tenth larger than the smallest."""
        smallest, _, largest = self.sizes
        return largest > 1.1 * smallest

    def _near(self) -> str:
        return "nearly " if self.arguments.equal_weights and self._sizes_differ else ""

    def _noise(self) -> str:
        """Return how far the noise of a registration may move Dubhe's figures."""
        if self.lasting_range is None:
            return ""
        low, high = self.lasting_range
        return (
            "Dubhe's figures are means over many registrations; with the noise of a single one, "
            f"the data of ten rounds is {low:.2f} to {high:.2f} from uniform in nine of ten runs. "
        )

    def _worth(self) -> str:
        """Return the expected gain: a number where the formula was fitted, else a range."""
        least, most = _NINE_OF_TEN[self.helps]
        if not (differences := self._unlike_fitted()):
            return (
                f"On handwritten digits that is worth {_points(self.points)} points of accuracy "
                "after 60 rounds. Nine in ten such federations with this verdict gained "
                f"{least} to {most}."
            )
        *first, last = differences
        listed = f"{', '.join(first)} and {last}" if first else last
        less, more = sorted(factor * self.points for factor in _ELSEWHERE)  # points may be negative
        return (
            f"Expect {min(least, less):.1f} to {max(most, more):.1f} points of accuracy. This is a "
            "range because the formula was fitted to handwritten digits, with ten classes and 25 "
            f"to 300 clients of equal size, and you have {listed}."
        )

    def _unlike_fitted(self) -> list[str]:
        """Return how this federation differs from the ones that the formula was fitted to."""
        unlike = {
            f"{self.num_classes} classes": self.num_classes != _FITTED_CLASSES,
            f"{self.num_clients} clients": self.num_clients not in _FITTED_CLIENTS,
            "clients of different sizes": self._sizes_differ,
            f"{self.arguments.num_participants} clients in a round": (
                self.arguments.num_participants not in _FITTED_PARTICIPANTS
            ),
        }
        return [what for what, differs in unlike.items() if differs]

    def _weights(self) -> str:
        if self.arguments.equal_weights or not self._sizes_differ:
            return ""
        return (
            " Clients are weighted by size, as in FedAvg; if your strategy weights them equally, "
            "add --equal-weights (in Python equal_weights=True)."
        )

    @property
    def code(self) -> str:
        """The settings as code to paste into a server app."""
        rule = self.arguments.rule
        lines = ["from flwr.serverapp.strategy import FedAvg", ""]
        given = _changed(self.arguments, without={"seed", "simulation"})  # set by every study
        names = ["Tries"] if "determination" in given else []
        if "rule" in given:
            name, own = type(rule).__name__, _changed(rule).items()
            given["rule"] = f"{name}({', '.join(f'{key}={value}' for key, value in own)})"
            names.insert(0, name)
        if names:
            lines.append(f"from dubhe_flwr.rules import {', '.join(names)}")
        lines.append("from dubhe_flwr.serverapp import Dubhe  # with server_fn: dubhe_flwr.server")
        values = ["    FedAvg(),", *(f"    {key}={value}," for key, value in given.items())]
        return "\n".join([*lines, "", "strategy = Dubhe(", *values, ")"])

    def to_dict(self) -> dict[str, Any]:
        """Return all results as JSON values, without the names of clients."""
        rho = self.rho if isfinite(self.rho) else None  # JSON has no infinity
        sweep = {str(wanted): of for wanted, of in asdict(self)["sweep"].items()}
        found = asdict(self) | {"arguments": self.code, "rho": rho, "sweep": sweep}
        del found["extremes"]
        return {"helps": self.helps, "verdict": self.verdict, "points": self.points, **found}

    def __str__(self) -> str:
        page = StringIO()
        Console(file=page, width=80).print(self)
        return page.getvalue()

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        """Yield the text for a terminal."""
        yield Text(f"{self.read}\n{self.extremes}")
        yield self.findings()

    def findings(self) -> RenderableType:
        """Return the text for a terminal that already shows what was read."""
        tables = (table.for_terminal() for table in self._tables())
        code = [Text(f"\n{self.code}\n")] if self.helps != "not" else []
        first, *others = self.verdict.split("\n\n")
        verdict = Text("\n\n").join([Text(first, style="bold"), *map(Text, others)])
        legend = Text(f"{self._legend()}\n")
        return Group(Text(self._facts()), "", *tables, legend, verdict, *code)

    def _facts(self) -> str:
        classes = (
            f"The largest class has {self.rho:.3g} times as many samples as the smallest (rho)"
            if isfinite(self.rho)
            else "Some classes have no samples"
        )
        return (
            f"The median client has {self.sizes[1]} samples. {classes}; clients differ by "
            f"{self.emd:.2f} (EMD_avg)."
        )

    def _legend(self) -> str:
        return _LEGEND if self.privacy is None else f"{_LEGEND} {self.privacy}"

    def _transposed(self) -> str:
        hint = " Each row should be a client: is the table transposed?"
        return hint if self.num_clients < self.num_classes else ""

    def _reason(self) -> str:
        number, wanted = self.num_clients, self.arguments.num_participants
        random, dubhe, greedy = (
            self.methods[name].lasting for name in ("random", "dubhe", "greedy")
        )
        if 2 * wanted > number:
            return f"Selecting {wanted} of {number} clients leaves little choice: select fewer."
        if number < 20:
            return f"{number} clients leave little choice.{self._transposed()}"
        if random < 0.25:
            return "Over ten rounds, random selection is already balanced."
        if self.emd < 0.5:
            return "All clients hold a similar mix, so it matters little which of them train."
        if round(greedy, 2) <= round(dubhe, 2) and 2 * greedy > random:
            return f"Even greedy selection, which sees all labels, only gets to {greedy:.2f}."
        how = "not far behind" if random > dubhe else "at least as balanced over ten rounds"
        return f"Random selection is {how}."

    def _tables(self) -> list[Table]:
        reached = [
            (
                method_label(name),
                *(f"{value:.2f}" for value in (own.distance, own.lasting, own.local_skew)),
                f"{own.coverage:.0%}",
            )
            for name, own in self.methods.items()
        ]
        costs = [
            (
                name,
                *(f"{number:,.{int(number < 10)}f}" for number in (own.exchanges, own.messages)),
                *(f"{size / 1000:,.1f}" for size in (own.bytes_up, own.bytes_down)),
                _rounded(own.node_seconds),
            )
            for name, own in self.costs.items()
        ]
        swept = [
            (
                f"K = {wanted}",
                "-" if self._chance_with(wanted) else _points(self._points_of(of)),
                *(f"{of[name].lasting:.2f}" for name in ("random", "dubhe")),
                *(f"{of[name].distance:.2f}" for name in ("random", "dubhe")),
            )
            for wanted, of in sorted(self.sweep.items())
        ]
        number = f"{self.arguments.num_participants} of {self.num_clients} clients"
        of_data = (
            "distance from\nuniform",
            "of ten\nrounds",
            "skew of\nclients",
            "clients\ntrained",
        )
        of_sweep = (
            "points\non digits",
            "ten rounds,\nrandom",
            "\nDubhe",
            "a round,\nrandom",
            "\nDubhe",
        )
        of_costs = ("exchanges", "messages", "kB up", "kB down", "seconds\nof a node")
        return [
            Table(f"Balance of the data of {number}", ("selection", *of_data), reached),
            Table("Gain with more or fewer clients per round", ("a round", *of_sweep), swept),
            Table("Dubhe's cost besides training", ("a round", *of_costs), costs),
        ]


def _changed(settings: Any, without: Collection[str] = ()) -> dict[str, str]:
    """Return the settings that differ from their defaults, as Python source."""
    given = {own: getattr(settings, own.name) for own in fields(settings)}
    return {
        own.name: repr(value)
        for own, value in given.items()
        if own.name not in without
        and value != (own.default if own.default_factory is MISSING else own.default_factory())
    }
