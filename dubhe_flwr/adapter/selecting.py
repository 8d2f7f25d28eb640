"""The common base of the strategies for both of Flower's APIs.

A strategy, `Selecting`, wraps another one and owns a `SelectionDriver`. The driver runs the
selector round by round: it waits for nodes, takes a round that was planned ahead or selects it now,
logs the outcome, and tracks training, so that coming rounds can be planned while clients train
(`ahead`). The adapters in `server` and `serverapp` only translate between the driver and Flower.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from logging import ERROR, INFO, WARNING
from math import inf
from threading import Lock
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from dubhe_flwr.adapter.ahead import Exchanges, PlansAhead, write_log
from dubhe_flwr.adapter.arguments import DubheArguments, Options, taking
from dubhe_flwr.adapter.resume import Run
from dubhe_flwr.adapter.transport import WarnOnceFilter, after, log
from dubhe_flwr.adapter.wrapped import check_privacy, check_wrapped, layers
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch, Coordinator, Plan, Replies, Selector, Stage
from dubhe_flwr.protocol.simulated_nodes import SimulatedNodes

ReplyT = TypeVar("ReplyT")
StrategyT = TypeVar("StrategyT")

_TRAINS_OTHERS: Final = (
    "dubhe: the wrapped strategy trains %s of the %s selected clients, and %s that were not "
    "selected; configure it to train every client that it receives"
)
_OVERRIDES_ELIGIBLE: Final = (
    "dubhe: %s overrides eligible, whose answer may change at any moment, so each round waits for "
    "its selection"
)
_MAX_NAMED: Final = 3  # nodes whose ids a log line shows
_OF_ONE_API: Final = frozenset({"initialize_parameters", "start"})


class Send(Protocol):
    """Sends a batch and waits for replies until a timeout, or until a function returns True."""

    def __call__(
        self, batch: Batch, timeout: float | None, is_over: Callable[[], bool] | None = None, /
    ) -> Replies:
        """Return the replies by node id."""


class SelectionDriver:
    """Runs a selector for a strategy, its owner, round by round and over any transport.

    `metrics` describe the last selection, for Flower's Result or History: the clients that trained,
    the share of all clients selected so far in this process, bytes, and the seconds for which the
    round waited. On real nodes, coming rounds are planned while clients train.
    """

    def __init__(self, owner: "Selecting[Any]", selector: Selector[Any], options: Options) -> None:
        self.selector = selector
        self.options = options
        expected = options.expected_nodes
        self.expected_nodes = selector.num_participants if expected is None else expected
        self.run = Run(owner.strategy, selector, options)
        self._owner = owner
        self._nodes, self._warn_once = SimulatedNodes(), WarnOnceFilter()
        self._selected: set[str] = set()
        self._warned_of_others = self._warned_of_eligible = False
        self._ahead = PlansAhead(selector)
        self._reach: tuple[
            Callable[[], Sequence[int]], Send
        ]  # lists and reaches this round's nodes
        self._lock = Lock()
        self._to_push = 0  # training messages still to be pushed before planning ahead begins
        # The app's own batches, which nodes answer before any batch that Dubhe sends later.
        self._num_sent = self._num_answered = 0
        self.metrics: dict[str, int | float] = {}

    def plan_round(
        self,
        server_round: int,
        present: Callable[[], Sequence[int]],
        send: Send,
        patience: Callable[[], float],
    ) -> Plan:
        """Select the clients of a round and return the plan.

        `server_round` is Flower's number; the plan has the number in the whole run. `present`
        returns the ids of the connected nodes, and `patience` the seconds to wait for one more.
        """
        run = self.run
        if server_round <= 1:  # Flower begins a run, perhaps with other nodes
            self._nodes, self._warn_once = SimulatedNodes(), WarnOnceFilter()
            self.stop()
            self._ahead = PlansAhead(self.selector)
        self.app_answered()
        self._reach = present, send
        server_round = run.begin_round(server_round)
        if run.plan is None:
            self._wait_for_nodes(present, patience)
            self._check_nodes(len(present()), patience())
        begin = time.perf_counter()
        planned = self._ahead.take(server_round)
        node_ids = present()
        eligible: Sequence[int] | None = self._owner.eligible(server_round, node_ids)
        if eligible is None:
            raise SettingsError("eligible() returned nothing; let it return node ids.")
        plan = None
        if planned is not None:
            plan = self.selector.adapted(planned.state, planned.plan, node_ids, eligible)
        if planned is None or plan is None:
            plan = self._select(server_round, node_ids, eligible)
        else:
            run.state = planned.state
            for line in planned.log_lines:
                write_log(*line)
        run.plan = plan
        seconds = time.perf_counter() - begin
        self._selected.update(plan.aliases)
        self.metrics = {
            "selection-coverage": len(self._selected) / max(len(node_ids), len(self._selected), 1),
            "selection-seconds": seconds,
            "selection-bytes": plan.bytes_up + plan.bytes_down,
        }
        log_plan(plan, seconds)
        if self.options.on_selection is not None:
            answer = self.options.on_selection(plan, seconds)
            try:
                for name, value in answer.items() if isinstance(answer, Mapping) else ():
                    self.metrics[name] = value if type(value) is int else float(value)
            except (TypeError, ValueError):
                raise SettingsError(
                    f"on_selection returned {name}={value!r:.60}; let its values be numbers."
                ) from None
        return plan

    def _select(self, server_round: int, present: Sequence[int], eligible: Sequence[int]) -> Plan:
        """Select the clients of a round that was not planned ahead."""
        _, send = self._reach
        state, timeout = self._ahead.withdraw(self.run.state), self.options.stage_timeout
        exchanges = Exchanges(self.selector, state, write_log)
        try:
            outcome = exchanges.begin(server_round, present, eligible)
            plan = exchanges.finish(outcome, lambda batch: self._exchange(send, batch, timeout))
        finally:
            self.run.state = exchanges.state
        self._ahead.learn(plan)
        return plan

    def training_begins(self, num_messages: int) -> None:
        """Plan ahead as soon as all training messages of this round are pushed."""
        self.app_is_asked()
        self._to_push = num_messages

    def app_is_asked(self) -> None:
        """Note that the app sends messages to nodes."""
        self._num_sent += 1

    def app_answered(self) -> None:
        """Note that all of the app's messages were answered or given up."""
        self._num_answered = self._num_sent

    def pushed(self, num_messages: int) -> None:
        """Count pushed messages, and plan ahead after the last training message."""
        with self._lock:  # strategies with configure_fit send from several threads
            was_training, self._to_push = self._to_push > 0, self._to_push - num_messages
            if not was_training or self._to_push > 0:
                return
        run = self.run
        if run.plan is None or not self.selector.plans_ahead:
            return
        if self._owner.looks_at_present:
            if not self._warned_of_eligible:
                log(WARNING, _OVERRIDES_ELIGIBLE, type(self._owner).__name__)
            self._warned_of_eligible = True
            return
        present, send = self._reach
        self._ahead.begin(
            run.plan.server_round, run.last, run.state, present, partial(self._send_ahead, send)
        )

    def stop(self) -> None:
        """Stop planning rounds ahead."""
        self._ahead.stop()

    def _send_ahead(self, send: Send, batch: Batch, is_stopped: Callable[[], bool]) -> Replies:
        """Exchange a batch while clients train; the timeout begins once they can answer."""
        asked: int | None = None
        is_late: Callable[[], bool] | None = None

        def is_over() -> bool:
            nonlocal asked, is_late
            if asked is None:  # the batch is pushed: nodes answer what the app sent before it first
                asked = self._num_sent
            if is_late is None and self._num_answered >= asked:
                is_late = after(self.options.stage_timeout)
            return is_stopped() or (is_late is not None and is_late())

        return self._exchange(send, batch, None, is_over)

    def _exchange(
        self,
        send: Send,
        batch: Batch,
        timeout: float | None,
        is_over: Callable[[], bool] | None = None,
    ) -> Replies:
        """Return the replies of the nodes, including those simulated in this process."""
        with self._warn_once:
            return self._nodes.exchange(batch, lambda left: send(left, timeout, is_over))

    def check_trained(self, node_ids: Sequence[int]) -> None:
        """Warn once if the wrapped strategy does not train exactly the selected nodes."""
        selected = self.run.plan.participants if self.run.plan is not None else ()
        if not self._warned_of_others and sorted(node_ids) != sorted(selected):
            self._warned_of_others, kept = True, len(set(node_ids).intersection(selected))
            log(WARNING, _TRAINS_OTHERS, kept, len(selected), len(node_ids) - kept)

    def in_order(
        self, replies: Iterable[ReplyT], node_id_of: Callable[[ReplyT], int]
    ) -> list[ReplyT]:
        """Return replies in the plan's order, since floating-point sums depend on the order."""
        participants = self.run.plan.participants if self.run.plan is not None else ()
        places = {node_id: place for place, node_id in enumerate(participants)}
        return sorted(replies, key=lambda reply: places.get(node_id_of(reply), len(places)))

    def count_trained(self, number: int) -> None:
        """Add the number of clients that trained, selected or not, to the metrics."""
        self.metrics["selection-clients"] = number

    def completed(self, server_round: int) -> int:
        """Return the number of the run's round that was trained."""
        self.run.rounds_done = self.run.first + server_round
        return self.run.rounds_done

    def to_evaluate(self) -> tuple[int, ...] | None:
        """Return the nodes on which to evaluate, or None for all nodes."""
        if self.options.evaluate_on == "all" or self.run.plan is None:
            return None
        return self.run.plan.participants

    def _wait_for_nodes(
        self, present: Callable[[], Sequence[int]], patience: Callable[[], float]
    ) -> None:
        """Wait until the expected nodes are connected, up to `wait_timeout`."""
        expected, there = self.expected_nodes, len(present())
        seconds = self.options.wait_timeout if patience() else 0.0
        begin = last_came = time.monotonic()
        if there < expected and seconds:
            nodes = _counted(expected, "node", "nodes")
            waiting = "dubhe: waiting up to %.0f s for %s; %s connected so far"
            log(INFO, waiting, seconds, nodes, there)
        while there < expected and (now := time.monotonic()) - begin <= seconds:
            if there and now - last_came > patience():
                break
            time.sleep(0.2)
            before, there = there, len(present())
            last_came = time.monotonic() if there > before else last_came
        if self.selector.num_participants <= there < expected:  # with fewer, the selector says so
            log(
                WARNING,
                "dubhe: %s of %s expected nodes came within %.0f s; going on with them",
                there,
                expected,
                time.monotonic() - begin,
            )

    def _check_nodes(self, there: int, patience: float) -> None:
        """Refuse settings that cannot work with the connected nodes, and say how to add nodes."""
        options = self.options
        if not isinstance(options, DubheArguments) or options.on_failure == "random":
            return
        more = "start more nodes"
        if patience < inf:
            more = (
                "simulate more nodes: --federation-config 'num-supernodes=N' of flwr run, or "
                "num_supernodes of run_in_process and run_simulation"
            )
        if there < options.min_cohort:
            raise SettingsError(
                f"{_counted(there, 'node is', 'nodes are')} connected, fewer than min_cohort="
                f"{options.min_cohort}: a sum over so small a cohort would reveal what each node "
                f"holds. Use the wrapped strategy without Dubhe, or {more}."
            )
        if there < options.num_participants and patience < inf:
            raise SettingsError(
                f"num_participants={options.num_participants} is above the number of nodes, "
                f"{there}; select fewer, or {more}."
            )


