"""Determination from the few words in which tests speak of it."""

from typing import Any

from dubhe_flwr.rules import Groups, Tries


def determined(**settings: Any) -> dict[str, Any]:
    """Return settings with the determination that `tries`, or `group_size`, stands for.

    With groups `tries` says how many times K clients volunteer. With neither, the settings are
    returned as they are.
    """
    tries, size = settings.pop("tries", None), settings.pop("group_size", None)
    if size is not None:
        groups = Groups(size) if tries is None else Groups(size, tries)
        return {**settings, "determination": groups}
    return settings if tries is None else {"determination": Tries(tries), **settings}
