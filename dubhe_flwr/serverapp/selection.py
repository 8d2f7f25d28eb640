"""A strategy of the Message API that lets a selector choose who trains."""

from collections.abc import Callable, Iterable
from logging import INFO
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from dubhe_flwr.adapter import Selecting
from dubhe_flwr.adapter.exchange import log, send_over_grid
from dubhe_flwr.adapter.wrapped import all_nodes_take_part, layers
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.serverapp.grid import SelectedGrid

__all__ = ["Selection"]


class Selection(Selecting, Strategy):
    """Wraps a strategy: the selector chooses the nodes, the strategy trains and aggregates.

    The arguments, and the methods to override, are those of `dubhe_flwr.adapter.Selecting`.
    """

    strategy: Strategy

    def start(  # noqa: PLR0917 - the signature is Flower's
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the rounds that are still to come: all of them without a checkpoint.

        The arguments are Flower's; `num_rounds` are those of the whole run. With a checkpoint its
        model takes the place of `initial_arrays`. Started once more, it is a run of its own, in
        which all nodes register anew, or with a checkpoint it goes on.
        """
        self._begin_run()
        rounds_left = self.rounds_left(num_rounds)
        arrays: ArrayRecord = self._model_to_begin_with() or initial_arrays
        first, keeps = self._first, self._checkpoints is not None

        def evaluate(server_round: int, model: ArrayRecord) -> MetricRecord | None:
            self._complete(self._round(server_round), model)
            return evaluate_fn(self._round(server_round), model) if evaluate_fn else None

        result = super().start(
            grid,
            arrays,
            rounds_left,
            timeout,
            train_config,
            evaluate_config,
            evaluate if keeps or evaluate_fn else None,
        )
        for metrics in (
            result.train_metrics_clientapp,
            result.evaluate_metrics_clientapp,
            result.evaluate_metrics_serverapp,
        ):
            numbered = {first + server_round: record for server_round, record in metrics.items()}
            metrics.clear()
            metrics.update(numbered)
        if first and not result.arrays:
            result.arrays = arrays
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the nodes, and let the wrapped strategy make their messages."""
        if self._checkpoints is not None and not self._resumed:
            raise SettingsError(
                "checkpoint_dir keeps a run only if Dubhe is the outermost strategy; wrap the "
                "other one in it, as in Dubhe(DifferentialPrivacy...(FedAvg()))."
            )
        server_round = self._begin_round(server_round)
        self._wait_for_nodes(lambda: len(list(grid.get_node_ids())))
        plan = self._select(
            server_round,
            list(grid.get_node_ids()),
            lambda batch: send_over_grid(grid, batch, self.stage_timeout),
        )
        if plan.fallback and not plan.participants:
            return []  # nobody is there, and the round is skipped
        selected = SelectedGrid(grid, plan.participants)
        with all_nodes_take_part(self.strategy, len(plan.participants), "train"):
            return list(self.strategy.configure_train(server_round, arrays, config, selected))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the wrapped strategy aggregate, in the order of the plan and with equal weights."""
        in_order = sorted(replies, key=lambda reply: self._position(reply.metadata.src_node_id))
        if self.equal_weights:
            key = self._weighted_by_key()
            for reply in in_order:
                _weigh_one(reply, key)
        self.rounds_done = self._round(server_round)
        return self.strategy.aggregate_train(self.rounds_done, in_order)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Leave it to the wrapped strategy, on all nodes or on the selected ones."""
        server_round = self._round(server_round)
        if self.evaluate_on == "all" or self.plan is None:
            return self.strategy.configure_evaluate(server_round, arrays, config, grid)
        if any(vars(layer).get("fraction_evaluate") == 0.0 for layer in layers(self.strategy)):
            return []
        selected = SelectedGrid(grid, self.plan.participants)
        with all_nodes_take_part(self.strategy, len(self.plan.participants), "evaluate"):
            return list(self.strategy.configure_evaluate(server_round, arrays, config, selected))

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Leave it to the wrapped strategy."""
        return self.strategy.aggregate_evaluate(self._round(server_round), replies)

    def summary(self) -> None:
        """Log what is selected and how, then the wrapped strategy's own summary."""
        wrapped = " around ".join(type(layer).__name__ for layer in layers(self.strategy))
        log(INFO, "\t├──> %s around %s:", type(self).__name__, wrapped)
        *lines, last = self.description()
        for line in lines:
            log(INFO, "\t│\t├── %s", line)
        log(INFO, "\t│\t└── %s", last)
        self.strategy.summary()

    def _weighted_by_key(self) -> str:
        keys: list[Any] = [vars(layer).get("weighted_by_key") for layer in layers(self.strategy)]
        return next((key for key in keys if key is not None), "num-examples")


def _weigh_one(reply: Message, key: str) -> None:
    if reply.has_content():
        for record in reply.content.metric_records.values():
            if key in record:
                record[key] = 1
