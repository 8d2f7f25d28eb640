"""What settings are checked for, each refusal a sentence that names the remedy."""

from collections.abc import Iterable, Mapping
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Final, Literal, get_args

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dubhe_flwr.core import Codebook, check_thresholds, default_thresholds
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.messages import MAX_COVERAGE, MAX_LOCAL_SKEW

if TYPE_CHECKING:
    from dubhe_flwr.protocol.settings import Settings

__all__ = [
    "DeterminationRule",
    "OnFailure",
    "ParticipationRule",
    "ThresholdSearch",
    "check_choices",
    "checked_codebook",
    "checked_keys",
    "checked_numbers",
    "checked_thresholds",
]

ParticipationRule = Literal["paper", "calibrated"]
DeterminationRule = Literal["auto", "tries", "grouped", "one-off"]
OnFailure = Literal["raise", "random"]
ThresholdSearch = Literal["search", "search-tries"]

_CHOICES: Final = {
    "participation": get_args(ParticipationRule),
    "determination": get_args(DeterminationRule),
    "on_failure": get_args(OnFailure),
}
_LEAST: Final = {
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
    "block_size": 0,
}
_SHARES: Final = ("floor", "max_unregistered", "max_changed")
_INT64_MAX: Final = 2**63 - 1
_USUAL_GROUP: Final = 4


def checked_numbers(settings: "Settings") -> dict[str, int]:
    """Return the whole numbers among the settings as plain ints, with what 0 stands for.

    Raises
    ------
    SettingsError
        If one is no whole number or out of range.
    """
    numbers = {name: _integer(name, getattr(settings, name)) for name in _LEAST}
    for name, value in numbers.items():
        if not _LEAST[name] <= value <= _INT64_MAX:
            raise SettingsError(f"{name}={value} must be at least {_LEAST[name]}, and below 2**63.")
    numbers["group_size"] = numbers["group_size"] or max(
        numbers["min_cohort"], min(_USUAL_GROUP, numbers["num_participants"])
    )
    if settings.seed is not None:
        numbers["seed"] = _integer("seed", settings.seed)
        if not 0 <= numbers["seed"] <= _INT64_MAX:
            raise SettingsError(f"seed={settings.seed} must be from 0 to 2**63 - 1.")
    return numbers


def checked_keys(keys: object) -> tuple[Ed25519PublicKey, ...] | None:
    """Return the trusted keys, if there are any, so that they can be gone through again.

    Raises
    ------
    SettingsError
        If it is no collection; `TrustedKeys` checks what is in it.
    """
    if keys is None:
        return None
    if not isinstance(keys, Iterable) or isinstance(keys, str | bytes):
        raise SettingsError(
            f"trusted_keys is a {type(keys).__name__}; read the keys from a file with "
            "load_trusted_keys."
        )
    return tuple(keys)


def checked_codebook(settings: "Settings") -> Codebook:
    """Return the codebook of the reference set.

    Raises
    ------
    SettingsError
        If there is none, or it is not that of `num_classes`.
    """
    codebook = Codebook(settings.reference_set)
    if settings.num_classes is None:
        return codebook
    num_classes = _integer("num_classes", settings.num_classes)
    if num_classes != codebook.num_classes:
        raise SettingsError(
            f"reference_set={codebook.reference_set} lacks num_classes={num_classes} as its "
            "largest size; add it, for clients without a dominating class."
        )
    return codebook


def checked_thresholds(
    given: Mapping[int, float] | str | None, codebook: Codebook
) -> Mapping[int, float] | str:
    """Return the thresholds, or how they are searched for.

    Raises
    ------
    SettingsError
        If they do not fit the codebook, or there is no such search.
    """
    if given is None:
        given = default_thresholds(codebook) or "search"
    if not isinstance(given, str):
        return check_thresholds(codebook, given)
    if given not in get_args(ThresholdSearch):
        raise SettingsError(
            f"thresholds={given!r} must be one of {get_args(ThresholdSearch)}, or a share for "
            "each size of the reference set."
        )
    # With C as the only size there is nothing to search for.
    return given if len(codebook.reference_set) > 1 else {}


def check_choices(settings: "Settings") -> None:
    """Check what belongs together, and the numbers that are not whole.

    Raises
    ------
    SettingsError
        If a value cannot work.
    """
    _check_sizes(settings)
    for name, choices in _CHOICES.items():
        if getattr(settings, name) not in choices:
            raise SettingsError(f"{name}={getattr(settings, name)!r} must be one of {choices}.")
    in_range = settings.min_cohort <= settings.group_size <= settings.num_participants
    if settings.determination in {"auto", "grouped"} and not in_range:
        raise SettingsError(
            f"group_size={settings.group_size} must be from min_cohort={settings.min_cohort} to "
            f"num_participants={settings.num_participants}."
        )
    for name in _SHARES:
        if not _is_within(value := getattr(settings, name), 1.0):
            raise SettingsError(f"{name}={value!r} must be a share from 0 to 1.")
    if not _is_within(settings.coverage, MAX_COVERAGE):
        raise SettingsError(f"coverage={settings.coverage!r} must be from 0 to {MAX_COVERAGE:.0f}.")
    if not _is_within(settings.local_skew, MAX_LOCAL_SKEW):
        raise SettingsError(
            f"local_skew={settings.local_skew!r} must be from 0 to {MAX_LOCAL_SKEW:.0f}; "
            "1 is a lot already."
        )


def _check_sizes(settings: "Settings") -> None:
    if settings.min_cohort > settings.num_participants:
        raise SettingsError(
            f"min_cohort={settings.min_cohort} is above num_participants="
            f"{settings.num_participants}; select more clients a round or lower min_cohort."
        )
    too_small = 0 != settings.block_size <= settings.min_cohort
    if too_small or settings.block_size > settings.max_clients:
        raise SettingsError(
            f"block_size={settings.block_size} must be above min_cohort={settings.min_cohort}, "
            f"since an agent knows its own part, and up to max_clients={settings.max_clients}; 10 "
            "is a good size."
        )
    if 0 != settings.quorum < settings.min_cohort:
        raise SettingsError(
            f"quorum={settings.quorum} is below min_cohort={settings.min_cohort}; raise it."
        )
    if settings.num_participants > settings.max_clients:
        raise SettingsError(
            f"num_participants={settings.num_participants} is above max_clients="
            f"{settings.max_clients}; raise max_clients to the size of the federation."
        )


def _is_within(value: object, most: float) -> bool:
    return isinstance(value, Real) and 0.0 <= float(value) <= most


def _integer(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise SettingsError(f"{name}={value!r} must be a whole number.") from None
