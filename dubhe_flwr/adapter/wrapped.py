"""Checks the wrapped strategy, makes it train all selected nodes, and saves its state."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from itertools import count
from logging import WARNING
from time import monotonic
from traceback import walk_stack
from typing import Any

from dubhe_flwr.adapter.messages import log
from dubhe_flwr.errors import CheckpointError, SettingsError

# Attributes in which Flower's own strategies, of either API, keep state from round to round.
_KEPT = frozenset(
    {
        "accountant",
        "clip_norm",
        "clipping_norm",
        "current_arrays",
        "current_bst",
        "current_weights",
        "global_model",
        "initial_parameters",
        "m_t",
        "momentum_vector",
        "v_t",
    }
)
_MAY_BE_NONE = frozenset({"accountant", "initial_parameters"})
_PATIENCE = 20  # how often, and for how many seconds, a strategy may ask for its nodes


def layers(strategy: Any) -> list[Any]:
    """Return a strategy and the strategies it wraps, from the outside in."""
    found = [strategy]
    for layer in found:  # which grows
        values = [getattr(layer, "strategy", None), *getattr(layer, "__dict__", {}).values()]
        values += [each for value in values if isinstance(value, list | tuple) for each in value]
        values += [each for value in values if isinstance(value, dict) for each in value.values()]
        # Asks the class, since a mock or a configuration object may have any attribute.
        inner = {id(each): each for each in values if hasattr(type(each), "aggregate_evaluate")}
        known = set(map(id, found))
        found += [each for key, each in inner.items() if key not in known]
    return found


def check_wrapped(strategy: Any, method: str, num_participants: int) -> None:
    """Raise `SettingsError` for a strategy that cannot train K selected nodes.

    `method` is one that only strategies of the right API have. If differential privacy is set up,
    it must be for K clients; then log what selection means for epsilon.
    """
    kind = type(strategy)
    if isinstance(strategy, type):
        name = strategy.__name__
        raise SettingsError(f"{name} is a class; pass an instance, such as {name}().")
    if not hasattr(strategy, method):
        raise SettingsError(
            f"{kind.__name__} of {kind.__module__} has no {method}; import Dubhe from "
            "dubhe_flwr.server to wrap a strategy of flwr.server, and from dubhe_flwr.serverapp to "
            "wrap one of flwr.serverapp."
        )
    for layer in layers(strategy):
        if any(parent.__name__ == "FedXgbCyclic" for parent in type(layer).__mro__):
            raise SettingsError(
                "FedXgbCyclic cannot be wrapped: it trains one node after the other, so there is "
                "no round to balance; use FedXgbBagging or another strategy that trains all "
                "sampled nodes together."
            )
        _check_noise(layer, num_participants)


def check_privacy_around(strategy: Any, num_participants: int) -> None:
    """Check the wrappers around a strategy; they can be found only while they call it."""
    callers = [frame.f_locals.get("self") for frame, _ in walk_stack(None)]
    for caller in {id(caller): caller for caller in callers if _num_sampled(caller)}.values():
        if any(layer is strategy for layer in layers(caller)[1:]):
            _check_noise(caller, num_participants)


def _check_noise(layer: Any, num_participants: int) -> None:
    number, name = _num_sampled(layer), type(layer).__name__
    if number is None:
        return
    if number != num_participants:
        raise SettingsError(
            f"{name}'s num_sampled_clients={number} differs from Dubhe's num_participants="
            f"{num_participants}, so its noise would be scaled for the wrong number of clients; "
            "set both to the same number."
        )
    log(
        WARNING,
        "dubhe: %s: clients are not sampled uniformly, so compute epsilon without "
        "amplification by sampling, for a client that trains in every round; the selection "
        'itself adds to it (see "Differential privacy" in the documentation of dubhe-flwr)',
        name,
    )


def _num_sampled(layer: Any) -> Any:
    return getattr(layer, "__dict__", {}).get("num_sampled_clients")


class StartCall:
    """A call of a strategy's `start`, whose arguments can be read and replaced by Flower's names.

    An own version may have other arguments than Flower's, in another order and with other defaults.
    The Grid is the first one; the model is the second of three or more. The number of rounds is the
    only one with `rounds` in its name.

    Parameters
    ----------
    start, flowers : callable
        The bound method to call, and Flower's.
    given, named : sequence and mapping
        The arguments of the call.
    """

    def __init__(
        self,
        start: Callable[..., Any],
        flowers: Callable[..., Any],
        given: Sequence[Any],
        named: Mapping[str, Any],
    ) -> None:
        own, usual = signature(start).parameters, signature(flowers).parameters
        kinds = {each.kind for each in own.values()}
        places = [name for name, each in own.items() if each.kind <= each.POSITIONAL_OR_KEYWORD]
        other = dict(zip(usual, places[: 2 if len(places) >= 3 else 1], strict=False))
        match [name for name in own if "rounds" in name]:
            case [name]:
                other["num_rounds"] = name
        if Parameter.VAR_POSITIONAL in kinds:
            places += list(usual)[len(places) :]
        self._start, self._given, self._named = start, list(given), dict(named)
        self._places = places[: len(given)]
        self._defaults = {name: each.default for name, each in {**usual, **own}.items()}
        self._names = {name: name for name in usual if Parameter.VAR_KEYWORD in kinds}
        self._names |= {name: own for name, own in other.items() if own not in usual}
        self._names |= {name: name for name in usual if name in {*own, *places, *named}}

    def __getitem__(self, argument: str) -> Any:
        """Return an argument or its default; None if the method does not take it."""
        name = self._names.get(argument, "")
        if name in self._places:
            return self._given[self._places.index(name)]
        return self._named.get(name, self._defaults.get(name))

    def __setitem__(self, argument: str, value: Any) -> None:
        """Replace an argument; raises `SettingsError` if the method does not take it."""
        if argument not in self._names:
            raise SettingsError(
                f"{self._start.__qualname__} takes no {argument}, which checkpoint_dir needs; add "
                "it to the method's arguments."
            )
        name = self._names[argument]
        if name in self._places:
            self._given[self._places.index(name)] = value
        else:
            self._named[name] = value

    def __call__(self) -> Any:
        """Make the call."""
        return self._start(*self._given, **self._named)


class _Unnoticed:
    """Keeps the next base class from registering a subclass, or from closing a file in the end."""

    def __init_subclass__(cls) -> None:
        pass

    def __del__(self) -> None:
        pass


def overriding(other: Any, methods: dict[str, Any]) -> Any:
    """Return an object that shares everything with another one, except for some methods."""
    kind = type(other)
    # Flower and apps assign methods to an object. A property of its class comes before these.
    ours = {
        name: property(lambda _, own=own: own)  # type: ignore[misc]
        for name, own in methods.items()
    }
    changed: Any = object.__new__(type(kind.__name__, (_Unnoticed, kind), ours))
    changed.__dict__ = vars(other)
    return changed


def min_available(strategy: Any) -> int:
    """Return how many connected nodes a strategy of either API waits for."""
    names = ("min_available_nodes", "min_available_clients")
    wanted = (vars(layer).get(name) for layer in layers(strategy) for name in names)
    return max((number for number in wanted if isinstance(number, int)), default=0)


@contextmanager
def given_only(num_nodes: int) -> Iterator[Callable[[], None]]:
    """Add to an error of the wrapped strategy that it was given only the selected nodes.

    Yields what to call whenever the strategy asks for its nodes or their number: it raises
    `SettingsError` if the strategy waits for more.
    """
    begin, times, is_configuring = monotonic(), count(1), True

    def asked() -> None:
        is_long = next(times) > _PATIENCE and monotonic() - begin > _PATIENCE
        if is_configuring and is_long:  # later, a strategy may ask once in each round
            raise SettingsError(
                f"The wrapped strategy waits for more nodes than the {num_nodes} that are "
                "selected; let it sample no more than these, or raise num_participants."
            )

    try:
        yield asked
    except Exception as error:
        error.add_note(
            f"dubhe: here, the wrapped strategy sees only the {num_nodes} selected nodes, and "
            "should train each of them; it need not sample."
        )
        raise
    finally:
        is_configuring = False


@contextmanager
def training_all_nodes(strategy: Any, num_nodes: int) -> Iterator[None]:
    """Let a strategy train all the nodes it is given, unless it skips training by a fraction of 0.

    Afterwards the strategy has its own settings again, and keeps those that it assigned itself.
    """
    wanted = {
        "fraction_train": 1.0,
        "min_train_nodes": num_nodes,
        "min_available_nodes": num_nodes,
        # in the API with configure_fit
        "fraction_fit": 1.0,
        "min_fit_clients": num_nodes,
        "min_available_clients": num_nodes,
    }
    found = [vars(layer) for layer in layers(strategy)]
    own = [{name: each[name] for name in wanted.keys() & each if each[name] != 0} for each in found]
    for each, settings in zip(found, own, strict=True):
        each.update({name: wanted[name] for name in settings})
    try:
        yield
    finally:
        for each, settings in zip(found, own, strict=True):
            each.update({n: value for n, value in settings.items() if each.get(n) is wanted[n]})


def kept_state(strategy: Any) -> list[dict[str, Any]]:
    """Return what each layer of a strategy keeps from round to round.

    A layer with `state_dict` and `load_state_dict` provides its own state. The state of any other
    layer is a privacy accountant's count, and the attributes in which Flower's strategies keep
    moments, momentum, clipping norm and model.
    """
    return [
        _own_state(layer)
        if _speaks_for_itself(layer)
        else {
            name: value.state_dict() if name == "accountant" else value
            for name, value in vars(layer).items()
            if name in _KEPT and not (name in _MAY_BE_NONE and value is None)
        }
        for layer in layers(strategy)
    ]


def _own_state(layer: Any) -> dict[str, Any]:
    state = layer.state_dict()
    if not isinstance(state, dict):
        raise CheckpointError(
            f"{type(layer).__name__}.state_dict returned a {type(state).__name__}; return a "
            "dictionary."
        )
    return state


def restore_state(strategy: Any, kept: list[dict[str, Any]]) -> None:
    """Restore the state of each layer of a strategy; nothing changes if one layer refuses."""
    found = layers(strategy)
    if len(kept) != len(found) or not all(isinstance(state, dict) for state in kept):
        raise CheckpointError(
            f"wrapped: the state has {len(kept)} nested strategies, not {len(found)}; wrap the "
            "same strategies as before."
        )
    for layer, state in zip(found, kept, strict=True):
        unknown = [name for name in state if name not in _KEPT or name not in vars(layer)]
        if "accountant" in state and vars(layer).get("accountant") is None:
            unknown.append("accountant")
        if unknown and not _speaks_for_itself(layer):
            raise CheckpointError(
                f"wrapped: {type(layer).__name__} has no {unknown[0]!r}; wrap the same strategies "
                "as before."
            )
    before = kept_state(strategy)
    try:
        _load(found, kept)
    except Exception:
        _load(found, before)
        raise


def _load(found: list[Any], kept: list[dict[str, Any]]) -> None:
    for layer, state in zip(found, kept, strict=True):
        if _speaks_for_itself(layer):
            layer.load_state_dict(state)
            continue
        for name, value in state.items():
            if name == "accountant":
                layer.accountant.load_state_dict(value)
            else:
                setattr(layer, name, value)


def _speaks_for_itself(layer: Any) -> bool:
    return callable(getattr(layer, "state_dict", None)) and callable(
        getattr(layer, "load_state_dict", None)
    )
