"""The settings of experiments, which are also the command-line options of `dubhe`.

Four small classes describe the parts: `FederationSettings` (how clients' data is drawn),
`SelectionSettings` (how Dubhe selects), `TrainingSettings` and `MachineSettings`. Two classes hold
them: `StudySettings` for a study, which only selects, and `CompareSettings` for a comparison, which
also trains. The fields of `SelectionSettings` are taken over from `dubhe_flwr`, so that their
defaults and help are written only once. Invalid values raise `SettingsError` before anything runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, Self

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.rules import Paper, Prices, Rule, Tries
from dubhe_lab.data import DATASETS, Federation, PartitionKind
from dubhe_lab.experiments.options import CommandSettings, names, numbers, numbers_of, option, same
from dubhe_lab.report.methods import METHODS

DUBHE: Final[Mapping[str, Mapping[str, Any]]] = {
    "dubhe-paper": {"rule": "paper"},
    "dubhe": {},
}
"""Selection settings of each Dubhe method: the paper's rule, and our defaults."""

COMPARED: Final = ("random", "dubhe-paper", "dubhe", "greedy")
"""Methods of a comparison by default."""


@dataclass(frozen=True, kw_only=True)
class FederationSettings(CommandSettings):
    """A drawn federation: its number of clients, and the skew of their data."""

    num_clients: int = option(1000, "N: number of clients in the federation.", least=1)
    num_samples: int = option(128, "Samples per client.", least=1)
    rho: float = option(10.0, "Global skew: the largest class's size divided by the smallest's.")
    emd: float = option(1.5, "How much clients differ, from 0 (all alike) to 2 (no overlap).")
    generator: PartitionKind = option("dirichlet", "How clients are drawn: dirichlet or mixture.")
    seed: int = option(0, "Seed of everything: same seed, same clients, same accuracies.", least=0)

    def draw(self, name: str, num_classes: int) -> Federation:
        """Draw the federation. Raises `SettingsError` if its skew cannot be reached."""
        own = self.flat()
        kind, rng = own.pop("generator"), generator(own.pop("seed"), "federation")
        return Federation.draw(name, num_classes=num_classes, generator=rng, kind=kind, **own)


def _shares_or(word: str, example: str) -> Callable[[str, str], tuple[float, ...] | str]:
    """Return a parser of shares, or of a word that stands for them."""
    shares = numbers_of(float, f"{example}, or {word}")
    return lambda name, text: text if text == word else shares(name, text)


def check_participants(num_participants: int, num_clients: int) -> None:
    """Refuse to select more clients than there are."""
    if num_participants > num_clients:
        raise SettingsError(
            f"num_participants={num_participants} is above num_clients={num_clients}; select fewer."
        )


