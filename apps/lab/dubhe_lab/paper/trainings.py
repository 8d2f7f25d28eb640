"""Cells that train a model: one selection method in one federation, with one seed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean, stdev
from typing import Any, Final

from dubhe_lab.data import DATASETS
from dubhe_lab.data.natural import NATURAL
from dubhe_lab.experiments.options import same
from dubhe_lab.experiments.settings import CompareSettings, MachineSettings
from dubhe_lab.paper.cells import Advance, Cell, Measured
from dubhe_lab.paper.experiment import SKEW, Method, PaperSettings, Seeds, columns, identity
from dubhe_lab.paper.studies import LETTERS
from dubhe_lab.report.methods import extra_work, server_learns
from dubhe_lab.report.results import ComparisonResults, FederationSummary, MethodResult


@dataclass(frozen=True, kw_only=True)
class TrainingCellSettings(CompareSettings):
    """The settings of a comparison, with the reproduction's additional data sets."""

    dataset: str = same(
        CompareSettings, "dataset", choices=(*DATASETS, "femnist", "turned-digits", *NATURAL)
    )


_SMALL: Final[Mapping[str, Any]] = {
    "num_clients": 150,
    "num_samples": 32,
    "learning_rate": 3e-3,
    "epochs": 1,
    # Selected sets do not depend on the key size, and small keys take a tenth of the time.
    "key_bits": 512,
}
_ROUNDS: Final = {"full": 200, "small": 12}
_LAST_ROUNDS: Final = 50

_LETTERS: Final = {**LETTERS, "epochs": 5}
_FIXED: Final = {"norm": "batch", "precision": "float32"}
"""Fixed parts of every cell's key, kept so that the keys of stored cells stay valid."""
_GROUP_NORM: Final = {"norm": "group"}

_NO_IDENTITY: Final = ("data_dir", "device", "evaluate_every", "methods")


def training_cell(
    name: str, skew: str, method: Method, seed: int, options: PaperSettings, **given: Any
) -> Cell:
    """Return the cell that trains on a data set with skew rho/EMD_avg, as the paper names it.

    At small scale, digits stand in for every data set. Other keywords are as in
    `CompareSettings.for_dataset`.
    """
    dataset = name.lower() if options.is_full else "digits"
    rho, emd = map(float, skew.split("/"))
    usual = {
        **(_LETTERS if dataset == "femnist" else {}),
        **({} if options.is_full else _SMALL),
        "rho": rho,
        "emd": emd,
        "num_rounds": _ROUNDS[options.scale],
        # On large test sets, an evaluation takes as long as training a dozen clients.
        "evaluate_every": 1 if dataset == "digits" else 5,
        # As in the paper, with Adam's default learning rate.
        "optimizer": "adam",
    }
    federation = f"{name}-{skew}" if options.is_full else f"digits {name}-{skew}"
    return comparison_cell(federation, dataset, method, seed, **{**usual, **given})


def digits_cell(method: Method, seed: int, options: PaperSettings, **given: Any) -> Cell:
    """Return the cell that trains on digits with the settings of `dubhe compare`, in the clear.

    Other keywords are as in `CompareSettings.for_dataset`. Equal settings give the same cell, so
    experiments share what they have in common.
    """
    usual: dict[str, Any] = {**SKEW, "encrypted": False}
    if not options.is_full:
        usual |= {"num_clients": 100, "key_bits": 512, "num_rounds": 4}
    own = {**usual, **given}
    federation = f"digits-{own['rho']:g}/{own['emd']:g}"
    return comparison_cell(federation, "digits", method, seed, **own)


def turned_digits(method: Method, seed: int, options: PaperSettings) -> Cell:
    """Return the cell that trains on digits rotated by an angle per client.

    Sizes and training settings are the defaults of `dubhe compare`.
    """
    small = {} if options.is_full else {**_SMALL, "num_rounds": _ROUNDS["small"]}
    own = {**small, "learning_rate": 0.1, "num_clients": 150, "num_samples": 32}
    return comparison_cell("turned digits-10/1.5", "turned-digits", method, seed, **own)


def comparison_cell(name: str, dataset: str, method: Method, seed: int, **given: Any) -> Cell:
    """Return the cell that trains with one method in a federation of this name.

    Other keywords are as in `CompareSettings.for_dataset`.
    """
    settings = TrainingCellSettings.for_dataset(
        dataset, **{"methods": (method.kind,), "seed": seed, **method.settings, **given}
    )
    return Cell(
        "training",
        f"{name}, {method}, seed {settings.federation.seed}",
        identity(settings, method, _NO_IDENTITY)
        | _FIXED
        | (_GROUP_NORM if settings.dataset == "cifar10" else {}),
        partial(measure, settings),
    )


