"""`dubhe study`: select clients without training a model, in a generated federation or your own."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final

import click
import typer
from click.core import ParameterSource
from rich.console import Console

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.settings import Settings
from dubhe_lab.cli.options import command, say_written, writable_file
from dubhe_lab.data import load_label_counts
from dubhe_lab.experiments import StudySettings
from dubhe_lab.experiments.my_federation import check_table
from dubhe_lab.experiments.my_federation import study as federation_study
from dubhe_lab.experiments.progress import rounds_progress
from dubhe_lab.experiments.settings import RULES, STUDIED, FederationSettings, SelectionSettings
from dubhe_lab.experiments.study import study as run
from dubhe_lab.report.panels import save_study_figure
from dubhe_lab.report.results import write_json
from dubhe_lab.report.terminal import study_sentence, study_table

EPILOG: Final = (
    "Example: [bold]dubhe study --tries 20 --json results/tries.json "
    "--figure results/tries.png[/bold]; "
    "[bold]dubhe study --label-counts counts.csv --num-participants 10[/bold]"
)

_OF_TABLES: Final = ("no_heading", "client_column", "label_column", "classes", "equal_weights")
_OF_DRAWN: Final = (
    *(own.name for own in FederationSettings.flat_fields() if own.name != "seed"),
    *("num_classes", "num_rounds", "encrypted", "figure"),
)


def _study(
    settings: StudySettings,
    *,
    json: Annotated[Path | None, typer.Option(help="Write the results to this file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the results to this PNG file.")] = None,
    label_counts: Annotated[
        Path | None,
        typer.Option(
            help="Your federation's table (CSV, TSV, Parquet or NPY), one row per client."
        ),
    ] = None,
    no_heading: Annotated[
        bool, typer.Option("--no-heading", help="Your table has no header row.")
    ] = False,
    client_column: Annotated[
        str | None, typer.Option(help="Your table's column of client names.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Your table's column of labels, if each row is one sample.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="Your table's columns of counts, FIRST..LAST.")
    ] = None,
    equal_weights: Annotated[
        bool,
        typer.Option("--equal-weights", help="Weight all clients equally, whatever their sizes."),
    ] = False,
) -> None:
    """Select clients without training, and show how balanced and varied their data is.

    Compares Dubhe with random selection and a greedy oracle in a generated federation. With
    --label-counts it studies your own federation and says whether Dubhe would help it.
    """
    _check_rule(settings.selection)
    if label_counts is not None:
        of_table = {
            "heading": not no_heading,
            "client_column": client_column,
            "label_column": label_column,
            "classes": classes,
        }
        _study_own(settings, label_counts, json, of_table, equal_weights=equal_weights)
        return
    _refuse_given(_OF_TABLES, "is for --label-counts; leave it out in generated federations.")
    if figure is not None and figure.suffix != ".png":
        raise SettingsError(f"figure={str(figure)!r} has to end in .png.")
    writable_file(json)
    writable_file(figure)
    console = Console()
    with rounds_progress(console, "study", STUDIED, settings.num_rounds) as update:
        results = run(settings, update)
    if json is not None:
        results.save(json)
    if figure is not None:
        save_study_figure(results, figure)
    console.print(study_table(results).for_terminal())
    console.print(study_sentence(results), highlight=False)
    say_written(console, json, figure)


def _check_rule(selection: SelectionSettings) -> None:
    """Refuse settings that belong to a rule that was not chosen."""
    usual = SelectionSettings()
    others = (own for name, of in RULES.items() if name != selection.rule for own in fields(of))
    for other in others:
        own = getattr(usual, other.name, None)  # the rule's noise is not an option
        if getattr(selection, other.name, None) != own:
            raise SettingsError(
                f"{other.name} does not apply to rule={selection.rule}; leave one of them out."
            )


def _refuse_given(names: Collection[str], why: str) -> None:
    """Refuse options that would be ignored."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in names and given:
            spelt = " or ".join((*option.opts, *option.secondary_opts))
            raise SettingsError(f"{spelt} {why}")


def _study_own(
    settings: StudySettings,
    label_counts: Path,
    json: Path | None,
    of_table: Mapping[str, Any],
    *,
    equal_weights: bool,
) -> None:
    """Study the federation of a table; show what was read before the study begins."""
    _refuse_given(_OF_DRAWN, "is for generated federations; leave it out with --label-counts.")
    writable_file(json)
    if json is not None and json.resolve() == label_counts.resolve():
        raise SettingsError(f"{json} holds the label counts; name another file with --json.")
    protocol = settings.protocol_settings()
    arguments = {each.name: getattr(protocol, each.name) for each in fields(protocol)}
    arguments |= {
        "rounds_per_draw": Settings.rounds_per_draw,
        "simulation": None,
        "equal_weights": equal_weights,
    }
    console = Console()
    table = load_label_counts(label_counts, **of_table)
    console.print(f"{table.summary}\n{table.extremes}", highlight=False, markup=False)
    check_table(table, protocol)
    if not console.is_terminal:
        sizes = "hundreds of classes or thousands of clients"
        takes = f"about a minute, or much longer with {sizes}"
        console.print(f"Selecting clients, which takes {takes}.", highlight=False)
    with console.status("Selecting clients"):
        found = federation_study(table, **arguments)
    if json is not None:
        write_json(json, found.to_dict())
    console.print(found.findings(), highlight=False)


study = command(_study, StudySettings)
