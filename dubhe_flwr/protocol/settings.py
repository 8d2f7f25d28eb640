"""The settings of a selection, checked once and before the first message."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import comb

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dubhe_flwr.core import (
    Codebook,
    candidate_grid,
    default_thresholds,
    expected_volunteers,
)
from dubhe_flwr.he import TrustedKeys
from dubhe_flwr.protocol.messages import JoinRequest
from dubhe_flwr.protocol.settings_checks import (
    DeterminationRule,
    OnFailure,
    ParticipationRule,
    ThresholdSearch,
    check_choices,
    checked_codebook,
    checked_keys,
    checked_numbers,
    checked_thresholds,
)
from dubhe_flwr.protocol.settings_limits import check_candidates, check_draws, check_layout

__all__ = ["DeterminationRule", "OnFailure", "ParticipationRule", "Settings", "ThresholdSearch"]

_LOCAL_SKEW = 0.5
_LARGE = 5
_MANY = 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an operator decides about the selection.

    Parameters
    ----------
    num_participants : int
        ``K``: clients that train in a round.
    reference_set : iterable of int
        ``G``: possible numbers of dominating classes; the largest is the number of classes.
    thresholds : mapping of int to float, "search" or "search-tries", optional
        ``sigma_i``: least share of the ``i``-th largest class for ``i`` classes to dominate. By
        default the paper's, or where it gives none they are searched for: "search" finds the best
        of a grid from the expected data of all candidates, "search-tries" from `tries` tries of
        each, as in the paper; where there are too few clients for an agent to decrypt these, it
        is "search".
    num_classes : int, optional (default: the largest of `reference_set`)
        ``C``; given, it is checked that the reference set contains it.
    participation : "paper" or "calibrated" (default: "calibrated")
        How a node's probability is computed: by eq. 6, or solved for by an agent from encrypted
        sums of each category's data.
    determination : "auto", "tries", "grouped" or "one-off" (default: "auto")
        What an agent chooses from: the best of `tries` selections; the best groups of a pool of
        volunteers, ``tries * K`` on average; or nothing. "auto" groups where there are at least
        five times as many nodes as participants and the groups leave many more choices than tries.
    tries : int (default: 20)
        ``H``: tentative selections of a round, of which the agent picks the best. With 1 there
        is no determination.
    group_size : int (default: 4, or `num_participants` if that is less)
        ``g``: fewest clients in a group.
    coverage : float (default: 0.1)
        Calibrated participation: price of calling the same clients again and again, relative to
        that of the sampling variance.
    floor : float (default: 0.1)
        Calibrated participation: least probability of a category, as a share of the uniform one.
    local_skew : float, optional (default: 0.5 if calibrated, else 0)
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
    max_changed : float (default: 0.2)
        Share of the nodes that may come or go before thresholds are searched for again.
    key_bits : int (default: 2048)
        Size of the Paillier modulus.
    max_clients : int (default: 10000)
        Largest federation whose counters fit a slot.
    max_draws_per_epoch : int (default: 1000)
        Budget of draws of a node between registrations, ``H`` a round; one draw for ``H`` times
        as many volunteers counts as ``H``.
    max_sums_per_epoch : int (default: 500)
        Budget of sums that one agent decrypts between registrations, ``H`` a round. Whatever is
        set here, an agent stops before it has half as many sums as there are clients.
    agent_attempts : int (default: 3)
        Agents that are asked, one after the other, before a step is given up.
    block_size : int (default: 0, for no blocks)
        Fewest nodes in a block of registrations, which an agent checks before they are summed
        up, so that a broken one costs its block and no more.
    trusted_keys : iterable of Ed25519PublicKey, optional (default: none)
        The nodes' public keys for signatures. The server needs them only to leave out a node
        with a missing or wrong key, where agents would otherwise refuse to make a key at all.
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
    thresholds: Mapping[int, float] | ThresholdSearch | None = None
    num_classes: int | None = None
    participation: ParticipationRule = "calibrated"
    determination: DeterminationRule = "auto"
    tries: int = 20
    group_size: int = 0
    coverage: float = 0.1
    floor: float = 0.1
    local_skew: float | None = None
    registration_interval: int = 50
    rounds_per_draw: int = 1
    min_cohort: int = 3
    quorum: int = 0
    on_failure: OnFailure = "raise"
    max_unregistered: float = 0.2
    max_changed: float = 0.2
    key_bits: int = 2048
    max_clients: int = 10_000
    max_draws_per_epoch: int = 1000
    max_sums_per_epoch: int = 500
    agent_attempts: int = 3
    block_size: int = 0
    trusted_keys: Iterable[Ed25519PublicKey] | None = None
    seed: int | None = None
    codebook: Codebook = field(init=False)

    def __post_init__(self) -> None:
        for name, number in checked_numbers(self).items():
            object.__setattr__(self, name, number)
        if self.local_skew is None:
            usual = _LOCAL_SKEW if self.participation == "calibrated" else 0.0
            object.__setattr__(self, "local_skew", usual)
        check_choices(self)
        codebook = checked_codebook(self)
        derived: dict[str, object] = {
            "codebook": codebook,
            "reference_set": codebook.reference_set,
            "thresholds": checked_thresholds(self.thresholds, codebook),
            "quorum": self.quorum or self.min_cohort,
            "trusted_keys": checked_keys(self.trusted_keys),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        check_candidates(self)
        check_draws(self)
        _ = self.trusted  # refuses keys that cannot work
        check_layout(self)

    @property
    def candidates(self) -> tuple[Mapping[int, float], ...]:
        """The thresholds that hold, or among which to search."""
        if isinstance(self.thresholds, Mapping):
            return (self.thresholds,)
        return tuple(candidate_grid(self.codebook))

    @property
    def trusted(self) -> TrustedKeys | None:
        """The keys whose signatures count, where the server knows them."""
        return None if self.trusted_keys is None else TrustedKeys(self.trusted_keys)

    @property
    def fallback_candidate(self) -> int:
        """Which candidate holds if a search fails: the paper's, or the one in the middle."""
        paper = default_thresholds(self.codebook)
        return self.candidates.index(paper) if paper else len(self.candidates) // 2

    def groups(self, num_nodes: int) -> bool:
        """Tell whether groups are determined in a federation of that size."""
        if self.determination != "auto":
            return self.determination == "grouped"
        volunteers = expected_volunteers(self.num_participants, self.tries, num_nodes)
        choices = comb(volunteers // self.group_size, self.num_participants // self.group_size)
        # In a small federation nearly all would volunteer, and calibration would come to nothing.
        return choices >= _MANY * self.tries and num_nodes >= _LARGE * self.num_participants

    def announced(self, num_nodes: int, found: Mapping[int, float] | None = None) -> JoinRequest:
        """Return what every node is told of the settings when it is asked to join.

        Parameters
        ----------
        num_nodes : int
            How many nodes are asked.
        found : mapping of int to float, optional
            The thresholds that an earlier search found.
        """
        codebook = self.codebook
        candidates = self.candidates if found is None else (found,)
        grouped = self.groups(num_nodes)
        return JoinRequest(
            reference_set=codebook.reference_set,
            thresholds=tuple(share for sigma in candidates for share in sigma.values()),
            num_participants=self.num_participants,
            key_bits=self.key_bits,
            max_clients=self.max_clients,
            min_cohort=self.min_cohort,
            max_draws=self.max_draws_per_epoch,
            max_sums=self.max_sums_per_epoch,
            seed=-1 if self.seed is None else self.seed,
            volunteer_tries=self.tries if grouped else 1,
            group_size=self.group_size if grouped else 0,
            calibrated=self.participation == "calibrated",
            coverage=float(self.coverage),
            floor=float(self.floor),
            local_skew=float(self.local_skew or 0.0),
            block_size=self.block_size,
        )
