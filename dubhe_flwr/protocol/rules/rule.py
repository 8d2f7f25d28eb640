"""The interface of participation rules, which set the probability that a node volunteers.

A rule is one class in one module, known by its name on the wire. Each node registers a vector of
integers, and gets back the sum over all nodes. From the sum, it either computes its probability, or
contributes another vector to the next sum, until the rule is settled. All nodes compute the same
result from the same sums, so no node has to trust another.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.determination import Tries
from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.protocol.wire.announced import VaultName


@dataclass(frozen=True, slots=True)
class Frame:
    """The numbers that fix the size of the vectors in a registration period.

    Parameters
    ----------
    num_classes : int
        ``C``.
    max_clients : int
        Largest number of clients that a sum covers.
    largest_weight : float (default: 1)
        Largest weight of a node; 1 if all count the same.
    continues : bool (default: False)
        Whether the rule starts from the state of the last registration period.
    """

    num_classes: int
    max_clients: int
    largest_weight: float = 1.0
    continues: bool = False


@dataclass(frozen=True, repr=False)  # repr would show its labels
class Own:
    """What a node knows about itself.

    Parameters
    ----------
    label_counts : ndarray of int64, shape (C,)
        The node's number of samples of each class; at least one sample.
    weight : float (default: 1)
        Its weight in aggregation, relative to the mean.
    rng : numpy.random.Generator
        Its own generator, for random rounding and noise.
    lasting_seed : int (default: 0)
        Seed of random numbers that have to be the same in all registration periods, such as
        ``generator(own.lasting_seed, "what they are for")``.
    is_silent : bool (default: False)
        Whether its budget of sums is spent. The rule then contributes nothing that depends on the
        labels.
    """

    label_counts: NDArray[np.int64]
    weight: float = 1.0
    rng: np.random.Generator = field(default_factory=lambda: generator(0))
    lasting_seed: int = 0
    is_silent: bool = False

    @cached_property
    def distribution(self) -> NDArray[np.int64]:
        """``p_l`` in fixed point, shape (C,)."""
        return fixed_point_distribution(self.label_counts)


@dataclass(frozen=True, slots=True)
class Population:
    """What a node knows about the federation besides the sums.

    Parameters
    ----------
    frame : Frame
        The registration period's frame.
    num_clients : int
        Number of clients that the sum covers; at the registration, the nodes that joined.
    num_participants : int
        ``K``: number of clients that train in a round. At least K should volunteer on average.
    num_registered : int
        Number of clients that the sum of the registrations covers.
    num_members : int (default: 0)
        Members of the committee, each of which adds the rule's noise in full. Without a committee,
        each node adds a share of it.
    excess : float (default: 1)
        Variance of the noise in the sum, relative to the rule's noise for `num_clients`. A sum of
        registrations has the noise for all nodes that joined, even if it does not cover them all.
    """

    frame: Frame
    num_clients: int
    num_participants: int
    num_registered: int
    num_members: int = 0
    excess: float = 1.0

    @property
    def noise_share(self) -> float:
        """Share of the variance that a node adds: half of the nodes together add all of it."""
        return 0.0 if self.num_members else 2.0 / self.num_clients

    @property
    def noise_in_sum(self) -> float:
        """Variance of the noise in a sum over all nodes, as a multiple of the rule's own."""
        return self.excess * (float(self.num_members) or 2.0)


@dataclass(frozen=True, slots=True, repr=False)  # the probability depends on the labels
class Settled:
    """The rule is settled.

    Parameters
    ----------
    probability : float
        The probability that the node volunteers.
    finding : tuple of float (default: empty)
        What the rule reports to the operator; the same at every node.
    state : tuple of float (default: empty)
        What the next registration may start from; the same at every node.
    """

    probability: float
    finding: tuple[float, ...] = ()
    state: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)  # the contribution depends on the labels
class Unsettled:
    """The rule needs another sum.

    Parameters
    ----------
    contribution : ndarray of int64, shape (Slots.number,)
        What the node contributes to the next sum.
    state : tuple of float (default: empty)
        What the rule keeps at the node until then.
    """

    contribution: NDArray[np.int64]
    state: tuple[float, ...] = ()


