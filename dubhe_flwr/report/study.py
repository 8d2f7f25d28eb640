"""What a study of selection found: how balanced, how varied and how costly each method is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from dubhe_flwr.core import distance_to_uniform
from dubhe_flwr.report.results import ClassProportions, Results

__all__ = ["SelectionResult", "StudyResults"]


@dataclass(frozen=True)
class SelectionResult:
    """How one way of selecting fared, without any training.

    Parameters
    ----------
    emd : tuple of float, length num_rounds
        ``||p_o - p_u||_1`` of each round.
    local_emd : tuple of float, length num_rounds
        ``mean_k ||p_l^k - p_o||_1`` over the clients of each round.
    class_proportions : ClassProportions
        ``p_o``.
    coverage, coverage_100 : float
        Share of all clients that were selected at least once, in all rounds and in the first 100.
    effective_clients : float
        ``1 / sum_k s_k^2`` with ``s_k`` the share of client k in all selections: as many clients,
        each selected as often as any other, would be as varied.
    messages, bytes_up, bytes_down : int or None
        Requests of all rounds, each with a reply, and what travelled; None if nothing did.
    seconds : float
        Time of all rounds, of server and clients together.
    notes : tuple of str
        What did not go as planned, in sentences.
    fallback_rounds : tuple of int
        Rounds that the method gave up and whose clients were chosen at random instead.

    Examples
    --------
    >>> proportions = ClassProportions(mean=(0.5, 0.5), sd=(0.1, 0.1))
    >>> result = SelectionResult((0.1, 0.3), (1.2, 1.4), proportions, 0.5, 0.5, 20.0, seconds=0.1)
    >>> round(result.mean_emd, 3), round(result.sd_emd, 3), result.bias
    (0.2, 0.1, 0.0)
    """

    emd: tuple[float, ...]
    local_emd: tuple[float, ...]
    class_proportions: ClassProportions
    coverage: float
    coverage_100: float
    effective_clients: float
    seconds: float
    messages: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None
    notes: tuple[str, ...] = ()
    fallback_rounds: tuple[int, ...] = ()

    @property
    def mean_emd(self) -> float:
        """Mean of `emd` over the rounds."""
        return fmean(self.emd)

    @property
    def mean_local_emd(self) -> float:
        """Mean of `local_emd` over the rounds."""
        return fmean(self.local_emd)

    @property
    def sd_emd(self) -> float:
        """Standard deviation of `emd` over the rounds."""
        return pstdev(self.emd)

    @property
    def bias(self) -> float:
        """``||E p_o - p_u||_1``: the part of the distance that does not average out."""
        return distance_to_uniform(self.class_proportions.mean)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, headed by the figures that sum them up."""
        summary = {
            "mean_emd": self.mean_emd,
            "sd_emd": self.sd_emd,
            "bias": self.bias,
            "mean_local_emd": self.mean_local_emd,
        }
        return summary | asdict(self)


@dataclass(frozen=True)
class StudyResults(Results):
    """All that a study found."""

    methods: Mapping[str, SelectionResult]
