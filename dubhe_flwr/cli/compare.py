"""`dubhe compare`: train with each way of selecting clients."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_flwr.cli.arguments import names, writable_folder
from dubhe_flwr.data import DATASETS
from dubhe_flwr.experiments import (
    COMPARED,
    METHODS,
    CompareSettings,
    summary_sentence,
    summary_table,
)
from dubhe_flwr.report import save_figures
from dubhe_flwr.report.style import require_matplotlib

__all__ = ["EPILOG", "compare"]

EPILOG: Final = (
    "Example: [bold]dubhe compare --dataset mnist --data-dir data --methods random,dubhe "
    "--num-rounds 20 --out results/mnist[/bold]"
)


def _defaults(setting: str) -> str:
    """Return the default of a setting for each data set."""
    values = {name: getattr(CompareSettings.for_dataset(name), setting) for name in DATASETS}
    return ", ".join(f"{value} for {name}" for name, value in values.items())


def compare(
    *,
    dataset: Annotated[
        str, typer.Option(help=f"Data set: one of {', '.join(DATASETS)}.")
    ] = "digits",
    data_dir: Annotated[
        str | None,
        typer.Option(help="Folder of the data set's files.", show_default="the user's cache"),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            help=f"Ways of selecting, separated by commas, of all these: {', '.join(METHODS)}."
        ),
    ] = ",".join(COMPARED),
    num_clients: Annotated[
        int | None,
        typer.Option(help="N: clients of the federation.", show_default=_defaults("num_clients")),
    ] = None,
    num_samples: Annotated[
        int | None,
        typer.Option(help="Samples of each client.", show_default=_defaults("num_samples")),
    ] = None,
    num_participants: Annotated[
        int, typer.Option(help="K: clients that train in a round.")
    ] = CompareSettings.num_participants,
    tries: Annotated[
        int, typer.Option(help="H: tentative selections of a round of Dubhe.")
    ] = CompareSettings.tries,
    num_rounds: Annotated[
        int, typer.Option("--num-rounds", "--rounds", help="Rounds of each method.")
    ] = CompareSettings.num_rounds,
    rho: Annotated[
        float, typer.Option(help="Skew of all data: largest class divided by the smallest.")
    ] = CompareSettings.rho,
    emd: Annotated[
        float, typer.Option(help="How much clients differ: 0, all alike, to 2, nothing in common.")
    ] = CompareSettings.emd,
    batch_size: Annotated[
        int, typer.Option(help="Samples of a training step.")
    ] = CompareSettings.batch_size,
    epochs: Annotated[
        int, typer.Option(help="Passes of a client over its samples in a round.")
    ] = CompareSettings.epochs,
    evaluate_every: Annotated[
        int, typer.Option(help="Rounds between two evaluations; the last ones all have one.")
    ] = CompareSettings.evaluate_every,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Learning rate of Adam.", show_default=_defaults("learning_rate")),
    ] = None,
    key_bits: Annotated[
        int, typer.Option(help="Size of the Paillier keys; below 2048 for tests only.")
    ] = CompareSettings.key_bits,
    engine: Annotated[
        str, typer.Option(help="Simulator: inprocess, or ray (Flower's own).")
    ] = CompareSettings.engine,
    device: Annotated[
        str, typer.Option(help="Where to train: auto, cpu or cuda.")
    ] = CompareSettings.device,
    cohort: Annotated[
        str, typer.Option(help="Train clients together: on, off, or auto (on a GPU).")
    ] = CompareSettings.cohort,
    num_threads: Annotated[
        int, typer.Option(help="CPU threads of each training.")
    ] = CompareSettings.num_threads,
    seed: Annotated[
        int, typer.Option(help="Fixes all chance: same seed, same accuracies.")
    ] = CompareSettings.seed,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to.", show_default="results/compare-DATASET"),
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw figures beside results.json.")] = True,
) -> None:
    """Train with each way of selecting clients, and show which one learns most.

    All methods share the federation, the initial model and the way of training.
    """
    dataset = dataset.lower()
    settings = CompareSettings.for_dataset(
        dataset,
        data_dir=data_dir,
        methods=names(methods),
        num_clients=num_clients,
        num_samples=num_samples,
        num_participants=num_participants,
        tries=tries,
        num_rounds=num_rounds,
        rho=rho,
        emd=emd,
        batch_size=batch_size,
        epochs=epochs,
        evaluate_every=evaluate_every,
        learning_rate=learning_rate,
        key_bits=key_bits,
        engine=engine,
        device=device,
        cohort=cohort,
        num_threads=num_threads,
        seed=seed,
    )
    if figures:
        require_matplotlib()
    folder = writable_folder(out or Path("results") / f"compare-{dataset}")
    # These need torch, an extra, and seconds to be imported.
    from dubhe_flwr.experiments.compare import compare as run  # noqa: PLC0415
    from dubhe_flwr.experiments.progress import compare_progress  # noqa: PLC0415

    console = Console()
    with compare_progress(console, settings) as update:
        results = run(settings, update)
    results.save(folder / "results.json")
    if figures:
        save_figures(results, folder)
    console.print(summary_table(results))
    console.print(summary_sentence(results), highlight=False)
    what = "Results and figures" if figures else "Results"
    console.print(f"{what} are in {escape(str(folder))}.", highlight=False)
