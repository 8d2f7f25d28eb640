"""Dubhe for Flower strategies with `configure_train`, as used in `@app.main()`.

`Dubhe` and `Selection` select who trains, and leave everything else to the wrapped strategy.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from inspect import signature
from logging import INFO
from math import inf
from numbers import Integral
from typing import Any, Final, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import Parameters
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from dubhe_flwr.adapter.messages import log
from dubhe_flwr.adapter.selecting import Selecting, SelectingByDubhe
from dubhe_flwr.adapter.transport import (
    ForwardingGrid,
    NoticingGrid,
    is_remote,
    patience,
    send_over_grid,
)
from dubhe_flwr.adapter.wrapped import (
    StartCall,
    given_only,
    layers,
    training_all_nodes,
)
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.log import warn_once

__all__ = ["Dubhe", "Selection"]

_OWN_GRID: Final = "dubhe: %s is not Flower's own Grid, so each round waits for its selection"
_NO_WEIGHTS: Final = (
    "dubhe: equal_weights has no effect: no reply has a metric %r; report it, or let the wrapped "
    "strategy weight clients equally"
)
_METHODS_OF_START: Final = (
    "configure_train",
    "aggregate_train",
    "configure_evaluate",
    "aggregate_evaluate",
    "summary",
)
"""The methods of a strategy that Flower's `start` calls."""


class Selection(Selecting[Strategy], Strategy):
    """Wraps a strategy that has `configure_train`, and selects its clients.

    Its options are `dubhe_flwr.adapter.arguments.Options`.
    """

    _configures = "configure_train"
    _methods_of_flower = (*_METHODS_OF_START, "start")

    def start(self, *given: Any, **named: Any) -> Result:
        """Run all rounds, or the remaining ones after a checkpoint.

        The arguments are Flower's. `num_rounds` counts the rounds of the whole run, and the model
        of a checkpoint replaces `initial_arrays`. Without a checkpoint, each call is a new run, in
        which all nodes register again; with one, it continues the run.

        If the wrapped strategy overrides `start`, its own version runs the rounds, and takes its
        own arguments.
        """
        run = self.driver.run
        call = StartCall(self._start_of_rounds(), super().start, given, named)
        grid, num_rounds, evaluate_fn = call["grid"], call["num_rounds"], call["evaluate_fn"]
        if is_remote(grid):
            call["grid"] = NoticingGrid(grid, self.driver.pushed)
        elif patience(grid) == inf:
            log(INFO, _OWN_GRID, type(grid).__name__)
        if (saved := run.begin(foreign=Parameters)) is not None:
            call["initial_arrays"] = saved
        first = run.first
        num_left = run.rounds_left(int(num_rounds)) if isinstance(num_rounds, Integral) else None
        if num_left is not None and num_left != num_rounds:
            call["num_rounds"] = num_left

        def evaluate(server_round: int, model: ArrayRecord) -> MetricRecord | None:
            run.complete(first + server_round, model)
            return evaluate_fn(first + server_round, model) if evaluate_fn else None

        if run.keeps_checkpoints or evaluate_fn:
            call["evaluate_fn"] = evaluate
        try:
            result = call()
        finally:
            self.driver.stop()
        is_running = isinstance(result, Awaitable | Iterator | AsyncIterator)  # an app's own start
        if num_left != 0 and run.plan is None and not is_running:
            self.driver.check_asked(first + 1)
        if not isinstance(result, Result):  # an app's own start may return anything
            return cast("Result", result)
        _count_from(first, result)
        if first and not result.arrays:
            result.arrays = call["initial_arrays"]
        return result

    vars(start)["__signature__"] = signature(Strategy.start)

    def _start_of_rounds(self) -> Callable[..., Any]:
        """Return Flower's `start`, or the wrapped strategy's override with our selection in it."""
        if getattr(type(self.strategy), "start", Strategy.start) is Strategy.start:
            return super().start
        own: Callable[..., Any] = self._selecting(*_METHODS_OF_START).start
        return own

    def select(self, server_round: int, grid: Grid) -> Plan:
        """Return who trains in a round, for your own training loop.

        Call it once for each round, counting from 1; round 1 begins a run, in which all nodes
        register. Your loop sends messages and saves the model itself, so leave out
        `checkpoint_dir` and save `state_dict()` with the model. A round counts as done once
        `aggregate_train` was called. After `load_state_dict`, count from 1 again.

        Parameters
        ----------
        server_round : int
            The round.
        grid : Grid
            The ServerApp's Grid.

        Returns
        -------
        Plan
            Its `participants` are the ids of the nodes to train. There are none if no node is
            connected and `on_failure="random"`.

        Examples
        --------
        >>> from flwr.clientapp import ClientApp
        >>> from flwr.serverapp.strategy import FedAvg
        >>> from dubhe_flwr.clientapp import register_dubhe
        >>> from dubhe_flwr.simulation import InProcessGrid
        >>> app = ClientApp()
        >>> register_dubhe(app, lambda context: [9, 3, 1], simulated=True)
        >>> strategy = Dubhe(FedAvg(), num_participants=3, simulation="plain")
        >>> grid = InProcessGrid(app, num_supernodes=12)
        >>> [len(strategy.select(server_round, grid).participants) for server_round in (1, 2)]
        [3, 3]
        """
        return self.driver.plan_round(
            server_round,
            lambda: list(grid.get_node_ids()),
            lambda *sent: send_over_grid(grid, *sent),
            lambda: patience(grid),
        )

    # An app whose strategy has its own start may pass further arguments to these methods.
    def configure_train(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
        *own: Any,
        **named: Any,
    ) -> Iterable[Message]:
        """Select the nodes, and have the wrapped strategy make their messages."""
        self._check_callers()
        plan = self.select(server_round, grid)
        if self.driver.is_skipped:
            return []
        num_nodes = len(plan.participants)
        with given_only(num_nodes) as asked, training_all_nodes(self.strategy, num_nodes):
            selected = _SelectedGrid(grid, plan.participants, asked)
            configure: Any = self.strategy.configure_train
            messages = list(configure(plan.server_round, arrays, config, selected, *own, **named))
        node_ids = [message.metadata.dst_node_id for message in messages]
        self.driver.training_begins(node_ids, plan.participants)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message], *own: Any, **named: Any
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Have the wrapped strategy aggregate in the plan's order, with equal weights if set."""
        server_round, in_order = self.driver.training_ends(
            server_round, replies, lambda reply: reply.metadata.src_node_id
        )
        trained = {reply.metadata.src_node_id for reply in in_order if reply.has_content()}
        self.driver.metrics["selection-clients"] = len(trained)
        if self.driver.is_skipped and not in_order:  # some strategies need at least one reply
            return None, MetricRecord({**self.driver.metrics})
        if self.driver.options.equal_weights:
            _weigh_equally(in_order, self.strategy)
        # Such a strategy may also return something else, which only its own start knows.
        aggregate: Any = self.strategy.aggregate_train
        answer = aggregate(server_round, in_order, *own, **named)
        match answer:
            case (arrays, (Mapping() | None) as metrics, *more):
                told: Any = {**(metrics or {}), **self.driver.metrics}
                if isinstance(metrics, MetricRecord | None):
                    told = MetricRecord(told)
                answer = arrays, told, *more
        return cast("tuple[ArrayRecord | None, MetricRecord | None]", answer)

    def description(self) -> list[str]:
        """Return the lines that show an operator how nodes are selected."""
        number = f"Participants (K): {self.driver.selector.num_participants}"
        return [f"{number} | equal weights: {self.driver.options.equal_weights}"]

    def summary(self) -> None:
        """Log how nodes are selected, then the wrapped strategy's own summary."""
        wrapped = " around ".join(type(layer).__name__ for layer in layers(self.strategy))
        log(INFO, "\t├──> %s around %s:", type(self).__name__, wrapped)
        *lines, last = self.description()
        for line in lines:
            log(INFO, "\t│\t├── %s", line)
        log(INFO, "\t│\t└── %s", last)
        self.strategy.summary()


