"""What experiments are made of: a federation, a selection, training, and where all of it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Final, Literal, Self, cast

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings
from dubhe_flwr.rules import Paper, Prices, Rule
from dubhe_lab.data import DATASETS, Federation, PartitionKind
from dubhe_lab.experiments.options import CommandSettings, names, numbers, numbers_of, option, same

_PAPER: Final = {"rule": "paper", "determination": "tries", "group_size": None}
DUBHE: Final[Mapping[str, Mapping[str, Any]]] = {
    "dubhe-paper": _PAPER,
    "dubhe-search": {**_PAPER, "thresholds": "search"},
    "dubhe": {},
}
"""What the methods that are Dubhe set: the paper's way, searched thresholds, our defaults."""

SEEING_LOSSES: Final = ("powd", "afl", "oort")
"""The methods to which clients tell losses, so that they need a model."""

METHODS: Final = ("random", *DUBHE, "greedy", "flips", "fedcbs", "fedentopt", *SEEING_LOSSES)
"""All ways of selecting; the four from greedy on are oracles that see all labels."""

COMPARED: Final = ("random", "dubhe-paper", "dubhe", "greedy")
"""Those that are compared where nothing else is asked for."""

STUDIED: Final = ("random", "dubhe", "greedy")
"""Those of a study, in which the settings say how Dubhe selects."""


@dataclass(frozen=True, kw_only=True)
class FederationSettings(CommandSettings):
    """Who holds how much of what. They fix the federation to the sample."""

    num_clients: int = option(1000, "N: clients of the federation.", least=1)
    num_samples: int = option(128, "Samples of each client.", least=1)
    rho: float = option(10.0, "Skew of all data: largest class divided by the smallest.")
    emd: float = option(1.5, "How much clients differ: 0, all alike, to 2, nothing in common.")
    generator: PartitionKind = option("dirichlet", "How clients differ: dirichlet or mixture.")
    seed: int = option(0, "Fixes all chance: same seed, same sets, same accuracies.", least=0)

    def draw(self, name: str, num_classes: int) -> Federation:
        """Return the federation; `SettingsError` if its skew is out of reach."""
        own = self.flat()
        kind, rng = own.pop("generator"), generator(own.pop("seed"), "federation")
        return Federation.draw(name, num_classes=num_classes, generator=rng, kind=kind, **own)


