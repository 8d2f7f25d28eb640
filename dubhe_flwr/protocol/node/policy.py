"""The node owner's decisions, which hold whatever the server asks.

`read_label_counts` checks a request to join against them and calls the owner's functions. If the
owner's code raises an error, the node sits out. The log then leaves out the error's text, which
may contain labels.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from sysconfig import get_path
from traceback import walk_tb
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_flwr.errors import DataError, RefusedError, SettingsError
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol.log import warn_once
from dubhe_flwr.protocol.wire.announced import JoinRequest, JoinStatus
from dubhe_flwr.protocol.wire.terms import rule_of, terms_of

_OURS: Final = "dubhe_flwr."
_INSTALLED: Final = tuple(get_path(name) for name in ("stdlib", "purelib", "platlib"))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The owner's limits on what the server may ask of a node.

    Parameters
    ----------
    min_cohort : int (default: 3)
        Minimum number of clients that a sum must cover for this node to help decrypt it.
    min_key_bits, max_key_bits : int (default: 2048, 4096)
        Smallest and largest Paillier modulus under which this node encrypts.
    max_clients : int (default: 20000)
        Largest number of clients that may register together; the work of an agent or committee
        member grows with their number. The limit does not bind a simulated node.
    max_epochs_per_day, max_draws_per_day : int (default: 200, 50000)
        Largest number of registrations and of draws that the node makes in a day (UTC), counted
        within a run or, with `state_dir`, across runs. Beyond a limit, the node refuses requests
        before it does any work. The limits do not bind a simulated node.

    Raises
    ------
    SettingsError
        If a number is invalid.
    """

    min_cohort: int = 3
    min_key_bits: int = 2048
    max_key_bits: int = 4096
    max_clients: int = 20_000
    max_epochs_per_day: int = 200
    max_draws_per_day: int = 50_000

    def __post_init__(self) -> None:
        for name in (own.name for own in fields(Limits)):
            if type(value := getattr(self, name)) is not int or value < 1:
                raise SettingsError(f"{name}={value!r} must be a whole number of at least 1.")
        if self.min_key_bits > self.max_key_bits:
            raise SettingsError(
                f"min_key_bits={self.min_key_bits} must be at most "
                f"max_key_bits={self.max_key_bits}, or no key suits this node."
            )


@dataclass(frozen=True, kw_only=True)
class NodePolicy(Limits):
    """Everything that the owner of a node decides: the limits, and the following.

    Parameters
    ----------
    label_counts, willing, simulated, exact_sums
        As for `dubhe_flwr.clientapp.DubheMod`, but the functions take no Context.
    alias : str
        The node's name in results; stays the same from run to run.
    pinned : PinnedKeys, optional (default: none)
        The node's signing key and the public keys that it trusts. With them, the node takes part
        only if all openers prove that they hold trusted keys; they check all other nodes.
    """

    label_counts: Callable[[], ArrayLike] = field(repr=False)  # a partial's repr shows its data
    alias: str
    willing: Callable[[int], bool] | None = field(default=None, repr=False)
    simulated: bool = False
    pinned: PinnedKeys | None = None
    exact_sums: bool = False

    def seed_in(self, epoch: JoinRequest) -> int | None:
        """Return the seed of the node's random numbers in an epoch; None unless both simulate."""
        return epoch.simulation_seed if self.simulated else None


def is_willing(policy: NodePolicy, server_round: int) -> bool:
    """Ask the owner whether the node trains in a round (round 0: at all); an error means no.

    >>> is_willing(NodePolicy(label_counts=list, alias="3", willing=lambda r: r % 2), 4)
    False
    """
    if policy.willing is None:
        return True
    try:
        answer = policy.willing(server_round)
    except Exception as error:  # noqa: BLE001 - the owner's code may raise anything
        warn_once("dubhe: willing raised %s; the node sits out.", where_raised(error))
        return False
    if not isinstance(answer, int | np.bool_):
        warn_once("dubhe: willing returned neither True nor False, which counts as no.")
        return False
    return bool(answer)


def read_label_counts(policy: NodePolicy, request: JoinRequest) -> tuple[int, ...] | JoinStatus:
    """Read the label counts to join an epoch, or return why the node sits out."""
    if (refusal := _refusal(policy, request)) is not None:
        return refusal
    if policy.pinned is not None and not request.has_trusted_keys:
        warn_once(
            "dubhe: this node has pinned keys, but the server has no trusted_keys, so the node "
            "sits out; give the server the nodes' list (trusted_keys of Dubhe)."
        )
        return JoinStatus.NEEDS_TRUSTED_KEYS
    if policy.simulated and not request.simulated:
        warn_once(
            "dubhe: this node is simulated, but the server does not run a simulation; the node "
            "encrypts, and its draws differ from run to run. Set simulation='plain' in Dubhe."
        )
    if not is_willing(policy, 0):
        return JoinStatus.UNWILLING
    counts = _read(policy, rule_of(request).num_classes)
    if isinstance(counts, JoinStatus):
        return counts
    try:
        terms_of(request, len(counts))
    except RefusedError as error:
        warn_once("dubhe: %s The node sits out.", str(error))
        return JoinStatus.REFUSES_PARAMETERS
    return tuple(counts.tolist())