def trainings(
    name: str,
    skew: str,
    options: PaperSettings,
    methods: tuple[Method, ...],
    seeds: tuple[int, ...] = (0,),
    **given: Any,
) -> dict[str, list[Cell]]:
    """Return the cells of all methods in one federation; `seeds` apply at full scale.

    Other keywords are as in `training_cell`.
    """
    cell = partial(training_cell, name, skew, options=options, **given)
    return columns(methods, options.seeds_or(seeds), cell)


def final_mean(result: Mapping[str, Any], series: str = "accuracy") -> float:
    """Return the mean of a series over the last 50 rounds, or the last quarter of a shorter run.

    All these rounds were evaluated.

    Examples
    --------
    >>> final_mean({"methods": {"random": {"accuracy": [0.1, 0.2, 0.3, 0.4, 0.5]}}})
    0.5
    """
    (method,) = result["methods"].values()
    values = method[series][1:]
    return fmean(values[-min(_LAST_ROUNDS, max(1, len(values) // 4)) :])


def methods_of(of_seeds: Seeds) -> list[Mapping[str, Any]]:
    """Return what `MethodResult` stored for each finished seed."""
    return [of for result in of_seeds.values() for of in result["methods"].values()]


def costs_of(method: Method, of_seeds: Seeds) -> list[str]:
    """Return what the server learns, and the clients' extra work."""
    # Cells that are older than loss-based methods have no count of evaluations.
    evaluations = [of.get("evaluations", 0) / of["num_rounds"] for of in methods_of(of_seeds)]
    return [server_learns(method.name), extra_work(method.name, fmean(evaluations))]


def accuracies(of_seeds: Seeds) -> list[float]:
    """Return the final accuracy of each finished seed."""
    return [final_mean(result) for result in of_seeds.values()]


def gains(own: Seeds, other: Seeds) -> list[float]:
    """Return the points of accuracy gained over other training runs, by the seeds of both."""
    return [
        100 * (final_mean(own[seed]) - final_mean(other[seed]))
        for seed in sorted(own.keys() & other.keys())
    ]


def mean_gain(differences: Sequence[float]) -> str:
    """Return the mean of paired differences and its standard error.

    Examples
    --------
    >>> mean_gain([1.0, 3.0]), mean_gain([-0.5]), mean_gain([])
    ('+2.0±1.0', '-0.5', '')
    """
    if not differences:
        return ""
    mean = f"{fmean(differences):+.1f}"
    if len(differences) == 1:
        return mean
    return f"{mean}±{stdev(differences) / len(differences) ** 0.5:.1f}"


def together(of_methods: Mapping[str, Seeds]) -> ComparisonResults:
    """Combine the first finished seed of each method; at least one method has one."""
    first = {name: next(iter(of.values())) for name, of in of_methods.items() if of}
    methods = {
        name: MethodResult.from_dict(content)
        for name, result in first.items()
        for content in result["methods"].values()
    }
    federation = next(iter(first.values()))["federation"]
    return ComparisonResults({}, FederationSummary(**federation), methods)


def measure(settings: CompareSettings, machine: MachineSettings, advance: Advance) -> Measured:
    """Train with each selection method."""
    # Imported here, since they need torch, which is optional and slow to import.
    from dubhe_lab.experiments.compare import compare  # noqa: PLC0415
    from dubhe_lab.paper.scenarios import scenario_of  # noqa: PLC0415

    def on_round(_method: str, server_round: int, _accuracy: float | None) -> None:
        # Round 0 is the initial model, which nobody trains.
        advance(min(server_round, 1) / settings.num_rounds / len(settings.methods))

    results = compare(replace(settings, machine=machine), on_round, scenario_of=scenario_of)
    return Measured(
        {
            "federation": asdict(results.federation),
            "methods": {name: of.to_dict() for name, of in results.methods.items()},
        },
        device=device_name(machine),
        packages=("torch", "torchvision"),
    )


def device_name(machine: MachineSettings) -> str:
    """Return the name of the device to train on."""
    import torch  # noqa: PLC0415 - an extra

    from dubhe_lab.training.loop import resolve_device  # noqa: PLC0415 - imports torch

    device = resolve_device(machine.device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
