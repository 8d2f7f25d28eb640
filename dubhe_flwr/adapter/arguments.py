"""The arguments of both `Dubhe` strategies, in one place."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dubhe_flwr.adapter.selecting import EvaluateOn, Selecting
from dubhe_flwr.protocol import Coordinator, Settings

__all__ = ["DubheArguments"]


class DubheArguments(Selecting):
    """A `Selecting` whose selector is Dubhe's Coordinator.

    Parameters
    ----------
    strategy : Strategy
        The strategy that trains and aggregates; it trains exactly the chosen clients.
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
    rounds_per_draw : int (default: 1)
        ``T``: rounds for which the nodes draw, and the agents determine, in one exchange.
    equal_weights : bool (default: True)
        Give all chosen clients the same weight (eq. 1), whatever number of examples they report.
    min_cohort : int (default: 3)
        Fewest clients that any decrypted sum covers.
    seed : int, optional (default: from the operating system)
        Makes the server's choices repeat, and those of nodes with `seeded_draws`.
    evaluate_on : "all" or "selected" (default: "all")
        The nodes on which the wrapped strategy evaluates.
    expected_nodes : int, optional (default: as many as are selected)
        Nodes to wait for before the first round.
    wait_timeout : float (default: 60)
        Seconds to wait for them.
    stage_timeout : float, optional (default: 600)
        Seconds to wait for the replies to one batch.
    checkpoint_dir : str or Path, optional (default: none)
        Where to keep model, round and state after each round, to go on after a restart.
    **settings
        Further arguments of `dubhe_flwr.protocol.Settings`.

    Raises
    ------
    SettingsError
        If a value cannot work.
    """

    def __init__(
        self,
        strategy: Any,
        *,
        num_participants: int,
        reference_set: Iterable[int],
        thresholds: Mapping[int, float] | None = None,
        tries: int = 10,
        registration_interval: int = 50,
        rounds_per_draw: int = 1,
        equal_weights: bool = True,
        min_cohort: int = 3,
        seed: int | None = None,
        evaluate_on: EvaluateOn = "all",
        expected_nodes: int | None = None,
        wait_timeout: float = 60.0,
        stage_timeout: float | None = 600.0,
        checkpoint_dir: str | Path | None = None,
        **settings: Any,
    ) -> None:
        self.settings = Settings(
            num_participants=num_participants,
            reference_set=reference_set,
            thresholds=thresholds,
            tries=tries,
            registration_interval=registration_interval,
            rounds_per_draw=rounds_per_draw,
            min_cohort=min_cohort,
            seed=seed,
            **settings,
        )
        super().__init__(
            strategy,
            Coordinator(self.settings),
            equal_weights=equal_weights,
            evaluate_on=evaluate_on,
            expected_nodes=expected_nodes,
            wait_timeout=wait_timeout,
            stage_timeout=stage_timeout,
            checkpoint_dir=checkpoint_dir,
        )
