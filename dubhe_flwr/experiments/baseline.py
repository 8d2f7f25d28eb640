"""The methods that are not Dubhe, by their names."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dubhe_flwr.baselines import (
    FedCbsSelector,
    FedEntOptSelector,
    FlipsSelector,
    GreedySelector,
    RandomSelector,
)
from dubhe_flwr.baselines.roll_call import RollCall
from dubhe_flwr.data import Federation

__all__ = ["baseline"]

_ORACLES: Final[Mapping[str, Callable[[int, Any, int], RollCall]]] = {
    "greedy": GreedySelector,
    "flips": FlipsSelector,
    "fedcbs": FedCbsSelector,
    "fedentopt": FedEntOptSelector,
}


def baseline(method: str, num_participants: int, federation: Federation, seed: int) -> RollCall:
    """Return random selection, or an oracle that sees all labels.

    Parameters
    ----------
    method : str
        One of `METHODS` that is not Dubhe.
    num_participants : int
        ``K``.
    federation : Federation
        Whose labels an oracle sees, as shares: virtual clients are of one size.
    seed : int
        Fixes the choices.
    """
    if method == "random":
        return RandomSelector(num_participants, seed)
    return _ORACLES[method](num_participants, federation.label_distributions, seed)
