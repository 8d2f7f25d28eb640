"""What a study of somebody's own federation found: tables, and a verdict in words."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from html import escape
from io import StringIO
from math import isfinite
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from dubhe_flwr.adapter import DubheArguments
from dubhe_flwr.core.prices import PrivacyBound
from dubhe_lab.report.picture import method_label
from dubhe_lab.report.table import Table

_LEGEND: Final = (
    "Distances go from 0, all classes alike, to 2. Of ten rounds: the data of ten rounds together, "
    "most of what counts for a model. Skew of clients: how far single clients are from the mix of "
    "their round. Clients trained: within the rounds of this study. kB: of all nodes together."
)
_VERDICTS: Final = {
    "much": "Dubhe helps much here.",
    "little": "Dubhe helps a little here.",
    "not": "Dubhe hardly helps here.",
}
_NINE_OF_TEN: Final = {"much": (2.2, 18.2), "little": (-0.4, 4.5), "not": (-0.6, 0.8)}
_MOST_POINTS: Final = 15.0
_FITTED_CLASSES: Final = 10
_FITTED_CLIENTS: Final = range(25, 301)
_FITTED_PARTICIPANTS: Final = range(3, 41)
_ELSEWHERE: Final = (1 / 3, 2)
"""Smallest and largest share of the formula's points that was gained where it was not fitted."""


def points_of_digits(emd: float, lasting: Sequence[float], distance: Sequence[float]) -> float:
    """Return about how many points of accuracy Dubhe gains with handwritten digits, at most 15.

    The distances, of ten rounds together and of one, are those at random and with Dubhe. Of ten
    rounds their third powers count: the rarer a class is, the more it costs if it becomes rarer
    still. Single rounds matter where clients hold few classes. Fitted; see
    docs/howto/my_federation.md.

    >>> round(points_of_digits(1.0, lasting=(0.5, 0.1), distance=(0.6, 0.2)), 1)
    7.0
    """
    lasts = lasting[0] ** 3 - lasting[1] ** 3
    return min(
        _MOST_POINTS, 35.0 * (0.5 + emd) * lasts + 1.1 * emd**3 * (distance[0] - distance[1])
    )


def _points(points: float) -> str:
    return f"{points:.1f}" if points < _MOST_POINTS else f"{points:.0f} or more"


def verdict_on(points: float) -> str:
    """Return the verdict on so many points: "not" below half a point, where hardly one is gained.

    >>> [verdict_on(points) for points in (5.0, 4.9, 0.5, 0.4)]
    ['much', 'little', 'little', 'not']
    """
    return "much" if points >= 5.0 else "little" if points >= 0.5 else "not"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What a way of selecting reached: means over the rounds, and the share of clients selected.

    `distance` is ``||p_o - p_u||_1``, from 0 to 2, with p_o as the strategy averages the clients;
    `lasting`, the same of the mean p_o of ten rounds in a row, most of what counts for a model;
    `local_skew`, ``||p_l - p_o||_1`` of the selected clients.
    """

    distance: float
    lasting: float
    local_skew: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What Dubhe costs in a round beside the training, for all nodes together.

    `node_seconds` is what one node computes on this machine, with encryption.
    """

    exchanges: float
    messages: float
    bytes_up: float
    bytes_down: float
    node_seconds: float