class Dubhe(SelectingByDubhe[Strategy], Selection):
    """Chooses clients whose data together is close to uniform, without seeing anyone's labels.

    Wraps any strategy that has `configure_train`. Implementation based on the paper by Zhang et
    al., ICPP 2021 (https://doi.org/10.1145/3472456.3473513).

    Parameters
    ----------
    strategy : Strategy
        The strategy that trains and aggregates, as in `Selection`.
    **arguments
        The fields of `dubhe_flwr.protocol.settings.Settings`, above all `num_participants`, and of
        `dubhe_flwr.adapter.arguments.Options`.

    Raises
    ------
    SettingsError
        If a value is invalid, or the strategy cannot be wrapped.

    Examples
    --------
    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy = Dubhe(FedAvg(), num_participants=20)
    """

    def description(self) -> list[str]:
        """Return the lines that show an operator how Dubhe selects."""
        return [*super().description(), *self.settings.description()]


class _SelectedGrid(ForwardingGrid):
    """Forwards everything to another Grid, but lists only the selected nodes."""

    def __init__(self, grid: Grid, node_ids: Sequence[int], asked: Callable[[], None]) -> None:
        super().__init__(grid)
        self._node_ids = node_ids
        self._asked = asked

    def get_node_ids(self) -> Iterable[int]:
        """Return the selected nodes; raises `SettingsError` if the strategy waits for more."""
        self._asked()
        return list(self._node_ids)

    def get_nodes(self) -> Any:
        """Return the selected nodes with all that Flower knows of them, such as their names."""
        return [node for node in self.other.get_nodes() if node.node_id in self._node_ids]


def _count_from(first: int, result: Result) -> None:
    """Let the rounds of a result count from the start of the whole run."""
    for metrics in (
        result.train_metrics_clientapp,
        result.evaluate_metrics_clientapp,
        result.evaluate_metrics_serverapp,
    ):
        numbered = {first + server_round: record for server_round, record in metrics.items()}
        metrics.clear()
        metrics.update(numbered)


def _weigh_equally(replies: Iterable[Message], strategy: Strategy) -> None:
    """Replace the number of examples in each reply by 1; warn once if the replies have none."""
    keys = [vars(layer).get("weighted_by_key") for layer in layers(strategy)]
    key = next((key for key in keys if key is not None), "num-examples")
    contents = [reply.content for reply in replies if reply.has_content()]
    records = [record for content in contents for record in content.metric_records.values()]
    weighted = [record for record in records if key in record]
    for record in weighted:
        record[key] = 1
    if contents and not weighted:
        warn_once(_NO_WEIGHTS, key)
