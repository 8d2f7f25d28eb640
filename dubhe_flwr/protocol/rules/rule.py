"""What a participation rule is: how likely a node volunteers, and what it needs to know for that.

A rule is one class in one module, known by its name on the wire. A node adds a vector of whole
numbers to its registration; the encrypted sum over all nodes comes back to each of them. From it
a node computes its probability, or adds another vector to the next sum, until the rule is settled.
Every node computes the same from the same sums, so that nobody's word is taken.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.protocol.determination import Determination, Tries


@dataclass(frozen=True, slots=True)
class Frame:
    """What fixes the size of the vectors of an epoch.

    Parameters
    ----------
    num_classes : int
        ``C``.
    max_clients : int
        Most clients that a sum covers.
    largest_weight : float (default: 1)
        Largest weight of a node; 1 where all count the same.
    """

    num_classes: int
    max_clients: int
    largest_weight: float = 1.0


@dataclass(frozen=True, repr=False)  # its labels
class Own:
    """What a node knows of itself.

    Parameters
    ----------
    label_counts : ndarray of int64, shape (C,)
        Its samples of each class; at least one.
    weight : float (default: 1)
        How much it counts when clients are aggregated, relative to the mean.
    rng : numpy.random.Generator
        Its own, for what is rounded at random; no secret hangs on it.
    frozen : tuple of float, optional (default: none)
        What the rule left when the node last settled on it, if the node's label counts have entered
        as many sums as they may: the rule then adds nothing of them to a sum, and the node goes on
        volunteering as before.
    """

    label_counts: NDArray[np.int64]
    weight: float = 1.0
    rng: np.random.Generator = field(default_factory=lambda: generator(0))
    frozen: tuple[float, ...] | None = None

    @cached_property
    def distribution(self) -> NDArray[np.int64]:
        """``p_l`` in fixed point, shape (C,)."""
        return fixed_point_distribution(self.label_counts)


@dataclass(frozen=True, slots=True)
class Population:
    """What a node is told of the federation beside the sums.

    Parameters
    ----------
    frame : Frame
        Of the epoch.
    num_clients : int
        Clients that the sum at hand covers; at the registration, the nodes that joined.
    num_participants : int
        ``K``, clients that train in a round.
    num_volunteers : int
        ``V``, clients that shall volunteer for a draw on average.
    num_members : int (default: 0)
        Members of a committee, each of which adds all of the noise that the rule asks for. With
        none, each node adds a share of it.
    """

    frame: Frame
    num_clients: int
    num_participants: int
    num_volunteers: int
    num_members: int = 0

    @property
    def noise_share(self) -> float:
        """Share of the variance that a node adds itself: sums cover half of the nodes at least."""
        return 0.0 if self.num_members else 2.0 / self.num_clients

    @property
    def noise_in_sum(self) -> float:
        """Variance of the noise in a sum over all nodes, in multiples of what the rule asks for."""
        return float(self.num_members) or 2.0


@dataclass(frozen=True, slots=True, repr=False)  # the probability tells of the labels
class Settled:
    """The rule is settled.

    Parameters
    ----------
    probability : float
        With which the node volunteers.
    finding : tuple of float (default: empty)
        What the operator may know of it; the same at every node.
    left : tuple of float (default: empty)
        What the node keeps in case that its label counts may enter no further sum (`Own.frozen`).
    """

    probability: float
    finding: tuple[float, ...] = ()
    left: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Unsettled:
    """The rule needs another sum.

    Parameters
    ----------
    probability : float
        With which the node volunteers where no further sum comes.
    contribution : ndarray of int64, shape (Slots.number,)
        What the node adds to the next sum.
    memory : tuple of float (default: empty)
        What the node keeps until then.
    """

    probability: float
    contribution: NDArray[np.int64]
    memory: tuple[float, ...] = ()


class Rule(ABC):
    """How likely a node volunteers.

    A rule is a frozen dataclass whose fields are its settings; JSON has to hold them. It is made
    known to both sides with `register_rule`.
    """

    name: ClassVar[str]
    """How the rule is called on the wire."""

    vault: ClassVar[str] = "paillier"
    """How its sums are formed where no agent reads others: "paillier" or "committee"."""

    @property
    def hides_clients(self) -> bool:
        """Whether noise hides each client in every sum, whatever the settings ask for.

        Nodes with pinned keys take part in other sums only where their owners allow it.
        """
        return False

    @property
    def local_skew(self) -> float:
        """Price that determination puts on the skew of the chosen clients themselves."""
        return 0.0

    @property
    def num_classes(self) -> int | None:
        """``C``, where the settings fix it; nodes with another number of classes stay out."""
        return None

    @property
    def target(self) -> Sequence[float] | None:
        """The distribution that is wanted of all who train together; None for the uniform one."""
        return None

    @abstractmethod
    def registration_slots(self, frame: Frame) -> Slots:
        """Return the shape of what a node adds to its registration.

        Raises
        ------
        SettingsError
            If the settings do not fit so many classes.
        """

    @abstractmethod
    def contribution(self, own: Own, population: Population) -> NDArray[np.int64]:
        """Return what a node adds to its registration.

        Returns
        -------
        ndarray of int64, shape (Slots.number,)
        """

    @abstractmethod
    def settle(
        self,
        own: Own,
        population: Population,
        memory: tuple[float, ...] | None,
        sums: NDArray[np.int64],
    ) -> Settled | Unsettled:
        """Go on with a sum over all nodes.

        Parameters
        ----------
        own : Own
            What the node knows of itself.
        population : Population
            What is known of the federation.
        memory : tuple of float or None
            What `Unsettled` kept; None where the sum is that of the registrations.
        sums : ndarray of int64, shape (Slots.number,)
            The sum.

        Raises
        ------
        RefusedError
            If it is not such a sum; no word may tell anything of the node's own labels.
        """

    def settlement_slots(self, frame: Frame) -> Slots | None:
        """Return the shape of what a node adds to each later sum; None if there is none."""
        del frame
        return None

    def num_sums(self, frame: Frame, num_clients: int) -> int:
        """Return how many sums a node reads at most, that of the registrations included.

        With none it volunteers like any other.
        """
        del frame, num_clients
        return 1

    def determination(self, num_participants: int) -> Determination:
        """Return what an agent chooses from where the operator sets nothing."""
        del num_participants
        return Tries()

    def deviations(self, population: Population, exchange: int) -> NDArray[np.float64] | None:
        """Return the standard deviation of the noise on each sum of an exchange; None for none.

        It is in the units of the numbers that nodes add up, shape (Slots.number,). Where there is
        no committee, nodes add it to their `contribution`, each `Population.noise_share` of it.
        """
        del population, exchange
        return None

    def remark(self, num_volunteers: int) -> str | None:
        """Return what the operator should know of an epoch, or None."""
        del num_volunteers
        return None

    def most_entries(self, num_volunteers: int) -> int | None:
        """Return how many sums the label counts of one node may enter; None for any number.

        The node counts them in all epochs, until its label counts change.
        """
        del num_volunteers
        return None

    def privacy(self, num_classes: int, num_volunteers: int, num_sums: int) -> PrivacyBound | None:
        """Return what noise bounds after some sums of an epoch; None where sums are exact."""
        del num_classes, num_volunteers, num_sums
        return None

    def announced(self) -> dict[str, Any]:
        """Return the settings as JSON has them; `from_announced` reads them."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # subclasses are dataclasses

    @classmethod
    def from_announced(cls, settings: dict[str, Any]) -> Self:
        """Return the rule with these settings."""
        return cls(**settings)

    def describe(self, finding: Sequence[float] = ()) -> str:
        """Return the rule and what was found, for a log."""
        del finding
        return repr(self)

    def to_json(self) -> str:
        """Return the settings as they are announced."""
        return json.dumps(self.announced(), sort_keys=True)


