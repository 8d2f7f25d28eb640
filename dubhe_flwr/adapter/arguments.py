"""The arguments of both `Dubhe` strategies, in one place."""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from logging import INFO
from pathlib import Path
from typing import Any

from dubhe_flwr.adapter.exchange import counted, log
from dubhe_flwr.adapter.selecting import EvaluateOn, Selecting
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Coordinator, OnFailure, Plan, Settings, Stage
from dubhe_flwr.protocol.rules import Prices, Rule

__all__ = ["DubheArguments"]


class DubheArguments(Selecting):
    """A `Selecting` whose selector is Dubhe's Coordinator.

    Parameters
    ----------
    strategy : Strategy
        The strategy that trains and aggregates; it trains exactly the chosen clients.
    num_participants : int
        ``K``: clients that train in a round.
    rule : Rule (default: Prices())
        How likely a node volunteers; see `dubhe_flwr.rules`.
    tries : int, optional (default: 20, with groups 5 by prices)
        ``H``: tentative selections of a round, of which the agent picks the best; with groups as
        many volunteers.
    registration_interval : int (default: 50)
        Rounds between registrations; label counts are read anew at each.
    rounds_per_draw : int (default: 1)
        ``T``: rounds for which the nodes draw, and the agents determine, in one exchange.
    equal_weights : bool (default: False)
        Give all chosen clients the same weight (eq. 1), whatever number of examples they report,
        and balance what such a mean is over. By default aggregation stays as the wrapped strategy
        does it, and nodes count by their number of examples in what is balanced, too.
    min_cohort : int (default: 3)
        Fewest clients that any decrypted sum covers.
    seed : int, optional (default: from the operating system)
        Makes the server's choices repeat, and the draws of simulated nodes.
    evaluate_on : "all" or "selected" (default: "all")
        The nodes on which the wrapped strategy evaluates.
    expected_nodes : int, optional (default: as many as are selected)
        Nodes to wait for before the first round.
    wait_timeout : float (default: 60)
        Seconds to wait for them.
    stage_timeout : float, optional (default: 600)
        Seconds to wait for the replies to one batch; None waits for ever.
    on_failure : "raise" or "random" (default: "raise")
        What happens in a round for which too few nodes can be used: a `QuorumError` ends the run,
        or this round's clients are chosen at random. The log and the plan say so.
    checkpoint_dir : str or Path, optional (default: none)
        Where to keep model, round and state after each round, to go on after a restart.
    **settings
        Further arguments of `dubhe_flwr.protocol.Settings`.

    Raises
    ------
    SettingsError
        If a value cannot work.
    """

    selector: Coordinator

    def __init__(
        self,
        strategy: Any,
        *,
        num_participants: int,
        rule: Rule | None = None,
        tries: int | None = None,
        registration_interval: int = Settings.registration_interval,
        rounds_per_draw: int = Settings.rounds_per_draw,
        equal_weights: bool = False,
        min_cohort: int = Settings.min_cohort,
        seed: int | None = None,
        evaluate_on: EvaluateOn = "all",
        expected_nodes: int | None = None,
        wait_timeout: float = 60.0,
        stage_timeout: float | None = 600.0,
        on_failure: OnFailure = "raise",
        checkpoint_dir: str | Path | None = None,
        **settings: Any,
    ) -> None:
        _check_names(settings)
        self.settings = Settings(
            num_participants=num_participants,
            rule=Prices() if rule is None else rule,
            tries=tries,
            registration_interval=registration_interval,
            rounds_per_draw=rounds_per_draw,
            equal_weights=equal_weights,
            min_cohort=min_cohort,
            seed=seed,
            on_failure=on_failure,
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

    def register_anew(self) -> None:
        """Let all nodes register before the next round.

        For an operator who knows that the data changed.
        """
        self.state = self.selector.register_anew(self.state)

    def log_plan(self, plan: Plan, seconds: float) -> None:
        """Write to Flower's log what the selection did, and when nodes registered."""
        stages = {report.stage for report in plan.stages}
        if Stage.REGISTER in stages and not plan.fallback:
            number = counted(plan.num_registered, "node", "nodes")
            log(INFO, "dubhe: a new epoch: %s | %s", number, plan.rule)
        super().log_plan(plan, seconds)

    def description(self) -> list[str]:
        """Return the lines that tell an operator how Dubhe selects."""
        settings = self.settings
        tries = "" if settings.tries is None else f" | tries (H): {settings.tries}"
        registration = f"Registration every {settings.registration_interval} rounds"
        return [
            *super().description(),
            f"Rule: {settings.rule.describe()}",
            f"Determination: {settings.determination}{tries}",
            f"{registration} | rounds in a draw: {settings.rounds_per_draw}",
            f"Key: {settings.key_bits} bits | smallest cohort: {settings.min_cohort}",
        ]


def _check_names(settings: Mapping[str, Any]) -> None:
    """Refuse what is no setting, and name the one that may be meant."""
    known = [field.name for field in fields(Settings)]
    for name in settings:
        if name not in known:
            meant = get_close_matches(name, known, n=1)
            hint = f"did you mean {meant[0]}?" if meant else f"choose from {', '.join(known)}."
            raise SettingsError(f"{name} is no setting; {hint}")
