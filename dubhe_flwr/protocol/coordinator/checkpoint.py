"""What of the coordinator's state survives its process, and when its epoch can go on."""

from dataclasses import dataclass
from typing import Any

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol.coordinator.context import CoordinatorState, Run
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.saved import from_json, to_json
from dubhe_flwr.protocol.settings import Settings

__all__ = ["restored_state", "saved_state"]


@dataclass(frozen=True, slots=True)
class _Saved:
    """The part of a `CoordinatorState` that lasts from round to round."""

    run: Run
    epoch: Epoch | None


def saved_state(state: CoordinatorState) -> dict[str, Any]:
    """Return run and epoch as JSON takes them.

    In the middle of an exchange there is no epoch that could go on, so none is saved.

    Examples
    --------
    >>> saved = saved_state(CoordinatorState(Run(seed=7)))
    >>> saved["run"]["seed"], saved["epoch"]
    (7, None)
    """
    epoch = state.epoch if state.stage is None else None
    data: dict[str, Any] = to_json(_Saved(state.run, epoch))
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
    run, epoch = values.run, values.epoch
    if settings.seed not in {None, run.seed}:
        raise CheckpointError(
            f"seed={settings.seed} is not the seed {run.seed} of the saved state; give that "
            "one, or none."
        )
    same = epoch is not None and epoch.announced == settings.announced(len(epoch.asked))
    return CoordinatorState(run, epoch=epoch if same and not interrupted else None)
