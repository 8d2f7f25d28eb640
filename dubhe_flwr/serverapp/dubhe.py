"""Dubhe for strategies with `configure_train`."""

from dubhe_flwr.adapter import DubheArguments
from dubhe_flwr.serverapp.selection import Selection

__all__ = ["Dubhe"]


class Dubhe(DubheArguments, Selection):
    """Chooses clients whose data together is close to uniform, without seeing anyone's labels.

    Wraps any strategy with `configure_train`. Implementation based on the paper by Zhang et al.,
    ICPP 2021 (https://doi.org/10.1145/3472456.3473513). The arguments are those of
    `dubhe_flwr.adapter.DubheArguments`.

    Examples
    --------
    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy = Dubhe(FedAvg(), num_participants=20)
    """