RULES: Final[Mapping[str, type[Any]]] = {"prices": Prices, "paper": Paper}
"""Rules by their names in `SelectionSettings`, which has the settings of each."""


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(CommandSettings):
    """How Dubhe selects: settings of `dubhe_flwr` and of its rules.

    Contains only settings that matter in experiments, where nodes never fail. Thresholds are shares
    in the order of the reference set, without the largest size.
    """

    tries: int | None = option(
        None,
        "H: tries per round, among which an agent chooses. With 1 there is no agent.",
        least=1,
        shown="1, or 20 with the paper's rule",
    )

    num_participants: int = same(Settings, "num_participants", default=20)
    rule: str = same(
        Settings,
        "rule",
        default="prices",
        choices=tuple(RULES),
        after=f" One of {', '.join(RULES)}.",
    )
    coverage: float = same(Prices, "coverage", before="(prices) ")
    local_skew: float = same(Prices, "local_skew", before="(prices) ")
    target: tuple[float, ...] | Literal["own"] | None = same(
        Prices,
        "target",
        parse=_shares_or("own", "0.7,0.3"),
        before="(prices) ",
        after=" For example 0.7,0.3, or own.",
    )
    reference_set: tuple[int, ...] = same(
        Paper, "reference_set", default=(1, 2, 10), parse=numbers, before="(paper) "
    )
    thresholds: tuple[float, ...] | str | None = same(
        Paper,
        "thresholds",
        parse=_shares_or("search", "0.7,0.1"),
        before="(paper) ",
        after=" For example 0.7,0.1 for sizes 1 and 2.",
    )
    registration_interval: int = same(Settings, "registration_interval")
    key_bits: int = same(Settings, "key_bits")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Settings`."""
        known = {own.name for own in fields(Settings)}
        taken = {name: value for name, value in self.flat().items() if name in known}
        taken["rule"] = self.chosen_rule
        return taken if self.tries is None else taken | {"determination": self.determined}

    @property
    def determined(self) -> Tries:
        """The tries among which an agent chooses."""
        return self.chosen_rule.determination if self.tries is None else Tries(self.tries)

    @property
    def chosen_rule(self) -> Rule:
        """The rule, made from the settings of the same names."""
        kind = RULES[self.rule]
        given = {own.name: getattr(self, own.name) for own in fields(kind) if own.name != "noise"}
        if isinstance(thresholds := given.get("thresholds"), tuple):
            sizes = tuple(size for size in self.reference_set if size != max(self.reference_set))
            if len(thresholds) != len(sizes):
                raise SettingsError(
                    f"thresholds={thresholds} must have one share for each of the sizes {sizes} "
                    "of reference_set, in the same order."
                )
            given["thresholds"] = dict(zip(sizes, thresholds, strict=True))
        rule: Rule = kind(**given)
        return rule


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(CommandSettings):
    """How the clients train, and how the server applies their updates."""

    optimizer: Literal["sgd", "adam"] = option("sgd", "The clients' optimizer: sgd or adam.")
    learning_rate: float | None = option(
        None,
        "The clients' learning rate. With adam, the default is 3e-3 for digits, otherwise 1e-4.",
        shown="0.05 for sgd, 1e-4 for adam",
    )
    server_momentum: float = option(0.0, "Server momentum (FedAvgM); 0 is FedAvg.")
    local_loss: Literal["plain", "balanced", "adjusted"] = option(
        "plain", "The clients' loss: plain, balanced (by class), or adjusted (logits)."
    )
    proximal: float = option(
        0.0, "mu of FedProx, which keeps each client's model close to the global one; 0 is FedAvg."
    )
    batch_size: int = option(8, "Samples per training step.", least=1)
    epochs: int = option(1, "Passes over a client's samples per round.", least=1)
    num_threads: int = option(1, "CPU threads that a client trains with.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rate < float("inf"):
            raise SettingsError(f"learning_rate={self.learning_rate} must be above 0.")
        if not 0 <= self.proximal < float("inf"):
            raise SettingsError(f"proximal={self.proximal} must be at least 0.")
        if not 0 <= self.server_momentum < 1:
            raise SettingsError(
                f"server_momentum={self.server_momentum} must be at least 0 and below 1."
            )

    @property
    def rate(self) -> float:
        """The learning rate, by default 0.05 for SGD and the paper's 1e-4 for Adam."""
        usual = {"sgd": 0.05, "adam": 1e-4}[self.optimizer]
        return usual if self.learning_rate is None else self.learning_rate

    def flat(self) -> dict[str, Any]:
        """Return all values, with the default learning rate in place of None."""
        return super().flat() | {"learning_rate": self.rate}


@dataclass(frozen=True, kw_only=True)
class MachineSettings(CommandSettings):
    """Where an experiment runs. This changes results in the last digits only."""

    data_dir: str | None = option(None, "Folder with the data sets.", shown="the user's cache")
    device: Literal["auto", "cpu", "cuda"] = option("auto", "Where to train: auto, cpu or cuda.")


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings(CommandSettings):
    """The settings that a comparison and a study share."""

    federation: FederationSettings = field(default_factory=FederationSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    num_rounds: int = option(200, "Rounds per method.", least=1)
    encrypted: bool = option(
        default=False,
        about="Encrypt, as real nodes do; without it, the same clients are selected, but faster.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_classes()

    @property
    def classes(self) -> int:
        """``C``, the largest size of the reference set."""
        return max(self.selection.reference_set)

    def _check_classes(self) -> None:
        number = self.selection.chosen_rule.num_classes
        if number not in {None, self.classes}:
            what = "reference_set" if self.selection.target is None else "target"
            given = f"{what}={getattr(self.selection, what)}"
            raise SettingsError(f"{given} is for {number} classes, not {self.classes}.")

    def protocol_settings(self, method: str = "dubhe") -> Settings:
        """Return the protocol's settings for a method of `DUBHE` with simulated nodes."""
        selection = replace(self.selection, **DUBHE[method])
        return Settings(
            **selection.arguments(),
            equal_weights=True,  # all clients have the same number of samples
            max_registered=max(Settings.max_registered, self.federation.num_clients),
            seed=self.federation.seed,
            rounds_per_draw=1,  # so that each round's cost includes its own draw
            simulation="encrypted" if self.encrypted else "plain",
        )


@dataclass(frozen=True, kw_only=True)
class StudySettings(ExperimentSettings):
    """The settings of a study, which selects without training."""

    num_classes: int | None = option(
        None, "C: number of classes.", least=2, shown="10, or as in --reference-set"
    )

    @property
    def classes(self) -> int:
        """``C``."""
        return super().classes if self.num_classes is None else self.num_classes

    def __post_init__(self) -> None:
        super().__post_init__()
        self.protocol_settings()


@dataclass(frozen=True, kw_only=True)
class CompareSettings(ExperimentSettings):
    """The settings of a comparison, which trains with each method; make them with `for_dataset`."""

    dataset: str = option(
        "digits", f"Data set: one of {', '.join(DATASETS)}.", choices=tuple(DATASETS)
    )
    methods: tuple[str, ...] = option(
        COMPARED,
        f"Selection methods, separated by commas. Choose from: {', '.join(METHODS)}.",
        choices=METHODS,
        parse=names,
    )
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluate_every: int = option(
        1, "Rounds between evaluations; the last rounds are always evaluated.", least=1
    )
    machine: MachineSettings = field(default_factory=MachineSettings)
    encrypted: bool = same(ExperimentSettings, "encrypted", default=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise SettingsError(
                f"methods={','.join(self.methods)!r} must name at least one method, each once."
            )
        check_participants(self.selection.num_participants, self.federation.num_clients)
        for method in DUBHE.keys() & set(self.methods):
            self.protocol_settings(method)

    @classmethod
    def for_dataset(cls, dataset: str, **given: Any) -> Self:
        """Return settings with defaults that suit a data set; None stands for the default.

        ``digits`` gets a federation that trains in about a minute, every other data set the
        paper's federation.
        """
        own = {name: value for name, value in given.items() if value is not None}
        usual: dict[str, Any] = {"dataset": dataset.lower(), "num_rounds": 60}
        if usual["dataset"] == "digits":
            rate = {"adam": 3e-3}.get(own.get("optimizer", "sgd"), 0.1)
            usual |= {"num_clients": 150, "num_samples": 32, "learning_rate": rate}
        return cls.of(**usual | own)

    def is_evaluated(self, server_round: int) -> bool:
        """Return whether to evaluate the model after this round; round 0 is the initial model."""
        at_the_end = server_round > self.num_rounds - max(5, self.num_rounds / 4)
        return at_the_end or server_round % self.evaluate_every == 0