class Selecting(Generic[StrategyT]):
    """Wraps a strategy: the selector chooses the clients, the strategy trains and aggregates.

    The base of both `Selection` strategies. Subclasses may override `eligible` to leave nodes out
    of a round; the option `on_selection` receives each plan.

    Parameters
    ----------
    strategy : Strategy
        The strategy that trains and aggregates. It trains exactly the selected clients, whatever
        its own fraction or minimum.
    selector : Selector
        Chooses the clients; `Dubhe` brings its own.
    **options
        The fields of `dubhe_flwr.adapter.Options`.

    Raises
    ------
    SettingsError
        If the strategy cannot be wrapped, or an option cannot work.
    """

    _configures: ClassVar[str]  # the method that only strategies of this API have

    @taking(Options)
    def __init__(self, strategy: StrategyT, selector: Selector[Any], **options: Any) -> None:
        self._wrap(strategy, selector, Options(**options))

    def _wrap(self, strategy: StrategyT, selector: Selector[Any], options: Options) -> None:
        check_wrapped(strategy, self._configures)
        check_privacy(strategy, selector.num_participants)
        for layer in layers(strategy):
            if isinstance(layer, Selecting):
                raise SettingsError(
                    f"{type(layer).__name__} already selects; wrap the strategy inside it instead."
                )
        self.strategy = strategy
        self.driver = SelectionDriver(self, selector, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strategy!r})"

    def __getattr__(self, name: str) -> Any:
        """Look up all other attributes in the wrapped strategy."""
        if name.startswith("__") or name == "strategy":
            raise AttributeError(name)
        try:
            return getattr(self.strategy, name)
        except AttributeError as error:
            if name not in _OF_ONE_API:
                raise
            raise AttributeError(
                f"{error}: server_fn takes Dubhe and its strategy from dubhe_flwr.server and "
                "flwr.server.strategy, @app.main() from dubhe_flwr.serverapp and "
                "flwr.serverapp.strategy."
            ) from None

    @property
    def plan(self) -> Plan | None:
        """Who trains in the current round; None before the first one."""
        return self.driver.run.plan

    @property
    def rounds_done(self) -> int:
        """The last completed round."""
        return self.driver.run.rounds_done

    def rounds_left(self, num_rounds: int) -> int:
        """Load the checkpoint, and return how many of the run's rounds are still to come."""
        return self.driver.run.rounds_left(num_rounds)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a new process continues the run with its next round.

        Call it between two rounds. The state has the round, the selector's seed and count of
        batches, and what the wrapped strategy keeps, if that is one of Flower's or has `state_dict`
        and `load_state_dict`. It has no model, registration or keys. All values fit into JSON,
        except arrays that the wrapped strategy keeps.
        """
        return self.driver.run.state_dict()

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Load what `state_dict` returned: the run continues, and all nodes register anew.

        Raises `CheckpointError` for another version, a missing or unknown key, or an unfit value.
        """
        self.driver.run.load_state_dict(saved)

    @property
    def looks_at_present(self) -> bool:
        """Whether `eligible` is overridden, so that no round can be planned ahead."""
        return type(self).eligible is not Selecting.eligible

    def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
        """Return which of the connected nodes may be selected; by default all of them."""
        del server_round
        return node_ids


