"""What settings are checked for, each refusal a sentence that names the remedy."""

from collections.abc import Iterable
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.messages import MAX_CANDIDATES, MAX_COVERAGE, MAX_DRAWS, MAX_LOCAL_SKEW

if TYPE_CHECKING:
    from dubhe_flwr.protocol.settings import Settings

__all__ = ["check_candidates", "check_choices", "check_draws", "checked_keys", "checked_numbers"]

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


def check_choices(settings: "Settings") -> None:
    """Check what belongs together, and the numbers that are not whole.

    Raises
    ------
    SettingsError
        If a value cannot work.
    """
    _check_sizes(settings)
    for name, choices in settings.choices.items():
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


def check_candidates(settings: "Settings") -> None:
    """Check that all candidates of a search fit the first message.

    Raises
    ------
    SettingsError
        If they do not.
    """
    if (num_candidates := len(settings.candidates)) > MAX_CANDIDATES:
        raise SettingsError(
            f"A search over the sizes of reference_set={settings.codebook.reference_set} has "
            f"{num_candidates} candidates, above {MAX_CANDIDATES}; leave out a size or give "
            "thresholds."
        )


def check_draws(settings: "Settings") -> None:
    """Check that the draws fit their budget and a message.

    Raises
    ------
    SettingsError
        If they do not.
    """
    one_by_one = settings.determination in {"auto", "tries"}
    if one_by_one and settings.tries * settings.rounds_per_draw > MAX_DRAWS:
        raise SettingsError(
            f"tries={settings.tries} in each of rounds_per_draw={settings.rounds_per_draw} rounds "
            f"are more than {MAX_DRAWS} draws in one message; lower one of them."
        )
    a_round = 1 if settings.determination == "one-off" else settings.tries
    draws = a_round * settings.registration_interval
    budget = settings.max_draws_per_epoch
    if draws > budget:
        raise SettingsError(
            f"tries={a_round} in each of registration_interval={settings.registration_interval} "
            f"rounds make {draws} draws, above max_draws_per_epoch={budget}; lower one of them or "
            "accept the price in privacy by raising the budget."
        )
    # In a search for groups, too, H times as many volunteer in each of H tries.
    a_try = settings.tries if settings.determination in {"auto", "grouped"} else 1
    draws += a_try * settings.tries * len(settings.candidates)
    if settings.thresholds == "search-tries" and draws > budget:
        raise SettingsError(
            f"A search with tries={settings.tries} for each of {len(settings.candidates)} "
            f"candidates and then registration_interval={settings.registration_interval} rounds "
            f"make up to {draws} draws, above max_draws_per_epoch={budget}; lower one of them, "
            "choose thresholds='search' or raise the budget."
        )


def _is_within(value: object, most: float) -> bool:
    return isinstance(value, Real) and 0.0 <= float(value) <= most


def _integer(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise SettingsError(f"{name}={value!r} must be a whole number.") from None
