"""Cells with training: one way of selecting in one federation, with one seed."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from dubhe_flwr.data.named import NamedFederation
from dubhe_flwr.experiments.settings import CompareSettings
from reproduction.cell import Advance, Cell, Measured, Resources
from reproduction.methods import Method
from reproduction.options import Options

__all__ = ["measure_training", "trained_on", "training_cell"]

_SMALL: Final[Mapping[str, Any]] = {
    "num_clients": 150,
    "num_samples": 32,
    "learning_rate": 3e-3,
    # The sets are the same with any keys, and small ones take a tenth of the time.
    "key_bits": 512,
}
_SMALL_ROUNDS: Final = 12
_FULL_ROUNDS: Final = 200
_SECONDS_PER_ROUND: Final = {"digits": 0.25, "mnist": 3.5, "cifar10": 60.0, "femnist": 8.0}
"""On one core, about; only their ratios matter."""

_EVALUATE_EVERY: Final = {"digits": 1, "mnist": 5, "cifar10": 5, "femnist": 5}
"""Of the large ones an evaluation takes as long as the training of a dozen clients."""

_OUT_OF_IDENTITY: Final = (
    "cohort",
    "data_dir",
    "device",
    "engine",
    "evaluate_every",
    "methods",
    "tries",
)


def trained_on(federation: NamedFederation, options: Options) -> str:
    """Return the data set that stands for the paper's at a scale.

    Examples
    --------
    >>> trained_on(NamedFederation.parse("MNIST-2/0.5"), Options(scale="full"))
    'mnist'
    >>> trained_on(NamedFederation.parse("MNIST-2/0.5"), Options())
    'digits'
    """
    return federation.dataset.lower() if options.is_full else "digits"


def training_cell(
    federation: NamedFederation, method: Method, seed: int, options: Options, **given: Any
) -> Cell:
    """Return the cell of a training.

    Parameters
    ----------
    federation : NamedFederation
        Where to train.
    method : Method
        How to select.
    seed : int
        Fixes federation, initial model, training and selection.
    options : Options
        Scale and rounds.
    **given
        Further settings of the comparison, as in `CompareSettings`.

    Examples
    --------
    >>> federation = NamedFederation.parse("MNIST-10/1.5")
    >>> training_cell(federation, Method("dubhe-paper", 10), 0, Options(scale="full")).name
    'MNIST-10/1.5, dubhe-paper, H=10, seed 0'
    """
    dataset = trained_on(federation, options)
    sizes: Mapping[str, Any] = {} if options.is_full else _SMALL
    rounds = options.num_rounds or (_FULL_ROUNDS if options.is_full else _SMALL_ROUNDS)
    own = {"norm": options.norm} if dataset == "cifar10" else {}
    fixed = {
        "rho": federation.rho,
        "emd": federation.emd,
        "num_rounds": rounds,
        "methods": (method.kind,),
        "selection": method.settings,
        "precision": options.precision,
        "seed": seed,
    }
    settings = CompareSettings.for_dataset(dataset, **{**sizes, **own, **fixed, **given})
    config = asdict(settings) | {"method": method.kind}
    for name in _OUT_OF_IDENTITY:
        del config[name]
    shown = str(federation) if options.is_full else f"digits {federation}"
    work = settings.num_rounds * _SECONDS_PER_ROUND[dataset] * settings.epochs
    return Cell("training", f"{shown}, {method}, seed {seed}", config, work)


def measure_training(config: Mapping[str, Any], resources: Resources, advance: Advance) -> Measured:
    """Train with one way of selecting."""
    # This needs torch, an extra, and seconds to be imported.
    from dubhe_flwr.experiments.compare import compare  # noqa: PLC0415
    from dubhe_flwr.training import device_name  # noqa: PLC0415

    known = CompareSettings.__dataclass_fields__
    settings = CompareSettings(
        **{name: value for name, value in config.items() if name in known},
        methods=(str(config["method"]),),
        data_dir=resources.data_dir,
        device=resources.device,
        cohort=resources.cohort,
        evaluate_every=_EVALUATE_EVERY[str(config["dataset"])],
    )

    def on_round(_method: str, server_round: int, _accuracy: float | None) -> None:
        # Round 0 is the initial model.
        advance(min(server_round, 1) / settings.num_rounds)

    results = compare(settings, on_round).to_dict()
    return Measured(
        {
            "federation": results["federation"],
            "methods": results["methods"],
            "cohort": results["config"]["cohort"],
        },
        device=device_name(settings.device),
        packages=("torch", "torchvision"),
    )