class SelectingByDubhe(Selecting[StrategyT]):
    """The base of both `Dubhe` strategies: selects by the `Coordinator` of the protocol."""

    @taking(DubheArguments)
    def __init__(self, strategy: StrategyT, **arguments: Any) -> None:
        self.settings = DubheArguments(**arguments)
        if self.looks_at_present:
            self.settings = replace(self.settings, rounds_per_draw=1)
        self._wrap(strategy, Coordinator(self.settings), self.settings)


def log_plan(plan: Plan, seconds: float) -> None:
    """Log the outcome of a selection, and everything that went wrong."""
    stages = {report.stage for report in plan.stages}
    if Stage.REGISTER in stages and not plan.fallback:
        nodes = _counted(plan.num_registered, "node", "nodes")
        log(INFO, "dubhe: a new epoch: %s | %s", nodes, plan.rule)
        if plan.privacy is not None:
            log(INFO, "dubhe: privacy: %s", plan.privacy)
        if len(plan.participants) == plan.num_registered:
            log(WARNING, "dubhe: all %s train: there is nothing to choose", nodes)
    for report in plan.stages:
        for reason, ids in report.lost.items():
            replies = _counted(len(ids), "reply", "replies")
            log(
                WARNING, "dubhe: %s: %s dropped: %s (%s)", report.stage, replies, reason, _some(ids)
            )
    for note in plan.notes:
        log(WARNING, "dubhe: %s", note)
    if plan.fallback:
        chosen = _counted(len(plan.participants), "client was", "clients were")
        what = f"{chosen} chosen at random" if plan.participants else "nobody trains"
        log(ERROR, "dubhe: round %s was NOT selected by Dubhe: %s", plan.server_round, what)
        return
    log(
        INFO,
        "dubhe: %s of %s clients selected in %.2f s (%s)",
        len(plan.participants),
        plan.num_registered,
        seconds,
        _choice(plan),
    )


def _some(nodes: Sequence[int]) -> str:
    """Name the first few nodes by the ids that Flower shows."""
    more = f" and {len(nodes) - _MAX_NAMED} more" if len(nodes) > _MAX_NAMED else ""
    return (
        f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, nodes[:_MAX_NAMED]))}{more}"
    )


def _choice(plan: Plan) -> str:
    """Describe what the agent chose from."""
    if len(plan.participants) == plan.num_registered:
        return "there was nothing to choose"
    tries = _counted(plan.num_selections, "tentative selection", "tentative selections or groups")
    return f"from {tries}"


def _counted(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun."""
    return f"{number} {singular if number == 1 else plural}"
