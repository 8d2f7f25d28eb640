"""Selects the clients of each round for a strategy of either of Flower's APIs.

The driver waits for nodes, takes the plan that was made ahead or else selects the round now, and
logs the outcome. It also keeps track of training, so that `ahead` can plan later rounds while
clients train.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from logging import ERROR, INFO, WARNING
from numbers import Integral
from typing import Any, Final, Protocol, TypeVar

from dubhe_flwr.adapter.ahead import PlansAhead
from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.adapter.exchanges import Exchanges, counted, log_plan
from dubhe_flwr.adapter.messages import log
from dubhe_flwr.adapter.resume import Run
from dubhe_flwr.adapter.wrapped import min_available
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch, Plan, Replies
from dubhe_flwr.protocol.log import warn_once
from dubhe_flwr.protocol.selector import Selector
from dubhe_flwr.protocol.simulated_nodes import SimulatedNodes

ReplyT = TypeVar("ReplyT")

_TRAINS_OTHERS: Final = (
    "dubhe: the wrapped strategy does not train exactly the selected clients; configure it to "
    "train every client that it receives"
)
_TRAINS_NONE: Final = "dubhe: the wrapped strategy trains no client in this round"
_NOT_ASKED: Final = (
    "dubhe: round %s was NOT selected by Dubhe: it was not asked; if you override configure_train, "
    "configure_fit or start, call the overridden method, or self.configure_train"
)
_OVERRIDES_ELIGIBLE: Final = (
    "dubhe: eligible() is overridden, and its answer may change at any moment, so each round waits "
    "for its selection"
)


class Send(Protocol):
    """Sends a batch and waits for replies until a timeout, or until a function returns True."""

    def __call__(
        self, batch: Batch, timeout: float | None, is_over: Callable[[], bool] | None = None, /
    ) -> Replies:
        """Return the replies by node id."""


Eligible = Callable[[int, Sequence[int]], Sequence[int]]
"""Returns which of the connected nodes may be selected in a round."""


class SelectionDriver:
    """Runs a selector around a wrapped strategy, over any transport.

    `metrics` describes the last selection, for Flower's Result or History: how many clients
    trained, what share of all clients was selected since the run began or was resumed, how many
    bytes were sent, and how many seconds the round waited. On real nodes, coming rounds are planned
    while clients train, unless `own_eligible` returns a function that decides at the moment of each
    selection.
    """

    def __init__(
        self,
        wrapped: Any,
        selector: Selector[Any],
        options: Options,
        own_eligible: Callable[[], Eligible | None],
    ) -> None:
        self.selector = selector
        self.options = options
        needed = max(selector.num_participants, min_available(wrapped))
        self.expected_nodes = needed if options.expected_nodes is None else options.expected_nodes
        self.run = Run(wrapped, selector, options)
        self._own_eligible = own_eligible
        self._reach: tuple[Callable[[], Sequence[int]], Send]  # list and reach this round's nodes
        self.metrics: dict[str, int | float] = {}
        self._forget()

    def _forget(self) -> None:
        """Go back to the beginning of a run, perhaps with other nodes."""
        self._nodes = SimulatedNodes()
        self._num_present = self.expected_nodes
        self._selected: set[str] = set()
        self._ahead = PlansAhead(self.selector, self.options.stage_timeout)
        # Participants and metrics of each round: an app may have several under way.
        self._rounds: dict[int, tuple[Sequence[int], dict[str, int | float]]] = {}

    def plan_round(
        self,
        server_round: int,
        present: Callable[[], Sequence[int]],
        send: Send,
        patience: Callable[[], float],
    ) -> Plan:
        """Select the clients of a round and return the plan.

        `server_round` is the round as Flower counts it in this process; the plan counts from the
        start of the whole run. `present` returns the ids of the connected nodes, and `patience` the
        seconds to wait for one more node.
        """
        run = self.run
        server_round = run.begin_round(_checked_round(server_round))
        if run.plan is None:  # a run begins
            warn_once.cache_clear()
            self.stop()
            self._forget()
        self._reach = present, send
        if run.plan is None or len(present()) < self.selector.least_nodes:
            self._wait_for_nodes(present, patience)
        begin = time.perf_counter()
        planned = self._ahead.take(server_round)
        node_ids = present()
        if len(node_ids) >= self.selector.least_nodes:
            self._num_present = len(node_ids)
        own_eligible = self._own_eligible()
        eligible: Any = own_eligible(server_round, node_ids) if own_eligible else node_ids
        if eligible is None:
            raise SettingsError("eligible() returned nothing; it must return node ids.")
        plan = planned and self.selector.adapted(planned.state, planned.plan, node_ids, eligible)
        if planned and plan:
            run.state = planned.state
        else:
            plan = self._select(server_round, node_ids, eligible)
        run.plan = plan
        seconds = time.perf_counter() - begin
        self._selected.update(plan.aliases)
        self.metrics = {
            "selection-coverage": len(self._selected) / max(len(node_ids), len(self._selected), 1),
            "selection-seconds": seconds,
            "selection-bytes": plan.bytes_up + plan.bytes_down,
        }
        self._rounds[server_round] = plan.participants, self.metrics
        log_plan(plan, seconds)
        if self.options.on_selection is not None:
            answer = self.options.on_selection(plan, seconds)
            try:
                for name, value in (answer or {}).items():
                    self.metrics[str(name)] = value if type(value) is int else float(value)
            except (AttributeError, TypeError, ValueError):
                raise SettingsError(
                    f"on_selection returned {answer!r:.200}; it must return None, or a mapping of "
                    "names to numbers."
                ) from None
        return plan

    def _select(self, server_round: int, present: Sequence[int], eligible: Sequence[int]) -> Plan:
        """Select the clients of a round that was not planned ahead."""
        run, (_, send), timeout = self.run, self._reach, self.options.stage_timeout
        run.state = self._ahead.withdraw(run.state)
        run.state, outcome = self.selector.begin_round(run.state, server_round, present, eligible)
        exchanges = Exchanges(self.selector, run.state)

        def exchange(batch: Batch) -> Replies:
            return self._nodes.exchange(batch, lambda left: send(left, timeout))

        try:
            return exchanges.finish(outcome, exchange)
        finally:
            run.state = exchanges.state

    @property
    def is_skipped(self) -> bool:
        """Whether nobody trains in this round, because no node could be chosen."""
        plan = self.run.plan
        return plan is not None and plan.fallback and not plan.participants

    def training_begins(self, node_ids: Sequence[int], given: Sequence[int]) -> None:
        """Note who trains; planning ahead begins once these nodes' messages are pushed.

        Warns once if the wrapped strategy does not train exactly the nodes that it was given, but
        it may skip rounds.
        """
        if not node_ids:
            log(INFO, _TRAINS_NONE)
        elif set(node_ids) != set(given):  # a node may get several messages
            warn_once(_TRAINS_OTHERS)
        self._ahead.expect(len(node_ids))

    def training_ends(
        self, server_round: int, replies: Iterable[ReplyT], node_id_of: Callable[[ReplyT], int]
    ) -> tuple[int, list[ReplyT]]:
        """Return the round's number within the run, and the replies in the plan's order.

        The order matters because floating-point sums depend on it.
        """
        run = self.run
        run.rounds_done = self.round_in_run(server_round)
        if run.plan is None:  # a new run has begun
            self._rounds.clear()
        self.check_asked(run.rounds_done)
        participants, self.metrics = self._rounds[run.rounds_done]
        places = {node_id: place for place, node_id in enumerate(participants)}
        in_order = sorted(replies, key=lambda reply: places.get(node_id_of(reply), len(places)))
        return run.rounds_done, in_order

    def check_asked(self, server_round: int) -> None:
        """Log, once, if a round took place without a selection."""
        if server_round not in self._rounds:
            log(ERROR, _NOT_ASKED, server_round)
            self._rounds[server_round] = (), {}

    def round_in_run(self, server_round: int) -> int:
        """Return the number within the run of a round as Flower counts it in this process."""
        return self.run.first + server_round

    def pushed(self, num_messages: int) -> None:
        """Count pushed messages, and plan ahead after the last training message."""
        run = self.run
        is_last = self._ahead.all_pushed(num_messages)
        if not is_last or run.plan is None or not self.selector.plans_ahead:
            return
        if self._own_eligible() is not None:
            warn_once(_OVERRIDES_ELIGIBLE)
            return
        present, send = self._reach

        def send_ahead(batch: Batch, is_over: Callable[[], bool]) -> Replies:
            return self._nodes.exchange(batch, lambda left: send(left, None, is_over))

        self._ahead.begin(run.plan, run.last, run.state, present, send_ahead)

    def stop(self) -> None:
        """Stop planning rounds ahead."""
        self._ahead.stop()

    def _wait_for_nodes(
        self, present: Callable[[], Sequence[int]], patience: Callable[[], float]
    ) -> None:
        """Wait until the expected nodes are connected, up to `wait_timeout`.

        A later round that finds too few nodes waits too, but for no more nodes than the last round
        that had enough: after a broken connection, nodes come back one after the other.
        """
        expected, connected = min(self.expected_nodes, self._num_present), len(present())
        seconds = self.options.wait_timeout if patience() else 0.0
        begin = last_came = time.monotonic()
        if connected < expected and seconds:
            nodes = counted(expected, "node", "nodes")
            log(INFO, "dubhe: waiting for %s; %s connected so far", nodes, connected)
        while connected < expected and (now := time.monotonic()) - begin <= seconds:
            if connected and now - last_came > patience():
                break
            time.sleep(0.2)
            before, connected = connected, len(present())
            last_came = time.monotonic() if connected > before else last_came
        # With fewer than K nodes, the selector itself says what is missing.
        if self.selector.num_participants <= connected < expected:
            log(
                WARNING,
                "dubhe: %s of %s expected nodes connected within %.0f s; continuing with these",
                connected,
                expected,
                time.monotonic() - begin,
            )


def _checked_round(server_round: object) -> int:
    """Return a round, which may come from an app's own loop; raise `SettingsError` if invalid."""
    if not isinstance(server_round, Integral) or int(server_round) < 1:
        raise SettingsError(
            f"server_round={server_round!r:.60} must be a whole number: rounds count from 1."
        )
    return int(server_round)
