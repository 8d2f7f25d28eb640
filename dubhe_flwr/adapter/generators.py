"""The random generators that Flower and its strategies draw from, as plain values and arrays."""

import random
import sys
from typing import Any

import numpy as np

from dubhe_flwr.errors import CheckpointError

__all__ = ["generator_states", "restore_generators"]


def generator_states() -> dict[str, Any]:
    """Return the states of Python's, numpy's and, where it is loaded, torch's generator (CPU).

    Dubhe's own choices need none: they are computed from the seed and the round. Flower's
    differential privacy draws its noise from numpy's, and an app may draw from any. They fix
    numbers of a simulation or a training, never a key.
    """
    version, internal, gauss = random.getstate()
    states: dict[str, Any] = {
        "python": {"version": version, "internal": np.array(internal), "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - the one that Flower uses
    }
    if (torch := sys.modules.get("torch")) is not None:
        states["torch"] = torch.get_rng_state().numpy()
    return states


def restore_generators(states: dict[str, Any]) -> None:
    """Put the generators back into these states.

    Examples
    --------
    >>> states = generator_states()
    >>> first = random.random(), np.random.random()
    >>> restore_generators(states)
    >>> first == (random.random(), np.random.random())
    True
    """
    try:
        python = states["python"]
        random.setstate((python["version"], tuple(python["internal"].tolist()), python["gauss"]))
        np.random.set_state(states["numpy"])  # noqa: NPY002 - the one that Flower uses
        if "torch" in states:
            import torch  # noqa: PLC0415 - an extra, loaded where the app had it

            torch.set_rng_state(torch.from_numpy(states["torch"].copy()))
    except Exception as error:  # noqa: BLE001 - the states may be damaged in any way
        raise CheckpointError(
            f"The saved random generators cannot be restored ({type(error).__name__}); restore the "
            "checkpoint's files or name an empty checkpoint_dir to begin anew."
        ) from None