def _refusal(policy: NodePolicy, request: JoinRequest) -> JoinStatus | None:
    """Return why the rule or the owner's limits keep the node out; None if they do not."""
    try:
        rule_of(request)
    except RefusedError as error:
        warn_once("dubhe: %s The node sits out.", str(error))
        return JoinStatus.RULE_NOT_KNOWN
    if request.simulated and not policy.simulated:
        warn_once("dubhe: the server runs a simulation; without simulated=True the node sits out.")
        return JoinStatus.NOT_SIMULATED
    hides_clients = request.has_committee and rule_of(request).hides_clients
    may_see_all = policy.pinned is None or policy.simulated or policy.exact_sums
    if not (hides_clients or may_see_all):
        warn_once(
            "dubhe: the server asks for sums that a single node can open, that have no noise, or "
            "that can single out a client; a node with pinned keys takes part in them only with "
            "exact_sums=True, so this node sits out."
        )
        return JoinStatus.REFUSES_PARAMETERS
    key_fits = policy.min_key_bits <= request.key_bits <= policy.max_key_bits
    if not policy.simulated and request.max_clients > policy.max_clients:
        warn_once(
            "dubhe: the server's max_registered=%s is above max_clients=%s of this node's owner; "
            "the node sits out.",
            *(request.max_clients, policy.max_clients),
        )
        return JoinStatus.REFUSES_PARAMETERS
    if key_fits and request.min_cohort >= policy.min_cohort:
        return None
    warn_once(
        "dubhe: the server's key_bits=%s and min_cohort=%s are outside the limits of this node's "
        "owner, %s to %s and at least %s; the node sits out.",
        *(request.key_bits, request.min_cohort),
        *(policy.min_key_bits, policy.max_key_bits, policy.min_cohort),
    )
    return JoinStatus.REFUSES_PARAMETERS


def where_raised(error: Exception) -> str:
    """Return the error's type and the owner's line that raised it; its text may contain labels."""
    frames = list(walk_tb(error.__traceback__))
    others = [at for at in frames if not str(at[0].f_globals.get("__name__")).startswith(_OURS)]
    owners = [at for at in others if not at[0].f_code.co_filename.startswith(_INSTALLED)]
    frame, line = (owners or others or frames)[-1]
    return f"{type(error).__name__} in {frame.f_code.co_filename}, line {line}"


def _read(  # noqa: PLR0911 - one for each fault
    policy: NodePolicy, num_classes: int | None
) -> NDArray[Any] | JoinStatus:
    """Return the label counts, or what is wrong with them, which the log explains."""
    try:
        returned = policy.label_counts()
        counts, index = np.asarray(returned), np.asarray(getattr(returned, "index", None))
    except DataError as error:  # its text quotes no label
        warn_once("dubhe: label_counts: %s", str(error))
        return JoinStatus.INVALID_LABEL_COUNTS
    except Exception as error:  # noqa: BLE001 - the owner's code may raise anything
        warn_once("dubhe: label_counts raised %s; the node sits out.", where_raised(error))
        return JoinStatus.INVALID_LABEL_COUNTS
    is_numbered = index.ndim == 1 and index.dtype.kind in "biuf"
    if is_numbered and not np.array_equal(index, np.arange(len(index))):
        warn_once(
            "dubhe: label_counts returned a Series whose index is not 0, 1, 2 and so on; the most "
            "frequent class comes first in value_counts(), so return count_labels(labels, "
            "num_classes) instead; the node sits out."
        )
        return JoinStatus.INVALID_LABEL_COUNTS
    if counts.ndim == 1 and num_classes not in {None, len(counts)}:
        warn_once(
            "dubhe: label_counts returned %s numbers for %s classes, but must return the number "
            "of samples of each class; the node sits out.",
            len(counts),
            num_classes,
        )
        return JoinStatus.WRONG_NUMBER_OF_CLASSES
    if counts.ndim == 1 and len(counts) >= 2 and np.issubdtype(counts.dtype, np.integer):
        if not counts.any():
            return JoinStatus.NO_DATA
        with suppress(SettingsError):  # negative counts, or too many samples
            fixed_point_distribution(counts)
            return counts
    warn_once(
        "dubhe: label_counts returned %s of shape %s, but must return an int of at least 0 for "
        "each of two or more classes, with a total below 2^42, as count_labels(labels, "
        "num_classes) does; the node sits out.",
        counts.dtype,
        counts.shape,
    )
    return JoinStatus.INVALID_LABEL_COUNTS
