"""Dubhe for strategies with `configure_fit`."""

from collections.abc import Iterable, Mapping
from typing import Any

from flwr.server.strategy import Strategy

from dubhe_flwr.protocol import Coordinator, Settings
from dubhe_flwr.server.selection import Selection

__all__ = ["Dubhe"]


class Dubhe(Selection):
    """Chooses clients whose data together is close to uniform, without seeing anyone's labels.

    Implementation based on the paper by Zhang et al., ICPP 2021
    (https://doi.org/10.1145/3472456.3473513).

    Parameters
    ----------
    strategy : Strategy
        Any strategy with `configure_fit`; it trains exactly the chosen clients.
    num_participants : int
        ``K``: clients that train in a round.
    reference_set : iterable of int
        ``G``: possible numbers of dominating classes; the largest is the number of classes.
    thresholds : mapping of int to float, optional (default: the paper's, where it gives any)
        ``sigma_i``: least share of the ``i``-th largest class for ``i`` classes to dominate.
    tries : int (default: 10)
        ``H``: tentative selections of a round, of which the agent picks the best.
    registration_interval : int (default: 50)
        Rounds between registrations; label counts are read anew at each.
    equal_weights : bool (default: True)
        Give all chosen clients the same weight (eq. 1), whatever number of examples they report.
    min_cohort : int (default: 3)
        Fewest clients that any decrypted sum covers.
    seed : int, optional (default: from the operating system)
        Makes the server's choices repeat, and those of nodes with `seeded_draws`.
    expected_nodes : int, optional (default: as many as are selected)
        Nodes to wait for before the first round.
    wait_timeout : float (default: 60)
        Seconds to wait for them.
    stage_timeout : float, optional (default: 600)
        Seconds to wait for the replies to one batch.
    **settings
        Further arguments of `dubhe_flwr.protocol.Settings`.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> from flwr.server.strategy import FedAvg
    >>> strategy = Dubhe(FedAvg(), num_participants=20, reference_set=(1, 2, 10))
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        num_participants: int,
        reference_set: Iterable[int],
        thresholds: Mapping[int, float] | None = None,
        tries: int = 10,
        registration_interval: int = 50,
        equal_weights: bool = True,
        min_cohort: int = 3,
        seed: int | None = None,
        expected_nodes: int | None = None,
        wait_timeout: float = 60.0,
        stage_timeout: float | None = 600.0,
        **settings: Any,
    ) -> None:
        self.settings = Settings(
            num_participants=num_participants,
            reference_set=reference_set,
            thresholds=thresholds,
            tries=tries,
            registration_interval=registration_interval,
            min_cohort=min_cohort,
            seed=seed,
            **settings,
        )
        super().__init__(
            strategy,
            Coordinator(self.settings),
            equal_weights=equal_weights,
            expected_nodes=expected_nodes,
            wait_timeout=wait_timeout,
            stage_timeout=stage_timeout,
        )
