"""`dubhe paper`: a command for each table or figure of the paper, and for experiments beyond it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_flwr.errors import SettingsError
from dubhe_lab.cli.application import new_application
from dubhe_lab.cli.options import command, writable_folder
from dubhe_lab.paper import (
    digits,
    epochs,
    instead,
    leaderboard,
    letters,
    natural,
    overhead,
    registry,
    table2,
    unbiasedness,
    verdict,
    when,
)
from dubhe_lab.paper.cells import CellStore, run_cells
from dubhe_lab.paper.experiment import Experiment, PaperSettings
from dubhe_lab.paper.page import Section, render_page

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "femnist": letters.EXPERIMENT,
    "unbiasedness": unbiasedness.EXPERIMENT,
    "table2": table2.EXPERIMENT,
    "registry": registry.EXPERIMENT,
    "overhead": overhead.EXPERIMENT,
    "digits": digits.EXPERIMENT,
    "leaderboard": leaderboard.EXPERIMENT,
    "verdict": verdict.EXPERIMENT,
    "natural": natural.EXPERIMENT,
    "instead": instead.EXPERIMENT,
    "when": when.EXPERIMENT,
    "epochs": epochs.EXPERIMENT,
}
"""The paper's experiments in its order, then the experiments beyond it."""

_Finished: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Finished cells as returned by `run_cells`."""

_ABOUT: Final = (
    "The tables and figures of Zhang et al., Dubhe: Towards Data Unbiasedness with Homomorphic "
    "Encryption in Federated Learning Client Selection (ICPP 2021), measured with dubhe-flwr. "
    "Where the paper gives a number, it is shown next to ours."
)
_METHODS: Final = (
    "random, dubhe-paper and greedy are the paper's three selection methods, and H is the number "
    "of tries; dubhe is this package's selection with its defaults."
)
_SMALL: Final = (
    "Small scale: all trainings take a few rounds with a small network, 8 x 8 digits and few "
    "clients. They show that everything runs; do not compare their accuracies with the paper's."
)
_EPILOG: Final = (
    "Example: [bold]dubhe paper {name} --scale full --data-dir data --out results/paper[/bold]"
)

app = new_application(
    help="Reproduce the paper, one command for each table or figure.",
    epilog="Example, in a minute: [bold]dubhe paper registry[/bold]",
    no_args_is_help=True,
)


def sections(names: Sequence[str], settings: PaperSettings, finished: _Finished) -> list[Section]:
    """Return the sections of all experiments with enough finished cells."""
    found = {key: content["result"] for key, content in finished.items()}
    made = (EXPERIMENTS[name].section(settings, found) for name in names)
    return [section for section in made if section is not None]


def remarks(names: Sequence[str], settings: PaperSettings, finished: _Finished) -> list[str]:
    """Return sentences to read before the numbers: on their scale, and on missing cells."""
    sentences = [] if settings.is_full else [_SMALL]
    for name in names:
        keys = {cell.key for cell in EXPERIMENTS[name].cells(settings)}
        if missing := len(keys - finished.keys()):
            sentences.append(
                f"Not measured yet: {missing} of {len(keys)} measurements of {name}; run the "
                "command without --report-only to continue."
            )
    return sentences


def page(
    made: Sequence[Section], settings: PaperSettings, finished: _Finished, said: Sequence[str] = ()
) -> str:
    """Return an HTML page of these sections, with remarks at the top."""
    sources = [content["provenance"] for content in finished.values()]
    dates = sorted(source["date"] for source in sources)
    facts = {
        "scale": settings.scale,
        "measurements": str(len(sources)),
        "seeds": _distinct(source["seed"] for source in sources if source["seed"] is not None),
        "devices": _distinct(source["device"] for source in sources),
        "versions": _distinct(
            f"{name} {number}" for source in sources for name, number in source["versions"].items()
        ),
        "commands": _distinct(source["command"] for source in sources),
        "measured": f"{dates[0]} to {dates[-1]}" if dates else "",
    }
    return render_page("Dubhe, reproduced", [_ABOUT, _METHODS, *said], made, facts)


def _distinct(values: Iterable[Any]) -> str:
    return ", ".join(sorted(set(map(str, values))))


def _reproduce(
    name: str,
    experiments: Sequence[str],
    settings: PaperSettings,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to; finished measurements in it are not repeated.",
            show_default="results/reproduction-SCALE",
        ),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Measure nothing; show finished results.")
    ] = False,
) -> None:
    """Run the missing measurements, and show all finished ones."""
    folder = writable_folder(out or Path("results") / f"reproduction-{settings.scale}")
    console = Console()
    store = CellStore(folder / "cells")
    cells = [cell for each in experiments for cell in EXPERIMENTS[each].cells(settings)]
    if not cells:
        wanted = ",".join(settings.datasets) or "none"
        raise SettingsError(f"datasets={wanted} leaves {name} nothing to measure; leave it out.")
    if report_only:
        finished, missing = store.load_all(cells), list[str]()
    else:
        try:
            finished, missing = run_cells(
                cells,
                store,
                console,
                machine=settings.machine,
                skip_missing_data=len(experiments) > 1
                or EXPERIMENTS[experiments[0]].skips_missing_data,
            )
        except KeyboardInterrupt:
            console.print("Stopped. Run the same command again to continue.")
            raise
    made = sections(experiments, settings, finished)
    said = [*remarks(experiments, settings, finished), *missing]
    for section in made:
        console.print(f"\n[bold]{escape(section.title)}[/bold]", highlight=False)
        for table in section.tables:
            console.print(table.for_terminal())
        for drawn in section.pictures:
            drawn.save(folder / "figures")
    for sentence in said:
        console.print(escape(sentence), highlight=False, soft_wrap=True)
    report = folder / f"{name}.html"
    report.write_text(page(made, settings, finished, said), encoding="utf-8")
    console.print(f"Open {escape(str(report))}.", highlight=False, soft_wrap=True)


for _name, _about, _experiments in (
    *((name, experiment.about, (name,)) for name, experiment in EXPERIMENTS.items()),
    (
        "all",
        "Run all experiments whose data is available, also beyond the paper.",
        tuple(EXPERIMENTS),
    ),
):
    app.command(_name, help=_about, epilog=_EPILOG.format(name=_name))(
        command(partial(_reproduce, _name, _experiments), PaperSettings)
    )
