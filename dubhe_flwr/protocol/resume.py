"""What of the coordinator's state survives its process, and when its epoch can go on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.rounds import DrawnRound
from dubhe_flwr.protocol.saved import from_json, to_json
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState

__all__ = ["restored_state", "saved_state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    """The fields of a `CoordinatorState` that last from round to round."""

    seed: int
    sequence: int
    server_round: int
    declined: frozenset[int]
    epoch: Epoch | None
    thresholds: Mapping[int, float] | None
    searched: frozenset[int]
    rounds: Mapping[int, DrawnRound]


def saved_state(state: CoordinatorState) -> dict[str, Any]:
    """Return seed, sequence, who declined, epoch and drawn rounds, as JSON takes them.

    In the middle of an exchange there is no epoch that could go on, so none is saved.

    Examples
    --------
    >>> saved = saved_state(CoordinatorState(seed=7))
    >>> saved["seed"], saved["epoch"], saved["rounds"]
    (7, None, {})
    """
    complete = state.batch is None and state.enrolment is None
    saved = _Saved(
        seed=state.seed,
        sequence=state.sequence,
        server_round=state.server_round,
        declined=state.declined,
        epoch=state.epoch if complete else None,
        thresholds=state.thresholds,
        searched=state.searched,
        rounds=state.rounds if complete else {},
    )
    data: dict[str, Any] = to_json(saved)
    return data


def restored_state(
    settings: Settings, saved: dict[str, Any], *, interrupted: bool
) -> CoordinatorState:
    """Return the state that was saved, without its epoch if that cannot go on.

    It cannot if nodes may have been asked for anything since, because they refuse what they
    have answered before and count their draws; nor if the settings that they agreed to are others
    now. The next round then begins a new epoch.

    Raises
    ------
    CheckpointError
        If a key is missing or unknown, a value is unfit, or the seed is not that of the settings.
    """
    values = from_json(_Saved, saved, "selector")
    if settings.seed not in {None, values.seed}:
        raise CheckpointError(
            f"seed={settings.seed} is not the seed {values.seed} of the saved state; give that "
            "one, or none."
        )
    # What a search found holds as long as the settings leave it to be found.
    found = values.thresholds if values.thresholds in settings.candidates else None
    state = CoordinatorState(
        seed=values.seed,
        sequence=values.sequence,
        server_round=values.server_round,
        declined=values.declined,
        thresholds=found,
        searched=values.searched,
    )
    epoch = values.epoch
    if epoch is None:
        return state
    state = replace(state, aliases=epoch.aliases)
    if interrupted:
        return state
    announced = [settings.announced(len(epoch.asked), known) for known in (None, found)]
    if epoch.parameters.announced not in announced:
        return state
    return replace(state, epoch=epoch, rounds=values.rounds, restored=True)