@dataclass(frozen=True, kw_only=True)
class FederationStudy:
    """What `dubhe_lab.study` found; `helps` and `verdict` say whether Dubhe helps, and why.

    Parameters
    ----------
    read : str
        What was read: clients, classes and totals.
    num_clients, num_classes : int
        N and C.
    sizes : tuple of int
        Samples of the smallest, the median and the largest client.
    rho, emd : float
        Largest class divided by the smallest, and EMD_avg: how much clients differ, from 0 to 2.
    methods : mapping of str to Reached
        Random selection, Dubhe, and the greedy oracle, which sees all labels.
    costs : mapping of str to Cost
        Those of a round with a registration, and of one without.
    arguments : DubheArguments
        How Dubhe selected.
    privacy : PrivacyBound, optional
        What the noisy sums of Dubhe tell of one client at worst; None where sums are exact.
    sweep : mapping of int to mapping of str to Reached
        What random selection and Dubhe reach with other numbers of participants, and with this one.
    """

    read: str
    num_clients: int
    num_classes: int
    sizes: tuple[int, int, int]
    rho: float
    emd: float
    methods: Mapping[str, Reached]
    costs: Mapping[str, Cost]
    arguments: DubheArguments
    privacy: PrivacyBound | None
    sweep: Mapping[int, Mapping[str, Reached]]

    @property
    def points(self) -> float:
        """About how many points of accuracy Dubhe would gain if these were handwritten digits."""
        return self._points_of(self.methods)

    def _points_of(self, methods: Mapping[str, Reached]) -> float:
        both = [methods[name] for name in ("random", "dubhe")]
        return points_of_digits(self.emd, [m.lasting for m in both], [m.distance for m in both])

    @property
    def helps(self) -> str:
        """The verdict in a word: "much" from five points on, "little" from a half, or "not"."""
        return verdict_on(self.points)

    @property
    def verdict(self) -> str:
        """The verdict in sentences, with its reason."""
        random, dubhe = (self.methods[name] for name in ("random", "dubhe"))
        is_near = 2 * self.arguments.num_participants > self.num_clients
        why = f" {self._reason()}" if is_near or self.helps != "much" else ""
        return (
            f"{_VERDICTS[self.helps]}{why} The data of ten rounds together is {random.lasting:.2f} "
            f"from uniform with random selection and {dubhe.lasting:.2f} with Dubhe; for a single "
            f"round it is {random.distance:.2f} and {dubhe.distance:.2f}. Clients differ by "
            f"{self.emd:.2f}. {self._worth()}{self._weights()}"
        )

    def _worth(self) -> str:
        """Return the accuracy to expect: a number where the formula was fitted, else a range."""
        least, most = _NINE_OF_TEN[self.helps]
        if not (others := self._unlike_fitted()):
            return (
                f"On handwritten digits that is worth {_points(self.points)} points of accuracy "
                "after 60 rounds. Nine of ten such federations with this verdict gained "
                f"{least} to {most}."
            )
        less, more = (factor * self.points for factor in _ELSEWHERE)
        return (
            f"Expect {min(least, less):.1f} to {max(most, more):.1f} points of accuracy. This is a "
            "range because the formula was fitted to handwritten digits, with ten classes and 25 "
            f"to 300 clients of one size; here there are {' and '.join(others)}."
        )

    def _unlike_fitted(self) -> list[str]:
        """Return in what this federation differs from those to which the formula was fitted."""
        smallest, _, largest = self.sizes
        unlike = {
            f"{self.num_classes} classes": self.num_classes != _FITTED_CLASSES,
            f"{self.num_clients} clients": self.num_clients not in _FITTED_CLIENTS,
            "clients of different sizes": smallest < largest,
            f"{self.arguments.num_participants} clients in a round": (
                self.arguments.num_participants not in _FITTED_PARTICIPANTS
            ),
        }
        return [what for what, differs in unlike.items() if differs]

    def _weights(self) -> str:
        smallest, _, largest = self.sizes
        if smallest == largest or self.arguments.equal_weights:
            return ""
        return (
            " Clients are weighted by size, as FedAvg does; if your strategy weighs them equally, "
            "study with --equal-weights (in Python equal_weights=True)."
        )

    @property
    def code(self) -> str:
        """The settings, to be pasted into a server app."""
        rule = self.arguments.rule
        lines = ["from flwr.serverapp.strategy import FedAvg", ""]
        given = _changed(self.arguments, without={"seed", "simulation"})  # those of any study
        if "rule" in given:
            name, own = type(rule).__name__, _changed(rule).items()
            given["rule"] = f"{name}({', '.join(f'{key}={value}' for key, value in own)})"
            lines.append(f"from dubhe_flwr.rules import {name}")
        lines.append("from dubhe_flwr.serverapp import Dubhe  # with server_fn: dubhe_flwr.server")
        values = ["    FedAvg(),", *(f"    {key}={value}," for key, value in given.items())]
        return "\n".join([*lines, "", "strategy = Dubhe(", *values, ")"])

    def to_dict(self) -> dict[str, Any]:
        """Return all that was found, as JSON takes it."""
        rho = self.rho if isfinite(self.rho) else None  # JSON has no infinity
        sweep = {str(wanted): of for wanted, of in asdict(self)["sweep"].items()}
        found = asdict(self) | {"arguments": self.code, "rho": rho, "sweep": sweep}
        return {"helps": self.helps, "verdict": self.verdict, "points": self.points, **found}

    def __str__(self) -> str:
        page = StringIO()
        Console(file=page, width=80).print(self)
        return page.getvalue()

    def __rich__(self) -> RenderableType:
        """Return what a terminal shows."""
        tables = (table.for_terminal() for table in self._tables())
        code = [Text(f"\n{self.code}\n")] if self.helps != "not" else []
        verdict = Text(self.verdict, style="bold")
        legend = Text(f"{self._legend()}\n")
        return Group(Text(self._facts()), "", *tables, legend, verdict, *code)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        tables = "".join(table.for_html() for table in self._tables())
        code = f'<pre style="overflow-x: auto">{escape(self.code)}</pre>'
        facts = "<br>".join(escape(self._facts()).splitlines())
        return (
            f"<p>{facts}</p>{tables}<p>{escape(self._legend())}</p>"
            f"<p><b>{escape(self.verdict)}</b></p>{code if self.helps != 'not' else ''}"
        )

    def _facts(self) -> str:
        classes = (
            f"The largest class has {self.rho:.3g} times the samples of the smallest (rho)"
            if isfinite(self.rho)
            else "Some classes have no samples"
        )
        return (
            f"{self.read}\nThe median client has {self.sizes[1]} samples. {classes}; clients "
            f"differ by {self.emd:.2f} (EMD_avg)."
        )

    def _legend(self) -> str:
        return _LEGEND if self.privacy is None else f"{_LEGEND} {self.privacy}"

    def _reason(self) -> str:
        number, wanted = self.num_clients, self.arguments.num_participants
        random, greedy = (self.methods[name].lasting for name in ("random", "greedy"))
        if 2 * wanted > number:
            return f"{wanted} of {number} clients leave little to choose: select fewer in a round."
        if number < 20:
            transposed = " A row is a client: is the table transposed?"
            few = f"{number} clients are few: there is little to choose from."
            return few + (transposed if number < self.num_classes else "")
        if random < 0.25:
            return "Over ten rounds random selection is balanced enough by itself."
        if self.emd < 0.5:
            return "Clients hold much the same mix: it matters less which of them train."
        if 2 * min(greedy, self.methods["dubhe"].lasting) > random:
            return f"Greedy selection, which sees all labels, comes no closer than {greedy:.2f}."
        return "Random selection is not far behind."

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
                *(f"{number:,.0f}" for number in (own.exchanges, own.messages)),
                *(f"{size / 1000:,.1f}" for size in (own.bytes_up, own.bytes_down)),
                f"{own.node_seconds:.3f}",
            )
            for name, own in self.costs.items()
        ]
        swept = [
            (
                f"K = {wanted}",
                _points(self._points_of(of)),
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
            Table(f"How uniform the data of {number} is", ("selection", *of_data), reached),
            Table("What it gains with more or fewer clients", ("a round", *of_sweep), swept),
            Table("What Dubhe costs besides training", ("a round", *of_costs), costs),
        ]


def _changed(settings: Any, without: Collection[str] = ()) -> dict[str, str]:
    """Return what differs from the defaults, as Python writes it."""
    given = {own: getattr(settings, own.name) for own in fields(settings)}
    return {
        own.name: repr(value)
        for own, value in given.items()
        if own.name not in without
        and value != (own.default if own.default_factory is MISSING else own.default_factory())
    }