def _shares_or_search(name: str, text: str) -> tuple[float, ...] | str:
    return text if text == "search" else numbers_of(float, "0.7,0.1, or search")(name, text)


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(CommandSettings):
    """How Dubhe selects. Thresholds are in the order of the reference set, without the last one."""

    num_participants: int = option(20, "K: clients that are selected in a round.", least=1)
    rule: Literal["prices", "paper"] = option(
        "prices", "How likely a client volunteers: prices or paper."
    )
    coverage: float = option(Prices.coverage, "Prices: that of calling the same clients again.")
    local_skew: float = option(Prices.local_skew, "Prices: that of the clients' own skew.")
    target: tuple[float, ...] | None = option(
        None,
        "Prices: wanted share of each class.",
        parse=numbers_of(float, "0.7,0.3"),
        shown="all alike",
    )
    determination: Literal["auto", "tries", "grouped"] = option(
        "auto", "What Dubhe's agent chooses from: tries, grouped, or auto, groups where they pay."
    )
    tries: int | None = option(
        None,
        "H: tentative selections of a round; with groups as many times K volunteers.",
        least=1,
        shown="20, with groups by prices from 5 up",
    )
    group_size: int | None = option(
        None, "g: fewest clients in a group.", least=1, shown="K / 5, 3 or 4"
    )
    thresholds: tuple[float, ...] | str | None = option(
        None,
        "Shares in the order of the reference set, or search.",
        parse=_shares_or_search,
        shown="the paper's",
    )
    reference_set: tuple[int, ...] = option(
        (1, 2, 10), "G: possible numbers of dominating classes.", parse=numbers
    )
    registration_interval: int | None = option(
        None, "Rounds between registrations.", least=1, shown="50, with many tries fewer"
    )
    key_bits: int = option(2048, "Size of the Paillier keys; below 2048 for tests only.")

    def flat(self) -> dict[str, Any]:
        """Return all values, with what None stands for."""
        # More tries a round, earlier a new epoch: the budget of draws stays what it is.
        most = Settings.max_draws_per_epoch // (self.tries or 20)
        interval = self.registration_interval or max(1, min(50, most))
        return super().flat() | {"registration_interval": interval}

    @property
    def participation(self) -> Rule:
        """The rule, with its settings."""
        if self.rule == "prices":
            return Prices(self.coverage, self.local_skew, self.target)
        thresholds = self.thresholds
        if thresholds is None or isinstance(thresholds, str):
            return Paper(self.reference_set, cast("Literal['search'] | None", thresholds))
        sizes = tuple(size for size in self.reference_set if size != max(self.reference_set))
        if len(thresholds) != len(sizes):
            raise SettingsError(
                f"thresholds={thresholds} must give one share for each of the sizes {sizes} "
                "of reference_set, in that order."
            )
        return Paper(self.reference_set, dict(zip(sizes, thresholds, strict=True)))


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(CommandSettings):
    """How the clients train."""

    optimizer: Literal["sgd", "adam"] = option("sgd", "How clients train: sgd or adam.")
    learning_rate: float | None = option(
        None, "Learning rate of the clients.", shown="0.05 for sgd, 1e-4 for adam"
    )
    server_momentum: float = option(0.0, "Momentum of the server (FedAvgM); 0 is FedAvg.")
    local_loss: Literal["plain", "balanced", "adjusted"] = option(
        "plain", "Loss of the clients: plain, class-balanced, or with adjusted logits."
    )
    proximal: float = option(0.0, "mu of FedProx, which keeps clients near the model; 0 is FedAvg.")
    batch_size: int = option(8, "Samples of a training step.", least=1)
    epochs: int = option(1, "Passes of a client over its samples in a round.", least=1)
    num_threads: int = option(1, "CPU threads of each training.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rate < float("inf"):
            raise SettingsError(f"learning_rate={self.learning_rate} must be above 0.")
        if not 0 <= self.proximal < float("inf"):
            raise SettingsError(f"proximal={self.proximal} must be at least 0.")
        if not 0 <= self.server_momentum < 1:
            raise SettingsError(
                f"server_momentum={self.server_momentum} must be from 0 to below 1."
            )

    @property
    def rate(self) -> float:
        """The learning rate; that of Adam is the paper's where none is given."""
        usual = {"sgd": 0.05, "adam": 1e-4}[self.optimizer]
        return usual if self.learning_rate is None else self.learning_rate

    def flat(self) -> dict[str, Any]:
        """Return all values, with what None stands for."""
        return super().flat() | {"learning_rate": self.rate}


@dataclass(frozen=True, kw_only=True)
class MachineSettings(CommandSettings):
    """Where it runs. Results differ in the last digits only."""

    data_dir: str | None = option(None, "Folder of the data sets.", shown="the user's cache")
    device: str = option("auto", "Where to train: auto, cpu or cuda.")


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings(CommandSettings):
    """What a comparison and a study have in common."""

    federation: FederationSettings = field(default_factory=FederationSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    num_rounds: int = option(
        200, "Rounds of each method.", least=1, spelt=("--num-rounds", "--rounds")
    )
    encrypted: bool = option(
        default=False,
        about="Encrypt, as real nodes do; plain selects the same sets sooner.",
        spelt=("--encrypted/--plain",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        rule, classes = self.selection.participation, max(self.selection.reference_set)
        if rule.num_classes not in {None, classes}:
            raise SettingsError(
                f"target has {rule.num_classes} shares for {classes} classes; give one for each."
            )

    def protocol_settings(self, method: str = "dubhe") -> Settings:
        """Return how one of the methods of `DUBHE` selects, in a federation of simulated nodes."""
        selection = replace(self.selection, **DUBHE[method])
        same_names = ("num_participants", "determination", "tries", "group_size", "key_bits")
        return Settings(
            **{name: selection.flat()[name] for name in (*same_names, "registration_interval")},
            rule=selection.participation,
            equal_weights=True,  # all clients have as many samples
            max_registered=max(Settings.max_registered, self.federation.num_clients),
            seed=self.federation.seed,
            rounds_per_draw=1,  # what it costs is told as of real nodes
            simulation="encrypted" if self.encrypted else "plain",
        )


@dataclass(frozen=True, kw_only=True)
class StudySettings(ExperimentSettings):
    """What a study of selection is made of."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.protocol_settings()


@dataclass(frozen=True, kw_only=True)
class CompareSettings(ExperimentSettings):
    """What a comparison is made of; use `for_dataset`."""

    dataset: str = option(
        "digits", f"Data set: one of {', '.join(DATASETS)}.", choices=tuple(DATASETS)
    )
    methods: tuple[str, ...] = option(
        COMPARED,
        f"Ways of selecting, separated by commas, of all these: {', '.join(METHODS)}.",
        choices=METHODS,
        parse=names,
    )
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluate_every: int = option(
        1, "Rounds between two evaluations; the last ones all have one.", least=1
    )
    engine: Literal["inprocess", "ray"] = option(
        "inprocess", "Simulator: inprocess, or ray (Flower's own)."
    )
    machine: MachineSettings = field(default_factory=MachineSettings)
    encrypted: bool = same(ExperimentSettings, "encrypted", default=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise SettingsError(
                f"methods={','.join(self.methods)!r} must name at least one method, each once."
            )
        wanted, num_clients = self.selection.num_participants, self.federation.num_clients
        if wanted > num_clients:
            raise SettingsError(
                f"num_participants={wanted} is above num_clients={num_clients}; select fewer."
            )
        if self.engine == "ray" and find_spec("ray") is None:
            raise SettingsError(
                "engine='ray' needs Ray; run `pip install './apps/lab[simulation]'` in a clone "
                "or choose engine='inprocess'."
            )
        for method in DUBHE.keys() & set(self.methods):
            self.protocol_settings(method)

    @classmethod
    def for_dataset(cls, dataset: str, **given: Any) -> Self:
        """Return settings whose sizes suit a data set, but for those given; None is the default.

        ``digits`` gets a federation that trains in about a minute, all others that of the paper.
        """
        own = {name: value for name, value in given.items() if value is not None}
        usual: dict[str, Any] = {"dataset": dataset.lower(), "num_rounds": 60}
        if usual["dataset"] == "digits":
            rate = {"adam": 3e-3}.get(own.get("optimizer", "sgd"), 0.1)
            usual |= {"num_clients": 150, "num_samples": 32, "learning_rate": rate}
        return cls.of(**usual | own)

    def is_evaluated(self, server_round: int) -> bool:
        """Return whether the model after this round is tested; round 0 is the initial model."""
        at_the_end = server_round > self.num_rounds - max(5, self.num_rounds / 4)
        return at_the_end or server_round % self.evaluate_every == 0
