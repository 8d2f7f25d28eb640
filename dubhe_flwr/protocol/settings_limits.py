"""What settings have to fit: a message, the budget of draws, and the ciphertexts of a client."""

from typing import TYPE_CHECKING, Final

from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol.messages import MAX_CANDIDATES, MAX_DRAWS
from dubhe_flwr.protocol.parameters import MOMENTS, epoch_parameters

if TYPE_CHECKING:
    from dubhe_flwr.protocol.settings import Settings

__all__ = ["check_candidates", "check_draws", "check_layout"]

_MOST_MOMENTS: Final = 256


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


def check_layout(settings: "Settings") -> None:
    """Check that what nodes encrypt fits ciphertexts, and not too many of them.

    Raises
    ------
    SettingsError
        If it does not.
    """
    try:
        layout = epoch_parameters(settings.announced(settings.max_clients)).layout
    except RefusedError as error:
        raise SettingsError(str(error)) from None
    num_ciphertexts = layout.num_ciphertexts(MOMENTS)
    if settings.participation == "calibrated" and num_ciphertexts > _MOST_MOMENTS:
        codebook = settings.codebook
        raise SettingsError(
            f"participation='calibrated' takes {num_ciphertexts} ciphertexts of each client "
            f"with the {codebook.length} categories of reference_set="
            f"{codebook.reference_set}; choose participation='paper' or leave out a size."
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
