"""The paper's rule: Algorithm 1, the overall registry, eq. 6 and the search for thresholds.

A node registers a one in the slot of its category ``u``. From the overall registry ``R_A``, it
computes ``P = min(1, K / (R_A(u) ||R_A||_0))`` (eq. 6). In a search for thresholds, it registers
under all candidates at once. It then contributes ``P_k p_l`` and ``P_k`` for each candidate to a
second sum, and takes the candidate whose expected data is closest to uniform.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.core.registration import (
    MAX_REGISTRY_LENGTH,
    PAPER_THRESHOLDS,
    check_thresholds,
    dominating_category,
    participation_probability,
)
from dubhe_flwr.core.search import best_candidate, candidate_grid, search_contribution
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.protocol.rules.rule import (
    Frame,
    Own,
    Population,
    Rule,
    Settled,
    Unsettled,
    register_rule,
)


@register_rule
@dataclass(frozen=True)
class Paper(Rule):
    """Every category of clients sends the same number of volunteers on average (eq. 6).

    Parameters
    ----------
    reference_set : iterable of int
        ``G``: possible numbers of dominating classes; the largest is the number of classes.
    thresholds : mapping of int to float, or "search" (default: the paper's, or else "search")
        ``sigma_i``: for ``i`` classes to dominate, the ``i``-th largest needs at least this share.
        "search" tries a grid of candidates, and takes the one that is expected to balance best.

    Raises
    ------
    SettingsError
        If a value is invalid.

    Examples
    --------
    >>> Paper((1, 2, 10)).candidates
    ({1: 0.7, 2: 0.1},)
    >>> len(Paper((1, 2, 10), thresholds="search").candidates)
    9
    """

    reference_set: Iterable[int]
    thresholds: Mapping[int, float] | Literal["search"] | None = None

    name: ClassVar[str] = "paper"

    def __post_init__(self) -> None:
        if isinstance(self.thresholds, str) and self.thresholds != "search":
            raise SettingsError(
                f"thresholds={self.thresholds!r} must be 'search', or a share for each size of "
                "the reference set."
            )
        # A server may announce anything, so a node must not enumerate beyond these limits.
        if self.num_classes > MAX_REGISTRY_LENGTH:
            raise SettingsError(
                f"reference_set is for {self.num_classes} classes; at most {MAX_REGISTRY_LENGTH} "
                "are allowed."
            )
        _ = self.candidates

    @cached_property
    def codebook(self) -> Codebook:
        """The categories, and their slots in a registry."""
        return Codebook(self.reference_set)

    @cached_property
    def candidates(self) -> tuple[dict[int, float], ...]:
        """The thresholds that are used, or those to search among."""
        of_paper = PAPER_THRESHOLDS.get(self.codebook.reference_set)
        given = of_paper if self.thresholds is None else self.thresholds
        if isinstance(given, str) or not given:
            return tuple(
                check_thresholds(self.codebook, sigma) for sigma in candidate_grid(self.codebook)
            )
        return (check_thresholds(self.codebook, given),)

    @property
    def num_classes(self) -> int:
        """``C``, the largest size of the reference set."""
        return self.codebook.num_classes

    def registration_slots(self, frame: Frame) -> Slots:
        """Return slots for one registry per candidate."""
        if frame.num_classes != self.num_classes:
            raise SettingsError(
                f"reference_set={self.codebook.reference_set} is for {self.num_classes} classes, "
                f"and the nodes have {frame.num_classes}; make its largest size "
                f"{frame.num_classes}."
            )
        return Slots(len(self.candidates) * self.codebook.length, 1)

    def settlement_slots(self, frame: Frame) -> Slots | None:
        """Return slots for each candidate's expected data; None unless there is a search."""
        num_candidates = len(self.candidates)
        if num_candidates == 1:
            return None
        return Slots(num_candidates * (frame.num_classes + 1), FIXED_POINT_SCALE)

    def num_sums(self, frame: Frame) -> int:
        """Return 1, or 2 for a search: the registries, then the expected data."""
        del frame
        return 2 if len(self.candidates) > 1 else 1

    def contribution(self, own: Own, population: Population) -> NDArray[np.int64]:
        """Return the node's registry for each candidate: a one in the slot of its category."""
        del population
        registries = np.zeros((len(self.candidates), self.codebook.length), dtype=np.int64)
        registries[np.arange(len(registries)), self._slots(own.label_counts)] = 1
        return registries.ravel()

    def settle(
        self,
        own: Own,
        population: Population,
        state: tuple[float, ...] | None,
        sums: NDArray[np.int64],
    ) -> Settled | Unsettled:
        """Compute the probability from the overall registry; in a search, then pick a candidate."""
        slots, num_clients = self._slots(own.label_counts), population.num_clients
        table = sums.reshape(len(slots), -1)
        if state is not None:
            # Each client's shares and probability are off by at most half a unit from rounding.
            off = np.abs(table[:, :-1].sum(axis=1) - table[:, -1])
            if (table[:, -1] <= 0).any() or (off > table.shape[1] * num_clients).any():
                raise RefusedError("The expectations do not add up.")
            best = best_candidate(table)
            return Settled(state[best], tuple(self.candidates[best].values()))
        if (table.sum(axis=1) != num_clients).any():
            raise RefusedError("The overall registry does not add up.")
        wanted = population.num_participants
        found = [
            float(participation_probability(row, wanted)[slot])
            for row, slot in zip(table, slots, strict=True)
        ]
        # If the node's category is missing, refusing would reveal this, so the node draws with the
        # average probability.
        uniform = min(1.0, wanted / num_clients)
        probabilities = tuple(probability or uniform for probability in found)
        if len(slots) == 1:
            return Settled(probabilities[0])
        told = search_contribution(own.distribution, found)
        return Unsettled(told.ravel(), probabilities)

    def to_settings(self) -> dict[str, Any]:
        """Return the reference set and the thresholds; a search is announced by its name."""
        searched = len(self.candidates) > 1
        sigma = "search" if searched else {str(i): s for i, s in self.candidates[0].items()}
        return {"reference_set": list(self.codebook.reference_set), "thresholds": sigma}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Self:
        """Return the rule with these settings."""
        sigma = settings.pop("thresholds")
        if not isinstance(sigma, str):
            sigma = {int(size): share for size, share in sigma.items()}
        return cls(thresholds=sigma, **settings)

    def describe(self, finding: Sequence[float] = ()) -> str:
        """Return the reference set and the thresholds, including those a search found."""
        sizes = self.codebook.reference_set
        if len(self.candidates) > 1 and not finding:
            return f"paper: reference set (G) {sizes}, thresholds searched for"
        given = finding or tuple(self.candidates[0].values())
        shares = ", ".join(f"{i}: {s:g}" for i, s in zip(sizes, given, strict=False))
        return f"paper: reference set (G) {sizes}, thresholds {{{shares}}}"

    def _slots(self, label_counts: NDArray[np.int64]) -> list[int]:
        """Return the slot of the node's category under each candidate."""
        return [
            self.codebook.rank(dominating_category(label_counts, self.codebook, sigma))
            for sigma in self.candidates
        ]
