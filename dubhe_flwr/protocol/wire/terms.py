"""The terms of an epoch: the rule, vault and vector shapes that follow from the join request."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import FIXED_POINT_SCALE, fixed_point_distribution, with_square
from dubhe_flwr.core.registration import MAX_REGISTRY_LENGTH
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.protocol.rules.rule import Frame, Own, Population, Rule, announced_rule
from dubhe_flwr.protocol.vaults import SumName, Vault, vault_of
from dubhe_flwr.protocol.wire.announced import JoinRequest, VaultName
from dubhe_flwr.protocol.wire.messages import COMMITTEE_SIZE
from dubhe_flwr.protocol.wire.roster import LARGEST_WEIGHT

REGISTRATION: Final = "registration"
DISTRIBUTION: Final = "distribution"
SETTLEMENT: Final = "settlement"
MAX_KEY_BITS: Final = 8192


class Terms:
    """An epoch's rule and vault, from the announced parameters and the nodes' ``C``.

    Raises `RefusedError` if they are invalid.
    """

    def __init__(self, announced: JoinRequest, num_classes: int) -> None:
        self.announced = announced
        self.rule: Rule = rule_of(announced)
        largest_weight = LARGEST_WEIGHT if announced.weighted else 1.0
        continues, most = announced.continues is not None, announced.max_clients
        self.frame = Frame(num_classes, most, largest_weight, continues)
        # Members add noise, and in a simulation in the clear, the nodes in their place.
        plays_committee = announced.in_the_clear and has_committee(self.rule, announced.has_agent)
        self.num_members = COMMITTEE_SIZE if announced.has_committee or plays_committee else 0
        if continues and not self.rule.can_continue(self.population(most, most)):
            raise RefusedError("The rule cannot continue an earlier registration period.")
        # Otherwise a server could keep a node busy forever, counting slots or making a key.
        if num_classes > MAX_REGISTRY_LENGTH or announced.key_bits > MAX_KEY_BITS:
            raise RefusedError(
                f"A registration period has at most {MAX_REGISTRY_LENGTH} classes and keys of "
                f"{MAX_KEY_BITS} bits, not {num_classes} and {announced.key_bits}."
            )
        try:
            shares = Slots(num_classes + 1, FIXED_POINT_SCALE)  # w p_l, w ||p_l||^2
            slots = {
                REGISTRATION: self.rule.registration_slots(self.frame),
                DISTRIBUTION: shares if announced.has_agent else None,
                SETTLEMENT: self.rule.settlement_slots(self.frame),
            }
            fields = {name: shape for name, shape in slots.items() if shape is not None}
            _check_rule(self.rule, self.frame, fields)
            self.vault: Vault = vault_of(announced, fields)
        except SettingsError as error:
            raise RefusedError(
                f"The terms of the registration period are invalid: {error}"
            ) from None

    def population(self, num_clients: int, num_registered: int) -> Population:
        """Return what the rule is told about a sum over some of the registered clients."""
        return Population(
            self.frame,
            num_clients,
            self.announced.num_participants,
            num_registered,
            self.num_members,
        )

    def weighted_distribution(self, own: Own) -> NDArray[np.int64]:
        """Return what a node registers for determination: ``w p_l`` and ``w ||p_l||^2``."""
        total = round(FIXED_POINT_SCALE * own.weight / self.frame.largest_weight)
        return with_square(fixed_point_distribution(own.label_counts, total))

    def covers(self, sums: NDArray[np.int64], num_clients: int) -> bool:
        """Return whether `num_clients` label distributions could add up to these sums."""
        least = round(FIXED_POINT_SCALE / self.frame.largest_weight**2)
        total = int(sums[:-1].sum())
        return num_clients * least <= total <= num_clients * FIXED_POINT_SCALE


def sum_name_of(number: int) -> SumName:
    """Return the name of one of the rule's sums; number 0 is the sum of the registrations."""
    return SumName(SETTLEMENT if number else REGISTRATION, number)


def _check_rule(rule: Rule, frame: Frame, fields: Mapping[str, Slots]) -> None:
    """Raise `SettingsError` if the parts of a rule do not fit together."""
    if not all(isinstance(shape, Slots) for shape in fields.values()) or REGISTRATION not in fields:
        raise SettingsError(
            "registration_slots must return Slots(number, largest), and settlement_slots the same "
            "or None."
        )
    if rule.num_sums(frame) > 1 and SETTLEMENT not in fields:
        raise SettingsError("The rule has more than one sum, so it also needs settlement_slots.")
    if rule.vault not in {VaultName.PAILLIER, VaultName.COMMITTEE}:  # one node would open its sums
        raise SettingsError(f"The rule's vault={rule.vault!r} must be 'paillier' or 'committee'.")


def has_committee(rule: Rule, has_agent: bool) -> bool:
    """Return whether a committee opens the rule's sums; it cannot open sums for a single agent."""
    return rule.vault == VaultName.COMMITTEE and not has_agent


@lru_cache(maxsize=16)
def rule_of(announced: JoinRequest) -> Rule:
    """Return the announced rule. Raises `RefusedError` if it is unknown or invalid."""
    return announced_rule(announced.rule, announced.rule_settings)


@lru_cache(maxsize=16)
def terms_of(announced: JoinRequest, num_classes: int) -> Terms:
    """Return the checked terms of an epoch, computed once for all nodes of a simulation."""
    return Terms(announced, num_classes)
