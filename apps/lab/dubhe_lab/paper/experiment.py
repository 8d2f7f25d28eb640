"""The settings of `dubhe paper`, and the parts of an experiment: methods, cells, a report.

An experiment arranges its cells in a grid: rows, such as federations, and columns, such as methods,
with one cell per seed. Its report gets the finished results in the same grid.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

from dubhe_lab.experiments.options import CommandSettings, names, numbers, option
from dubhe_lab.experiments.settings import DUBHE, MachineSettings, SelectionSettings
from dubhe_lab.paper.cells import Cell
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.table import Table

_DATASETS: Final = ("MNIST", "CIFAR10")

SKEW: Final[Mapping[str, Any]] = {"rho": 10.0, "emd": 1.5}
"""The federation of the paper's sections 6.3 and 6.4."""


def _datasets(field_name: str, text: str) -> tuple[str, ...]:
    return () if text.lower() == "none" else names(field_name, text.upper())


@dataclass(frozen=True, kw_only=True)
class PaperSettings(CommandSettings):
    """The settings of `dubhe paper`."""

    scale: str = option(
        "small", "full (the paper's sizes) or small (minutes).", choices=("small", "full")
    )
    datasets: tuple[str, ...] = option(
        _DATASETS,
        "Data sets to train on, separated by commas, or none.",
        choices=_DATASETS,
        parse=_datasets,
    )
    seeds: tuple[int, ...] | None = option(
        None, "Seeds, separated by commas.", parse=numbers, shown="0, or 0,1,2 where cheap"
    )
    tries: tuple[int, ...] | None = option(
        None, "Values of H in table2.", parse=numbers, shown="the paper's"
    )
    machine: MachineSettings = field(default_factory=MachineSettings)

    @property
    def is_full(self) -> bool:
        """Whether to use the paper's sizes."""
        return self.scale == "full"

    def seeds_or(self, usual: tuple[int, ...]) -> tuple[int, ...]:
        """Return the given seeds; by default `usual`, or the first of them at small scale."""
        return self.seeds or (usual if self.is_full else usual[:1])


@dataclass(frozen=True)
class Method:
    """A selection method: one of `METHODS`, with its own tries H or prices.

    Examples
    --------
    >>> print(Method("dubhe-paper", tries=10), Method("dubhe", local_skew=1.0), sep="; ")
    dubhe-paper, H=10; dubhe, local skew 1
    """

    name: str
    tries: int | None = None
    local_skew: float | None = None
    coverage: float | None = None

    @property
    def kind(self) -> str:
        """The method's name in a comparison or a study, to combine with `settings`."""
        return "dubhe" if self.name in DUBHE else self.name

    @property
    def settings(self) -> dict[str, Any]:
        """The selection settings that the method changes; none for a baseline."""
        if self.name not in DUBHE:
            return {}
        own = {name: of for name, of in asdict(self).items() if name != "name" and of is not None}
        return {**DUBHE[self.name], **own}

    def __str__(self) -> str:
        settings = [
            None if self.tries is None else f"H={self.tries}",
            None if self.coverage is None else f"coverage {self.coverage:g}",
            None if self.local_skew is None else f"local skew {self.local_skew:g}",
        ]
        return ", ".join([self.name, *filter(None, settings)])


_LATER: Final[Mapping[str, Any]] = {"local_loss": "plain", "proximal": 0.0, "num_classes": None}
"""The settings that the first stored cells lack, and their defaults."""
_OF_PRICES: Final = ("coverage", "local_skew", "target")
"""Settings that the paper's rule does not have."""


def deciding(settings: CommandSettings) -> dict[str, Any]:
    """Return the settings that a cell's results depend on.

    The settings in `_LATER` count only if they differ from their defaults, so that the keys of
    stored cells stay the same.
    """
    given = settings.flat()
    unused = _OF_PRICES if given.get("rule") == "paper" else ()
    return {
        name: value
        for name, value in given.items()
        if name not in unused and _LATER.get(name, ...) != value
    }


def identity(
    settings: CommandSettings, method: Method, without: Collection[str] = ()
) -> dict[str, Any]:
    """Return a cell's config: the settings that its method depends on."""
    unused = set(without)
    if method.kind != "dubhe":
        of_dubhe = {own.name for own in SelectionSettings.flat_fields()}
        unused |= of_dubhe - {"num_participants", "reference_set"}
    own = {name: value for name, value in deciding(settings).items() if name not in unused}
    return own | {"method": method.kind}


Grid: TypeAlias = Mapping[Any, Mapping[str, Sequence[Cell]]]
"""The cells of each row and column, one per seed."""


def columns(
    methods: Iterable[Method], seeds: Iterable[int], cell: Callable[[Method, int], Cell]
) -> dict[str, list[Cell]]:
    """Return a row of a grid: the cells of each method, one per seed."""
    return {str(method): [cell(method, seed) for seed in seeds] for method in methods}


Seeds: TypeAlias = Mapping[int, Any]
"""The results of the finished cells of a row and column, by seed."""

Results: TypeAlias = Mapping[Any, Mapping[str, Seeds]]
"""The finished results in the grid of their cells."""


@dataclass(frozen=True)
class Section:
    """The findings of an experiment."""

    title: str
    paragraphs: Sequence[str]
    tables: Sequence[Table]
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure: the cells it needs, and the section it makes of their results.

    With `needs_all`, nothing is reported until all cells are measured.
    """

    about: str
    grid: Callable[[PaperSettings], Grid]
    report: Callable[[PaperSettings, Results], Section]
    needs_all: bool = False

    def cells(self, options: PaperSettings) -> list[Cell]:
        """Return all cells once, seed by seed, so that an interrupted run covers all methods."""
        columns = (of_seeds for row in self.grid(options).values() for of_seeds in row.values())
        in_order = chain.from_iterable(zip_longest(*columns))
        return list({cell.key: cell for cell in in_order if cell is not None}.values())

    def section(self, options: PaperSettings, found: Mapping[str, Any]) -> Section | None:
        """Report the results by `Cell.key`; return None if too few are finished.

        Tables without a row and pictures without a panel are left out.
        """
        grid = self.grid(options)
        finished = [
            cell.key in found
            for columns in grid.values()
            for of_seeds in columns.values()
            for cell in of_seeds
        ]
        if not (all(finished) if self.needs_all else any(finished)):
            return None
        results = {
            row: {column: _by_seed(of_seeds, found) for column, of_seeds in columns.items()}
            for row, columns in grid.items()
        }
        made = self.report(options, results)
        tables = [table for table in made.tables if table.rows]
        return replace(made, tables=tables, pictures=[own for own in made.pictures if own.panels])


def _by_seed(cells: Sequence[Cell], found: Mapping[str, Any]) -> Seeds:
    """Return the results of the finished cells; a cell without a seed counts as seed 0."""
    return {cell.config.get("seed", 0): found[cell.key] for cell in cells if cell.key in found}


def spread(values: Iterable[float], digits: int = 3) -> str:
    """Return the mean and, for several values, the largest distance from it.

    Examples
    --------
    >>> spread([0.1, 0.3]), spread([0.2]), spread([])
    ('0.200 ± 0.100', '0.200', '')
    """
    of_seeds = list(values)
    if not of_seeds:
        return ""
    mean = sum(of_seeds) / len(of_seeds)
    text = f"{mean:.{digits}f}"
    if len(of_seeds) == 1:
        return text
    return f"{text} ± {max(abs(value - mean) for value in of_seeds):.{digits}f}"
