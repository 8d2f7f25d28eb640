"""What a study of selection is made of: a federation, and how Dubhe selects in it."""

from dataclasses import dataclass
from typing import get_args

from dubhe_flwr.core import Codebook, candidate_grid, default_thresholds
from dubhe_flwr.data import PartitionKind
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings
from dubhe_flwr.protocol.settings import DeterminationRule, ParticipationRule, ThresholdSearch

__all__ = ["StudySettings"]

_LONGEST_INTERVAL = 50


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """What a study of selection is made of.

    Parameters
    ----------
    num_clients : int (default: 1000)
        ``N``.
    num_participants : int (default: 20)
        ``K``: clients that are selected in a round.
    rho : float (default: 10)
        Largest class divided by the smallest, over all clients.
    emd : float (default: 1.5)
        EMD_avg: how much clients differ, from 0 to 2.
    generator : {"dirichlet", "mixture"} (default: "dirichlet")
        How clients differ: see `client_distributions`.
    participation : {"paper", "calibrated"} (default: "calibrated")
        How a client's probability is computed: see `Settings`.
    determination : {"auto", "tries", "grouped", "one-off"} (default: "auto")
        What an agent chooses from: see `Settings`.
    tries : int (default: 20)
        ``H``: tentative selections of a round, or with groups as many volunteers.
    group_size : int (default: 0, which stands for that of `Settings`)
        ``g``: fewest clients in a group.
    coverage, floor : float (default: 0.1 each)
        Of calibrated participation: see `Settings`.
    local_skew : float, optional (default: 0.5 if calibrated, else 0)
        Price that the agent puts on the clients' own skew.
    thresholds : tuple of float, "search" or "search-tries", optional (default: see `Settings`)
        ``sigma_i`` in the order of the reference set, without ``sigma_C``, or how to search.
    reference_set : tuple of int (default: (1, 2, 10))
        ``G``: possible numbers of dominating classes.
    num_classes : int, optional (default: the largest of `reference_set`)
        ``C``.
    num_samples : int (default: 128)
        ``N_VC``: samples of each client.
    num_rounds : int (default: 200)
        Rounds of selection of each method.
    registration_interval : int, optional (default: 50, or less if the draws are spent earlier)
        Rounds between registrations.
    encrypted : bool (default: False)
        Go through the whole protocol instead of the same computation in the clear; the sets are
        the same.
    key_bits : int (default: 2048)
        Size of the Paillier modulus; less is for tests only.
    seed : int (default: 0)
        Fixes federation and selection.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> settings = StudySettings(tries=40)
    >>> settings.num_classes, settings.thresholds, settings.registration_interval
    (10, (0.7, 0.1), 25)
    >>> StudySettings(thresholds=(0.5,))
    Traceback (most recent call last):
    dubhe_flwr.errors.SettingsError: thresholds=(0.5,) must give one share for each of the sizes \
(1, 2) of reference_set, in that order.
    """

    num_clients: int = 1000
    num_participants: int = 20
    rho: float = 10.0
    emd: float = 1.5
    generator: PartitionKind = "dirichlet"
    participation: ParticipationRule = Settings.participation
    determination: DeterminationRule = Settings.determination
    tries: int = Settings.tries
    group_size: int = Settings.group_size
    coverage: float = Settings.coverage
    floor: float = Settings.floor
    local_skew: float | None = Settings.local_skew
    thresholds: tuple[float, ...] | ThresholdSearch | None = None
    reference_set: tuple[int, ...] = (1, 2, 10)
    num_classes: int | None = None
    num_samples: int = 128
    num_rounds: int = 200
    registration_interval: int | None = None
    encrypted: bool = False
    key_bits: int = Settings.key_bits
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_federation()
        codebook = Codebook(self.reference_set)
        if self.num_classes is None:
            object.__setattr__(self, "num_classes", codebook.num_classes)
        if self.thresholds is None:
            paper = tuple(default_thresholds(codebook).values())
            object.__setattr__(self, "thresholds", paper or "search")
        if self.registration_interval is None:
            object.__setattr__(self, "registration_interval", self._affordable_interval())
        self.protocol_settings()

    def protocol_settings(self) -> Settings:
        """Return the settings of Dubhe's selection."""
        assert self.registration_interval is not None  # noqa: S101 - resolved above
        return Settings(
            num_participants=self.num_participants,
            reference_set=self.reference_set,
            thresholds=self._thresholds_by_size(),
            num_classes=self.num_classes,
            participation=self.participation,
            determination=self.determination,
            tries=self.tries,
            group_size=self.group_size,
            coverage=self.coverage,
            floor=self.floor,
            local_skew=self.local_skew,
            registration_interval=self.registration_interval,
            key_bits=self.key_bits,
            max_clients=self.num_clients,
            seed=self.seed,
        )

    def _check_federation(self) -> None:
        for name in ("num_clients", "num_participants", "tries", "num_samples", "num_rounds"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.num_participants > self.num_clients:
            raise SettingsError(
                f"num_participants={self.num_participants} is above num_clients="
                f"{self.num_clients}; select fewer or simulate more."
            )
        if self.generator not in get_args(PartitionKind):
            raise SettingsError(
                f"generator={self.generator!r} must be one of {get_args(PartitionKind)}."
            )

    def _thresholds_by_size(self) -> dict[int, float] | ThresholdSearch:
        thresholds = self.thresholds or ()
        if isinstance(thresholds, str):
            return thresholds
        sizes = tuple(size for size in self.reference_set if size != max(self.reference_set))
        if len(thresholds) != len(sizes):
            raise SettingsError(
                f"thresholds={thresholds} must give one share for each of the sizes {sizes} of "
                "reference_set, in that order."
            )
        return dict(zip(sizes, thresholds, strict=True))

    def _affordable_interval(self) -> int:
        """More tries a round, earlier a new epoch: the budget of draws stays what it is."""
        draws = 1 if self.determination == "one-off" else self.tries
        left = Settings.max_draws_per_epoch
        if self.thresholds == "search-tries":
            a_try = self.tries if self.determination in {"auto", "grouped"} else 1
            left -= a_try * self.tries * len(candidate_grid(Codebook(self.reference_set)))
        return max(1, min(_LONGEST_INTERVAL, left // draws))