class Rule(ABC):
    """Sets the probability that a node volunteers.

    A rule is a frozen dataclass whose fields are its settings, which must be JSON values.
    `register_rule` makes it known; both sides have to import it.
    """

    name: ClassVar[str]
    """The rule's name on the wire."""

    determination: ClassVar[Tries] = Tries()
    """How many tries an agent chooses from by default."""

    vault: ClassVar[str] = VaultName.PAILLIER
    """How its sums are formed if there is no agent: "paillier" or "committee"."""

    @property
    def hides_clients(self) -> bool:
        """Whether noise hides each client in every sum, with these settings.

        If not, nodes with pinned keys take part only if their owners allow it (`exact_sums`).
        """
        return False

    @property
    def local_skew(self) -> float:
        """How much the chosen clients' own skew counts when an agent scores tries."""
        return 0.0

    @property
    def num_classes(self) -> int | None:
        """``C``, if the settings fix it; nodes with another number of classes sit out."""
        return None

    @property
    def target(self) -> Sequence[float] | None:
        """The desired label distribution of a round's data; None for the uniform one."""
        return None

    @abstractmethod
    def registration_slots(self, frame: Frame) -> Slots:
        """Return the shape of a node's registration.

        Raises `SettingsError` if the settings do not fit the number of classes.
        """

    @abstractmethod
    def contribution(self, own: Own, population: Population) -> NDArray[np.int64]:
        """Return what a node registers: an ndarray of int64, shape (Slots.number,)."""

    @abstractmethod
    def settle(
        self,
        own: Own,
        population: Population,
        state: tuple[float, ...] | None,
        sums: NDArray[np.int64],
    ) -> Settled | Unsettled:
        """Continue with a sum over all nodes.

        Parameters
        ----------
        own : Own
            What the node knows about itself.
        population : Population
            What it knows about the federation.
        state : tuple of float or None
            `Unsettled.state` after the last sum. For the sum of the registrations, `Settled.state`
            of the registration period that this one continues, or None.
        sums : ndarray of int64, shape (Slots.number,)
            The sum.

        Raises
        ------
        RefusedError
            If no contributions can add up to this sum. The message must reveal nothing about the
            node's own labels.
        """

    def can_continue(self, population: Population) -> bool:
        """Return whether a registration can start from the last one's `Settled.state`.

        `population` describes the last sum of the last registration period, or the largest
        registration that the server announces.
        """
        del population
        return False

    def continued(
        self, own: Own, population: Population, state: tuple[float, ...]
    ) -> NDArray[np.int64]:
        """Return what a node registers if it starts from the last registration's state.

        Raises `RefusedError` if it does not fit the rule.
        """
        del own, population, state
        raise RefusedError("The rule cannot continue an earlier registration period.")

    def settlement_slots(self, frame: Frame) -> Slots | None:
        """Return the shape of a contribution to each later sum; None if there is none."""
        del frame
        return None

    def num_sums(self, frame: Frame) -> int:
        """Return how many sums a node reads at most: at least one, the sum of the registrations.

        After the last one, the rule must be settled.
        """
        del frame
        return 1

    def deviations(self, population: Population, number: int) -> NDArray[np.float64] | None:
        """Return the standard deviation of the noise on each slot of a sum; None without noise.

        It has the shape (Slots.number,) and the units of the contributions. `number` counts the
        sums of a registration period from 0, the sum of the registrations. Without a committee,
        each node adds `Population.noise_share` of the variance to its `contribution`.
        """
        del population, number
        return None

    def remark(self, num_clients: int, num_participants: int) -> str | None:
        """Return why labels do not influence who volunteers if so few register, or None."""
        del num_clients, num_participants
        return None

    def sum_budget(self, population: Population) -> int | None:
        """Return how many sums with this noise a node's label counts may enter.

        This is the node's budget. Across registrations, the node adds up the share of it that each
        sum uses, until its label counts change. None if there is no limit.
        """
        del population
        return None

    @property
    def heaviest(self) -> float:
        """The largest weight with which a node's labels enter a sum.

        A node with weight w above 1 counts a sum as w^2 sums, since it would take w times the noise
        to hide its labels equally well.
        """
        return inf

    def privacy(self, population: Population, num_sums: int) -> PrivacyBound | None:
        """Return the privacy bound after `num_sums` sums; None if sums are exact."""
        del population, num_sums
        return None

    def to_settings(self) -> dict[str, Any]:
        """Return the settings as JSON values; `from_settings` reads them back."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # subclasses are dataclasses

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Self:
        """Return the rule with these settings."""
        return cls(**settings)

    def describe(self, finding: Sequence[float] = ()) -> str:
        """Return a description of the rule and what it found, for the log."""
        del finding
        return repr(self)

    def to_json(self) -> str:
        """Return the settings as they travel."""
        return json.dumps(self.to_settings(), sort_keys=True)


_RULES: Final[dict[str, type[Rule]]] = {}

RuleT = TypeVar("RuleT", bound=type[Rule])


def register_rule(rule: RuleT) -> RuleT:
    """Register a rule under its name, as a class decorator.

    Raises `SettingsError` if another rule has that name.
    """
    known = _RULES.setdefault(rule.name, rule)
    if repr(known) != repr(rule):  # a module may be loaded again
        raise SettingsError(f"A rule named {rule.name!r} already exists; choose another name.")
    _RULES[rule.name] = rule
    return rule


def announced_rule(name: str, settings: str) -> Rule:
    """Return the rule that a server announces, with settings written by `Rule.to_json`.

    Raises `RefusedError` if the rule is not known here, or its settings are invalid.

    >>> announced_rule("nearest", "{}")
    Traceback (most recent call last):
    dubhe_flwr.errors.RefusedError: The rule 'nearest' is not known here; import the module that \
registers it (@register_rule) in the ClientApp, too.
    """
    if name not in _RULES:
        raise RefusedError(
            f"The rule {name[:64]!r} is not known here; import the module that registers it "
            "(@register_rule) in the ClientApp, too."
        )
    try:
        return _RULES[name].from_settings(json.loads(settings))
    except (
        *(SettingsError, TypeError, ValueError, LookupError, AttributeError),
        *(ArithmeticError, RecursionError),  # for an endless number, or endless nesting
    ):
        raise RefusedError(f"The settings of the rule {name!r} are invalid.") from None
