"""The operator's settings, all checked before the first message."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Final, Literal, get_args

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dubhe_flwr.core.determination import Tries
from dubhe_flwr.errors import ProtocolError, SettingsError
from dubhe_flwr.he.sealing import sealed_bytes
from dubhe_flwr.he.signing import TrustedKeys
from dubhe_flwr.protocol.rules.prices import Prices
from dubhe_flwr.protocol.rules.rule import Rule
from dubhe_flwr.protocol.wire.announced import JoinRequest, VaultName
from dubhe_flwr.protocol.wire.codec import MAX_BYTES
from dubhe_flwr.protocol.wire.messages import MAX_DRAWS
from dubhe_flwr.protocol.wire.terms import has_committee, terms_of

OnFailure = Literal["raise", "random"]
Simulation = Literal["plain", "encrypted"]

_LEAST: Final = {
    "num_participants": 1,
    "registration_interval": 1,
    "rounds_per_draw": 1,
    "min_cohort": 2,
    "quorum": 1,
    "max_registered": 1,
    "key_bits": 512,
    "seed": 0,
}
_CHOICES: Final = {"on_failure": get_args(OnFailure), "simulation": (None, *get_args(Simulation))}
_OPTIONAL: Final = frozenset({"quorum", "seed"})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The operator's settings for a selection.

    Parameters
    ----------
    num_participants : int
        ``K``: number of clients that train in a round.
    rule : Rule (default: Prices())
        Participation rule, which sets the probability that a node volunteers; see
        `dubhe_flwr.rules`.
    determination : Tries, optional (default: what suits the rule)
        How many tentative selections an agent chooses from, such as `Tries(20)`. With `Tries(1)`
        there is no determination, and no agent reads a sum over few clients; this is the default
        with prices. The paper's rule uses 20 tries.
    registration_interval : int (default: 50)
        Rounds between registrations. Nodes read their label counts again at each one.
    rounds_per_draw : int (default: 10)
        ``T``: number of rounds for which nodes draw, or agents choose, in one exchange.
        The value does not affect which simulated nodes are selected, unless nodes come or go. If a
        selected node leaves before its round, another one is chosen at random.
    max_registered : int (default: 2000)
        Largest number of nodes that register at a time. If more are connected, each registration
        takes a new random sample, so that the cost of a round does not grow with the federation.
        With `trusted_keys` and a committee, all nodes are asked to join, to find those with the
        first keys.
    equal_weights : bool (default: False)
        Whether all clients have the same weight in aggregation (eq. 1), instead of being weighted
        by their number of samples. Dubhe balances the data with the weights used in aggregation.
    min_cohort : int (default: 3)
        Minimum number of clients in any decrypted sum. Each node has its own minimum as well.
    quorum : int, optional (default: `min_cohort`)
        Minimum number of registered and willing nodes for a round.
    on_failure : "raise" or "random" (default: "raise")
        What happens if a round cannot go on, for instance below the quorum. With "raise", a
        `QuorumError` ends the run. With "random", this round's clients are chosen at random from
        the connected nodes that did not decline; the log and the plan say so.
    max_unregistered : float (default: 0.2)
        If at least this share of the connected nodes is unregistered, all nodes register again
        early.
    key_bits : int (default: 2048)
        Size of the Paillier modulus.
    trusted_keys : iterable of Ed25519PublicKey, optional (default: none)
        The nodes' public signing keys, in the order of the nodes' own lists. The server needs them
        if nodes pin keys: such nodes do not join a server without them. It leaves out nodes whose
        key is not in the list.
    seed : int, optional (default: from the operating system)
        Seed of the server's choices and, with `simulation`, of the nodes' draws. Leave it out with
        real nodes: nodes that know it can choose aliases that make them the committee.
    simulation : "plain" or "encrypted", optional (default: None, for real nodes)
        Whether the nodes are simulated; they need to be told as well (`simulated=True`). The
        server's seed then fixes their draws, so that a run can be repeated. With "plain", nothing
        is encrypted: nodes report their label counts when they join, and the server's process
        answers for them from then on, unless they have a `willing` function. Both modes select the
        same clients until a run is resumed.

    Raises
    ------
    SettingsError
        If a value is invalid.

    Examples
    --------
    >>> from dubhe_flwr.rules import Paper
    >>> Settings(num_participants=20, rule=Paper((1, 2, 10))).least_nodes
    3
    """

    num_participants: int
    rule: Rule = field(default_factory=Prices)
    determination: Tries | None = None
    registration_interval: int = 50
    rounds_per_draw: int = 10
    max_registered: int = 2000
    equal_weights: bool = False
    min_cohort: int = 3
    quorum: int | None = None
    on_failure: OnFailure = "raise"
    max_unregistered: float = 0.2
    key_bits: int = 2048
    trusted_keys: Iterable[Ed25519PublicKey] | None = None
    seed: int | None = None
    simulation: Simulation | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            # NumPy integers overflow, and can be neither sent nor saved.
            if type(value) is not int:
                raise SettingsError(f"{name}={value!r} must be a whole number, a Python int.")
            if not least <= value < 2**63:
                raise SettingsError(f"{name}={value} must be at least {least}, and below 2**63.")
        if not isinstance(self.rule, Rule):
            raise SettingsError(
                f"rule={self.rule!r} is not a participation rule; pass an instance of a class "
                "in dubhe_flwr.rules, such as Prices()."
            )
        if not isinstance(self.determined, Tries):
            raise SettingsError(
                f"determination={self.determined!r} must be a Tries of dubhe_flwr.rules, such as "
                "Tries(20)."
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(f"{name}={getattr(self, name)!r} must be one of {choices}.")
        if not isinstance(share := self.max_unregistered, Real) or not 0.0 <= float(share) <= 1.0:
            raise SettingsError(f"max_unregistered={share!r} must be a share from 0 to 1.")
        self._check_sizes()
        self._check_determination()
        self._check_keys()
        self._check_terms()

    @cached_property
    def trusted(self) -> TrustedKeys | None:
        """The trusted signing keys, if the server knows them."""
        return None if self.trusted_keys is None else TrustedKeys(self.trusted_keys)

    @property
    def least_nodes(self) -> int:
        """The quorum: `quorum` if it is set, or else `min_cohort`."""
        return self.min_cohort if self.quorum is None else self.quorum

    def most_errors(self, num_nodes: int) -> float:
        """Return how many of some nodes may complain before these are many; one never is."""
        return max(1.0, self.max_unregistered * num_nodes)

    def check_federation(self, num_nodes: int) -> None:
        """Refuse to begin with fewer than K nodes."""
        if self.num_participants > num_nodes:
            fewer = f"select {num_nodes} or fewer, or " if num_nodes >= self.min_cohort else ""
            raise SettingsError(
                f"num_participants={self.num_participants} is above the number of nodes, "
                f"{num_nodes}; {fewer}connect more. In a simulation, set "
                "--federation-config 'num-supernodes=N' of flwr run, or num_supernodes of "
                "run_in_process and run_simulation."
            )

    def remark(self, num_clients: int) -> str | None:
        """Return a note if not all clients train, and labels do not influence who volunteers."""
        announced = self.announced(0)  # no node learns this seed
        why = self.rule.remark(num_clients, self.num_participants)
        if why is None or num_clients <= self.num_participants:
            return None
        if not announced.allows_tries(num_clients):
            return f"{why} So clients are chosen at random; connect more nodes."
        if self.determined.has_agent:
            return f"{why} So all nodes volunteer equally often; only agents balance rounds."
        return (
            f"{why} So clients are chosen at random. To balance rounds all the same, set "
            "determination=Tries(20), which uses exact sums, or connect more nodes."
        )

    @cached_property
    def determined(self) -> Tries:
        """The determination that is set, or else the rule's default."""
        return self.rule.determination if self.determination is None else self.determination

    def announced(self, seed: int) -> JoinRequest:
        """Return the request that asks nodes to join; only simulated nodes learn the run's seed."""
        return JoinRequest(
            rule=self.rule.name,
            rule_settings=self.rule.to_json(),
            num_participants=self.num_participants,
            key_bits=self.key_bits,
            max_clients=self.max_registered,
            min_cohort=self.min_cohort,
            weighted=not self.equal_weights,
            has_agent=self.determined.has_agent,
            vault=self.vault,
            simulation_seed=None if self.simulation is None else seed,
            has_trusted_keys=self.trusted is not None,
        )

    @property
    def vault(self) -> str:
        """The vault's name on the wire: a committee if the rule uses one and there is no agent."""
        if self.simulation == "plain":
            return VaultName.PLAIN.value
        with_committee = has_committee(self.rule, self.determined.has_agent)
        return (VaultName.COMMITTEE if with_committee else VaultName.PAILLIER).value

    def _check_sizes(self) -> None:
        if self.min_cohort > self.num_participants:
            raise SettingsError(
                f"num_participants={self.num_participants} is below min_cohort={self.min_cohort}, "
                "the fewest clients that any sum may cover; select more. An app may lower "
                "min_cohort to 2 on both sides: in Dubhe, and in DubheMod or register_dubhe."
            )
        if self.least_nodes < self.min_cohort:
            raise SettingsError(
                f"quorum={self.quorum} is below min_cohort={self.min_cohort}; raise quorum."
            )
        for name, number in (("num_participants", self.num_participants), ("quorum", self.quorum)):
            if number is not None and number > self.max_registered:
                raise SettingsError(
                    f"{name}={number} is above max_registered={self.max_registered}; raise "
                    "max_registered."
                )

    def _check_terms(self) -> None:
        """Refuse terms that nodes would refuse, as far as the server can tell without knowing C."""
        try:
            terms_of(self.announced(seed=0), self.rule.num_classes or 2)
        except TypeError as error:
            raise SettingsError(
                f"The settings of {self.rule} cannot be written as JSON: {error}."
            ) from None
        except ProtocolError as error:
            raise SettingsError(str(error)) from None
        most = most_registered(self.key_bits)
        if self.vault == VaultName.PAILLIER and self.max_registered > most:
            raise SettingsError(
                f"max_registered={self.max_registered} sealed keys do not fit in one message; at "
                f"most {most} nodes can register with key_bits={self.key_bits}."
            )

    def _check_keys(self) -> None:
        if isinstance(self.trusted_keys, Iterator):  # it can be read only once
            object.__setattr__(self, "trusted_keys", tuple(self.trusted_keys))
        _ = self.trusted  # raises for invalid keys

    def _check_determination(self) -> None:
        each, wanted = self.determined, self.rule.target
        if isinstance(wanted, str) and each.has_agent:
            raise SettingsError(
                f"An agent does not know target={wanted!r} and cannot score its choices by it; "
                "list the share of each class, or leave determination out."
            )
        if each.number * self.rounds_per_draw > MAX_DRAWS:
            raise SettingsError(
                f"{each} in each of rounds_per_draw={self.rounds_per_draw} rounds makes more "
                f"than {MAX_DRAWS} draws in one message; lower one of them."
            )


def most_registered(key_bits: int) -> int:
    """Return how many nodes can register: their sealed keys have to fit in one message."""
    return MAX_BYTES // sealed_bytes(key_bits)
