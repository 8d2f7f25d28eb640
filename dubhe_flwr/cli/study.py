"""`dubhe study`: select clients without training a model."""

from pathlib import Path
from typing import Annotated, Final, cast, get_args

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_flwr.cli.arguments import numbers, writable_file
from dubhe_flwr.data import PartitionKind
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.experiments import StudySettings, study_sentence, study_table
from dubhe_flwr.experiments.study import study as run
from dubhe_flwr.experiments.study_progress import study_progress
from dubhe_flwr.protocol.settings import DeterminationRule, ParticipationRule, ThresholdSearch
from dubhe_flwr.report import save_study_figure
from dubhe_flwr.report.style import require_matplotlib

__all__ = ["EPILOG", "study"]

EPILOG: Final = (
    "Example: [bold]dubhe study --participation calibrated --determination grouped "
    "--json results/grouped.json --figure results/grouped.png[/bold]"
)


def study(
    *,
    num_clients: Annotated[
        int, typer.Option(help="N: clients of the federation.")
    ] = StudySettings.num_clients,
    num_participants: Annotated[
        int, typer.Option(help="K: clients that are selected in a round.")
    ] = StudySettings.num_participants,
    rho: Annotated[
        float, typer.Option(help="Skew of all data: largest class divided by the smallest.")
    ] = StudySettings.rho,
    emd: Annotated[
        float, typer.Option(help="How much clients differ: 0, all alike, to 2, nothing in common.")
    ] = StudySettings.emd,
    generator: Annotated[
        str, typer.Option(help="How clients differ: dirichlet or mixture.")
    ] = StudySettings.generator,
    participation: Annotated[
        str, typer.Option(help="Probabilities of Dubhe: paper or calibrated.")
    ] = StudySettings.participation,
    determination: Annotated[
        str,
        typer.Option(
            help="What Dubhe's agent chooses from: tries, grouped, one-off (nothing), or auto."
        ),
    ] = StudySettings.determination,
    tries: Annotated[
        int, typer.Option(help="H: tentative selections of a round of Dubhe.")
    ] = StudySettings.tries,
    group_size: Annotated[
        int, typer.Option(help="g: fewest clients in a group; 0 stands for the usual 4.")
    ] = StudySettings.group_size,
    coverage: Annotated[
        float, typer.Option(help="Price of the same clients again and again, if calibrated.")
    ] = StudySettings.coverage,
    floor: Annotated[
        float, typer.Option(help="Least probability, as a share of the uniform one, if calibrated.")
    ] = StudySettings.floor,
    local_skew: Annotated[
        float | None,
        typer.Option(help="Price of the clients' own skew.", show_default="0.5 if calibrated"),
    ] = StudySettings.local_skew,
    thresholds: Annotated[
        str | None,
        typer.Option(
            help="Shares in the order of the reference set, or search, or search-tries.",
            show_default="the paper's",
        ),
    ] = None,
    reference_set: Annotated[
        str, typer.Option(help="G: possible numbers of dominating classes.")
    ] = ",".join(map(str, StudySettings.reference_set)),
    num_classes: Annotated[
        int | None,
        typer.Option(help="C: number of classes.", show_default="the largest of the reference set"),
    ] = None,
    num_samples: Annotated[
        int, typer.Option(help="Samples of each client.")
    ] = StudySettings.num_samples,
    num_rounds: Annotated[
        int, typer.Option("--num-rounds", "--rounds", help="Rounds of each method.")
    ] = StudySettings.num_rounds,
    registration_interval: Annotated[
        int | None,
        typer.Option(help="Rounds between registrations.", show_default="50, many tries fewer"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same sets.")] = StudySettings.seed,
    encrypted: Annotated[
        bool, typer.Option("--encrypted/--plain", help="The whole protocol, for the same sets.")
    ] = StudySettings.encrypted,
    key_bits: Annotated[
        int, typer.Option(help="Size of the Paillier keys; below 2048 for tests only.")
    ] = StudySettings.key_bits,
    json: Annotated[Path | None, typer.Option(help="File to write the results to.")] = None,
    figure: Annotated[Path | None, typer.Option(help="PNG file to draw them to.")] = None,
) -> None:
    """Select without training, and show how balanced and how varied the selected data is.

    Random selection and a greedy oracle select in the same federation.
    """
    settings = StudySettings(
        num_clients=num_clients,
        num_participants=num_participants,
        rho=rho,
        emd=emd,
        generator=cast("PartitionKind", generator),
        participation=cast("ParticipationRule", participation),
        determination=cast("DeterminationRule", determination),
        tries=tries,
        group_size=group_size,
        coverage=coverage,
        floor=floor,
        local_skew=local_skew,
        thresholds=_thresholds(thresholds),
        reference_set=numbers("reference_set", reference_set, int),
        num_classes=num_classes,
        num_samples=num_samples,
        num_rounds=num_rounds,
        registration_interval=registration_interval,
        encrypted=encrypted,
        key_bits=key_bits,
        seed=seed,
    )
    if figure is not None:
        if figure.suffix != ".png":
            raise SettingsError(f"figure={str(figure)!r} has to end in .png.")
        require_matplotlib()
    writable_file(json)
    writable_file(figure)
    console = Console()
    with study_progress(console, settings) as progress:
        results = run(settings, progress.select, progress.answer)
    if json is not None:
        results.save(json)
    if figure is not None:
        save_study_figure(results, figure)
    console.print(study_table(results))
    console.print(study_sentence(results), highlight=False)
    if written := [escape(str(path)) for path in (json, figure) if path is not None]:
        console.print(f"Written: {', '.join(written)}.", highlight=False)


def _thresholds(text: str | None) -> tuple[float, ...] | ThresholdSearch | None:
    if text is None or text in get_args(ThresholdSearch):
        return cast("ThresholdSearch | None", text)
    try:
        return numbers("thresholds", text, float)
    except SettingsError:
        raise SettingsError(
            f"thresholds={text!r} must be shares separated by commas, as in 0.7,0.1, or one of "
            f"{', '.join(get_args(ThresholdSearch))}."
        ) from None
