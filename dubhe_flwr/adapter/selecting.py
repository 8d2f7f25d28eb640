"""The common base of the strategies for both of Flower's APIs.

A strategy, `Selecting`, wraps another one and owns a `SelectionDriver`, which selects the clients
of each round. The adapters in `server` and `serverapp` only translate between the driver and
Flower.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from inspect import ismethod
from typing import Any, ClassVar, Final, Generic, TypeVar

from dubhe_flwr.adapter.arguments import DubheArguments, Options
from dubhe_flwr.adapter.driver import Eligible, SelectionDriver
from dubhe_flwr.adapter.signatures import taking
from dubhe_flwr.adapter.wrapped import check_privacy_around, check_wrapped, layers, overriding
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.protocol.selector import Selector

StrategyT = TypeVar("StrategyT")

_OF_ONE_API: Final = frozenset({"initialize_parameters", "start"})


class Selecting(Generic[StrategyT]):
    """Wraps a strategy, which trains and aggregates the clients that a selector chooses.

    The base of both `Selection` strategies. Subclasses may override `eligible` to leave nodes out
    of a round; the option `on_selection`, or a method of that name, receives each plan.

    Parameters
    ----------
    strategy : Strategy
        The strategy that trains and aggregates. It trains exactly the selected clients, whatever
        its own fraction or minimum.
    selector : Selector
        Chooses the clients; `Dubhe` brings its own.
    **options
        The fields of `dubhe_flwr.adapter.arguments.Options`.

    Raises
    ------
    SettingsError
        If the strategy cannot be wrapped, or an option is invalid.
    """

    _configures: ClassVar[str]  # the method that only strategies of this API have
    _methods_of_flower: ClassVar[Sequence[str]]  # those that all strategies of this API have

    @taking(Options)
    def __init__(self, strategy: StrategyT, selector: Selector[Any], **options: Any) -> None:
        self._wrap(strategy, selector, Options(**options))

    def _wrap(self, strategy: StrategyT, selector: Selector[Any], options: Options) -> None:
        if not isinstance(selector, Selector):
            raise SettingsError(
                f"selector={selector!r:.60} is not a Selector; pass an instance of a subclass "
                "of dubhe_flwr.protocol.selector.Selector, or use Dubhe, which has its own."
            )
        check_wrapped(strategy, self._configures, selector.num_participants)
        for layer in layers(strategy):
            if isinstance(layer, Selecting):
                raise SettingsError(
                    f"{type(layer).__name__} already selects; wrap the strategy inside it instead."
                )
        if hasattr(type(self), "on_selection"):
            if options.on_selection is not None:
                raise SettingsError(
                    f"{type(self).__name__} has a method on_selection; leave out the option, and "
                    "call its function from the method."
                )
            options = replace(options, on_selection=self.on_selection)
        self.driver = SelectionDriver(strategy, selector, options, self.own_eligible)
        self.strategy = strategy  # last, since from now on its own attributes are set on it

    def _check_callers(self) -> None:
        """Check what wraps this strategy, once, before the first selection."""
        if self.plan is None:
            check_privacy_around(self, self.driver.selector.num_participants)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strategy!r})"

    def __getattr__(self, name: str) -> Any:
        """Look up all other attributes in the wrapped strategy.

        Its own methods run with our selection, since they may run rounds.
        """
        if name.startswith("__") or name == "strategy":
            raise AttributeError(name)
        try:
            found = getattr(self.strategy, name)
        except AttributeError as error:
            if name not in _OF_ONE_API:
                raise
            raise AttributeError(
                f"{error}: with server_fn, import Dubhe from dubhe_flwr.server and its strategy "
                "from flwr.server.strategy; with @app.main(), import them from "
                "dubhe_flwr.serverapp and flwr.serverapp.strategy."
            ) from None
        is_own_method = ismethod(found) and found.__self__ is self.strategy
        return getattr(self._selecting(*self._methods_of_flower), name) if is_own_method else found

    def _selecting(self, *names: str) -> Any:
        """Return the wrapped strategy, but with our methods of these names.

        Copying or pickling it copies or pickles the wrapped strategy, since its own class has no
        module.
        """
        ours = {name: getattr(self, name) for name in names}
        ours["__reduce_ex__"] = lambda _protocol: (copy, (self.strategy,))
        return overriding(self.strategy, ours)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute that only a wrapped strategy has, such as `evaluate_fn`, on it."""
        is_ours = name in vars(self) or hasattr(type(self), name) or "strategy" not in vars(self)
        wrapped = () if is_ours else layers(self.strategy)
        for layer in wrapped:
            if hasattr(layer, name):
                setattr(layer, name, value)
                return
        super().__setattr__(name, value)

    def configure_evaluate(self, server_round: int, *given: Any, **named: Any) -> Any:
        """Have the wrapped strategy configure evaluation."""
        strategy: Any = self.strategy
        return strategy.configure_evaluate(self.driver.round_in_run(server_round), *given, **named)

    def aggregate_evaluate(self, server_round: int, *given: Any, **named: Any) -> Any:
        """Have the wrapped strategy aggregate the evaluation."""
        strategy: Any = self.strategy
        return strategy.aggregate_evaluate(self.driver.round_in_run(server_round), *given, **named)

    @property
    def plan(self) -> Plan | None:
        """Who trains in the current round; None before the first one."""
        return self.driver.run.plan

    @property
    def rounds_done(self) -> int:
        """The last completed round."""
        return self.driver.run.rounds_done

    def rounds_left(self, num_rounds: int) -> int:
        """Load the checkpoint, and return the number of rounds still to run."""
        return self.driver.run.rounds_left(num_rounds)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a new process continues the run with its next round.

        Call it between two rounds. The state consists of the round, the selector's seed and number
        of batches, and the wrapped strategy's own state (for Flower's strategies, and for others
        with `state_dict` and `load_state_dict`). It contains no model, registration or keys. All
        values can be written as JSON, except the wrapped strategy's arrays.
        """
        return self.driver.run.state_dict()

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Load what `state_dict` returned: the run continues, and all nodes register again.

        Raises `CheckpointError` for another version, a missing or unknown key, or an invalid value.
        """
        self.driver.run.load_state_dict(saved)

    def own_eligible(self) -> Eligible | None:
        """Return `eligible` if it is overridden, in which case no round can be planned ahead."""
        is_ours = getattr(self.eligible, "__func__", None) is Selecting.eligible
        return None if is_ours else self.eligible

    def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
        """Return which of the connected nodes may be selected; by default all of them."""
        del server_round
        return node_ids


class SelectingByDubhe(Selecting[StrategyT]):
    """The base of both `Dubhe` strategies: selects by the `Coordinator` of the protocol."""

    @taking(DubheArguments)
    def __init__(self, strategy: StrategyT, **arguments: Any) -> None:
        self.settings = DubheArguments(**arguments)
        if self.own_eligible() is not None:
            self.settings = replace(self.settings, rounds_per_draw=1)
        self._wrap(strategy, Coordinator(self.settings), self.settings)