_RULES: Final[dict[str, type[Rule]]] = {}

RuleT = TypeVar("RuleT", bound=type[Rule])


def register_rule(rule: RuleT) -> RuleT:
    """Make a rule known under its name: a decorator of the class.

    Raises
    ------
    SettingsError
        If another rule has that name.
    """
    known = _RULES.setdefault(rule.name, rule)
    if known.__qualname__ != rule.__qualname__ or known.__module__ != rule.__module__:
        raise SettingsError(f"There is a rule {rule.name!r} already; choose another name.")
    _RULES[rule.name] = rule
    return rule


def announced_rule(name: str, settings: str) -> Rule:
    """Return the rule that a server announces, with settings as `Rule.to_json` gave them.

    It is a `RefusedError` if the rule is not known here, or its settings cannot work.

    >>> announced_rule("nearest", "{}")
    Traceback (most recent call last):
    dubhe_flwr.errors.RefusedError: The rule 'nearest' is not known here; import the module that \
registers it in the ClientApp, too.
    """
    if name not in _RULES:
        raise RefusedError(
            f"The rule {name[:64]!r} is not known here; import the module that registers it in the "
            "ClientApp, too."
        )
    try:
        return _RULES[name].from_announced(json.loads(settings))
    except (
        *(SettingsError, TypeError, ValueError, LookupError, AttributeError),
        *(ArithmeticError, RecursionError),  # a number, or a nesting, without end
    ):
        raise RefusedError(f"The settings of the rule {name!r} cannot work.") from None
