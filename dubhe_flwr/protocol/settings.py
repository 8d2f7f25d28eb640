"""The settings of a selection, checked once and before the first message."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Literal, get_args

from dubhe_flwr.core import Codebook, check_thresholds, default_thresholds
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol.join import MAX_COVERAGE, MAX_LOCAL_SKEW, JoinRequest
from dubhe_flwr.protocol.messages import MAX_DRAWS
from dubhe_flwr.protocol.parameters import epoch_parameters

__all__ = ["DeterminationRule", "OnFailure", "ParticipationRule", "Settings"]

ParticipationRule = Literal["paper", "calibrated"]
DeterminationRule = Literal["tries", "grouped", "one-off"]
OnFailure = Literal["raise", "random"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an operator decides about the selection.

    Parameters
    ----------
    num_participants : int
        ``K``: clients that train in a round.
    reference_set : iterable of int
        ``G``: possible numbers of dominating classes; the largest is the number of classes.
    thresholds : mapping of int to float, optional (default: the paper's, where it gives any)
        ``sigma_i``: least share of the ``i``-th largest class for ``i`` classes to dominate.
    num_classes : int, optional (default: the largest of `reference_set`)
        ``C``; given, it is checked that the reference set contains it.
    participation : "paper" or "calibrated" (default: "paper")
        How a node's probability is computed: by eq. 6, or solved for by an agent from encrypted
        sums of each category's data.
    determination : "tries", "grouped" or "one-off" (default: "tries")
        What an agent chooses from: the best of `tries` selections; the best groups of a pool of
        volunteers, ``tries * K`` on average; or nothing.
    tries : int (default: 10)
        ``H``: tentative selections of a round, of which the agent picks the best. With 1 there
        is no determination.
    group_size : int (default: 4)
        ``g``: fewest clients in a group.
    coverage : float (default: 1.0)
        Calibrated participation: price of calling the same clients again and again, relative to
        that of the sampling variance.
    floor : float (default: 0.1)
        Calibrated participation: least probability of a category, as a share of the uniform one.
    local_skew : float (default: 0.0)
        Price that the agent puts on the clients' own skew, the other label term of the bound.
    registration_interval : int (default: 50)
        Rounds between registrations; label counts are read anew at each.
    rounds_per_draw : int (default: 1)
        ``T``: rounds for which the nodes draw, and the agents determine, in one exchange.
    min_cohort : int (default: 3)
        Fewest clients that any decrypted sum covers. Nodes have a floor of their own.
    quorum : int (default: 0, which stands for `min_cohort`)
        Fewest registered and willing nodes with which a round goes on.
    on_failure : "raise" or "random" (default: "raise")
        What becomes of a round that cannot go on, for instance below the quorum: a `QuorumError`
        ends the run, or this round's clients are chosen at random from the nodes that are there
        and did not say no. The log and the plan say so.
    max_unregistered : float (default: 0.2)
        Share of the present nodes that may be unregistered before an early registration.
    key_bits : int (default: 2048)
        Size of the Paillier modulus.
    max_clients : int (default: 10000)
        Largest federation whose counters fit a slot.
    max_draws_per_epoch : int (default: 1000)
        Budget of draws of a node between registrations, ``H`` a round.
    max_sums_per_epoch : int (default: 500)
        Budget of sums that one agent decrypts between registrations, ``H`` a round. Whatever is
        set here, an agent stops before it has half as many sums as there are clients.
    agent_attempts : int (default: 3)
        Agents that are asked, one after the other, before a step is given up.
    seed : int, optional (default: from the operating system)
        Makes the server's choices repeat, and those of nodes that are simulated with
        `seeded_draws`.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> Settings(num_participants=20, reference_set=(1, 2, 10)).thresholds
    {1: 0.7, 2: 0.1}
    >>> Settings(num_participants=2, reference_set=(1, 2, 10))
    Traceback (most recent call last):
    dubhe_flwr.errors.SettingsError: min_cohort=3 is above num_participants=2; select more \
clients a round or lower min_cohort.
    """

    num_participants: int
    reference_set: Iterable[int]
    thresholds: Mapping[int, float] | None = None
    num_classes: int | None = None
    participation: ParticipationRule = "paper"
    determination: DeterminationRule = "tries"
    tries: int = 10
    group_size: int = 4
    coverage: float = 1.0
    floor: float = 0.1
    local_skew: float = 0.0
    registration_interval: int = 50
    rounds_per_draw: int = 1
    min_cohort: int = 3
    quorum: int = 0
    on_failure: OnFailure = "raise"
    max_unregistered: float = 0.2
    key_bits: int = 2048
    max_clients: int = 10_000
    max_draws_per_epoch: int = 1000
    max_sums_per_epoch: int = 500
    agent_attempts: int = 3
    seed: int | None = None
    codebook: Codebook = field(init=False)

    def __post_init__(self) -> None:
        self._check_counts()
        codebook = Codebook(self.reference_set)
        if self.num_classes not in {None, codebook.num_classes}:
            raise SettingsError(
                f"reference_set={codebook.reference_set} lacks num_classes={self.num_classes} as "
                "its largest size; add it, for clients without a dominating class."
            )
        given = self.thresholds if self.thresholds is not None else default_thresholds(codebook)
        derived = {
            "codebook": codebook,
            "reference_set": codebook.reference_set,
            "thresholds": check_thresholds(codebook, given),
            "quorum": self.quorum or self.min_cohort,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        try:
            epoch_parameters(self.announced())
        except RefusedError as error:
            raise SettingsError(str(error)) from None

    @property
    def volunteer_tries(self) -> int:
        """How many times K clients shall draw a yes in a draw, on average."""
        return self.tries if self.determination == "grouped" else 1

    @property
    def draws_per_round(self) -> int:
        """Draws of a node for a round."""
        return self.tries if self.determination == "tries" else 1

    def announced(self) -> JoinRequest:
        """Return what every node is told of the settings when it is asked to join."""
        codebook, thresholds = self.codebook, self.thresholds or {}
        return JoinRequest(
            reference_set=codebook.reference_set,
            thresholds=tuple(thresholds.values()),
            num_participants=self.num_participants,
            key_bits=self.key_bits,
            max_clients=self.max_clients,
            min_cohort=self.min_cohort,
            max_draws=self.max_draws_per_epoch,
            max_sums=self.max_sums_per_epoch,
            seed=-1 if self.seed is None else self.seed,
            volunteer_tries=self.volunteer_tries,
            group_size=self.group_size if self.determination == "grouped" else 0,
            calibrated=self.participation == "calibrated",
            coverage=float(self.coverage),
            floor=float(self.floor),
            local_skew=float(self.local_skew),
        )

    def _check_counts(self) -> None:
        least = {
            "num_participants": 1,
            "tries": 1,
            "registration_interval": 1,
            "rounds_per_draw": 1,
            "min_cohort": 2,
            "quorum": 0,
            "group_size": 0,
            "key_bits": 512,
            "max_clients": 1,
            "max_draws_per_epoch": 1,
            "max_sums_per_epoch": 0,
            "agent_attempts": 1,
        }
        for name, smallest in least.items():
            value = _integer(name, getattr(self, name))
            object.__setattr__(self, name, value)
            if value < smallest:
                raise SettingsError(f"{name}={value} must be at least {smallest}.")
        if self.min_cohort > self.num_participants:
            raise SettingsError(
                f"min_cohort={self.min_cohort} is above num_participants={self.num_participants}; "
                "select more clients a round or lower min_cohort."
            )
        if 0 != self.quorum < self.min_cohort:
            raise SettingsError(
                f"quorum={self.quorum} is below min_cohort={self.min_cohort}; raise it."
            )
        if self.num_participants > self.max_clients:
            raise SettingsError(
                f"num_participants={self.num_participants} is above max_clients="
                f"{self.max_clients}; raise max_clients to the size of the federation."
            )
        if not 0.0 <= self.max_unregistered <= 1.0:
            raise SettingsError(
                f"max_unregistered={self.max_unregistered} must be a share from 0 to 1."
            )
        self._check_choices()
        draws = self.draws_per_round * self.registration_interval
        if draws > self.max_draws_per_epoch:
            raise SettingsError(
                f"tries={self.draws_per_round} in each of registration_interval="
                f"{self.registration_interval} rounds make {draws} draws, above "
                f"max_draws_per_epoch={self.max_draws_per_epoch}; lower one of them or accept the "
                "price in privacy by raising the budget."
            )
        if self.draws_per_round * self.rounds_per_draw > MAX_DRAWS:
            raise SettingsError(
                f"tries={self.tries} in each of rounds_per_draw={self.rounds_per_draw} rounds are "
                f"more than {MAX_DRAWS} draws in one message; lower one of them."
            )
        if self.seed is not None:
            self._check_seed(_integer("seed", self.seed))

    def _check_seed(self, seed: int) -> None:
        if not 0 <= seed < 2**63:
            raise SettingsError(f"seed={seed} must be from 0 to 2**63 - 1.")
        object.__setattr__(self, "seed", seed)

    def _check_choices(self) -> None:
        for name, choices in (
            ("participation", get_args(ParticipationRule)),
            ("determination", get_args(DeterminationRule)),
            ("on_failure", get_args(OnFailure)),
        ):
            if getattr(self, name) not in choices:
                raise SettingsError(f"{name}={getattr(self, name)!r} must be one of {choices}.")
        if self.determination == "grouped" and not (
            self.min_cohort <= self.group_size <= self.num_participants
        ):
            raise SettingsError(
                f"group_size={self.group_size} must be from min_cohort={self.min_cohort} to "
                f"num_participants={self.num_participants}."
            )
        if not 0.0 <= self.coverage <= MAX_COVERAGE or not 0.0 <= self.floor <= 1.0:
            raise SettingsError(
                f"coverage={self.coverage} must be from 0 to {MAX_COVERAGE:.0f} and "
                f"floor={self.floor} from 0 to 1."
            )
        if not 0.0 <= self.local_skew <= MAX_LOCAL_SKEW:
            raise SettingsError(
                f"local_skew={self.local_skew} must be from 0 to {MAX_LOCAL_SKEW:.0f}; "
                "1 is a lot already."
            )


def _integer(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise SettingsError(f"{name}={value!r} must be a whole number.") from None
