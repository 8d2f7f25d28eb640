"""`dubhe compare`: train the same model with each selection method."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_lab.cli.options import command, writable_folder
from dubhe_lab.data import DATASETS
from dubhe_lab.experiments import CompareSettings
from dubhe_lab.experiments.kept import KeptResults
from dubhe_lab.experiments.progress import rounds_progress
from dubhe_lab.report.panels import save_figures
from dubhe_lab.report.terminal import summary_sentence, summary_table

EPILOG: Final = (
    "Example: [bold]dubhe compare --dataset mnist --data-dir data --methods random,dubhe "
    "--num-rounds 20 --out results/mnist[/bold]"
)

_SET_BY_METHODS: Final = ("rule", "thresholds", "reference_set")
_FOR_STUDIES: Final = ("generator", "registration_interval")


def _by_dataset() -> dict[str, str]:
    """Return the defaults that `for_dataset` changes, as the help shows them."""
    of = {name: CompareSettings.for_dataset(name).flat() for name in DATASETS}
    told = {}
    for name, usual in CompareSettings().flat().items():
        values = [values[name] for values in of.values()]
        if name != "dataset" and any(value != usual for value in values):
            each = ", ".join(f"{v} for {d}" for v, d in zip(values, of, strict=True))
            told[name] = each if len(set(values)) > 1 else str(values[0])
    return told


def _compare(
    settings: CompareSettings,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to.", show_default="results/compare-DATASET"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start over if the folder already holds results.")
    ] = False,
) -> None:
    """Train the same model with each selection method, and show which model is best.

    All methods share the federation, the initial model and the training settings.
    Each method is saved when it finishes; run the same command again to continue.
    """
    folder = writable_folder(out or Path("results") / f"compare-{settings.dataset}")
    console = Console()
    kept = KeptResults(folder / "results.json", settings)
    keep = partial(kept.keep, overwrite=overwrite)  # old results last until there are new ones
    if finished := {} if overwrite else kept.finished():
        names = ", ".join(finished)
        sentence = f"Already in {kept.path}: {names}."
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    try:
        with rounds_progress(console, settings.methods, settings.num_rounds) as update:
            # Imported here because torch is an extra and slow: the progress bar shows first.
            from dubhe_lab.experiments.compare import compare as run  # noqa: PLC0415

            results = run(settings, update, finished=finished, on_method=keep)
        save_figures(results, folder)
    except KeyboardInterrupt:
        names = ", ".join(kept.finished()) or "no method yet"
        again = "again without --overwrite" if overwrite else "again"
        sentence = f"Stopped. {kept.path} holds {names}; run the same command {again} to continue."
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(130) from None
    console.print(summary_table(results).for_terminal())
    console.print(summary_sentence(results), highlight=False)
    sentence = f"Results are in {escape(str(folder))}. Look at comparison.png first."
    console.print(sentence, highlight=False)


compare = command(
    _compare,
    CompareSettings,
    CompareSettings.for_dataset,
    without=(*_SET_BY_METHODS, *_FOR_STUDIES),
    shown=_by_dataset(),
)
