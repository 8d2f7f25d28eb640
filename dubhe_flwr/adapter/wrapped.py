"""What the wrapped strategy must not do: train fewer than were selected, or wait for more."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import INFO, WARNING
from typing import Any

from dubhe_flwr.adapter.exchange import log
from dubhe_flwr.errors import CheckpointError, SettingsError

__all__ = ["all_nodes_take_part", "check_wrapped", "kept_state", "layers", "restore_state"]

_REFUSED = {
    "FedXgbCyclic": "it trains one node after the other, so there is no round to balance",
}

# Where Flower's own strategies, of either API, keep what lasts from round to round.
_KEPT = frozenset(
    {
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


def layers(strategy: Any) -> list[Any]:
    """Return a strategy and those it wraps, from the outside in.

    Examples
    --------
    >>> from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
    >>> wrapped = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 20)
    >>> [type(layer).__name__ for layer in layers(wrapped)]
    ['DifferentialPrivacyServerSideFixedClipping', 'FedAvg']
    """
    found = [strategy]
    while (inner := getattr(found[-1], "strategy", None)) is not None:
        found.append(inner)
    return found


def check_wrapped(strategy: Any) -> None:
    """Refuse a strategy that cannot train the selected nodes, and warn where DP is accounted.

    Raises
    ------
    SettingsError
        If it is a class, or chooses its nodes by a logic of its own.
    """
    if isinstance(strategy, type):
        raise SettingsError(
            f"{strategy.__name__} is a class; give a strategy made from it, such as "
            f"{strategy.__name__}()."
        )
    for layer in layers(strategy):
        for parent in type(layer).__mro__:
            if reason := _REFUSED.get(parent.__name__):
                raise SettingsError(
                    f"{parent.__name__} cannot be wrapped: {reason}; use FedXgbBagging or another "
                    "strategy that trains all sampled nodes together."
                )
        if getattr(layer, "accountant", None) is not None:
            log(
                WARNING,
                "dubhe: privacy accounting assumes that nodes are sampled independently of their "
                "data; with Dubhe they are not, so the epsilon it reports does not hold",
            )


@contextmanager
def all_nodes_take_part(strategy: Any, num_nodes: int, purpose: str) -> Iterator[None]:
    """Make a strategy of the Message API take all nodes of its grid, for the time being.

    Parameters
    ----------
    strategy : Strategy
        The wrapped strategy.
    num_nodes : int
        Number of nodes in the grid that it will see.
    purpose : "train" or "evaluate"
        Which of its settings to override. They are put back afterwards.
    """
    wanted = {
        f"fraction_{purpose}": 1.0,
        f"min_{purpose}_nodes": num_nodes,
        "min_available_nodes": num_nodes,
    }
    overridden: list[tuple[Any, str, Any]] = []
    for layer in layers(strategy):
        own = vars(layer)
        overridden += [(layer, name, own[name]) for name in wanted if name in own]
    for layer, name, before in overridden:
        hinders = before < 1.0 if isinstance(wanted[name], float) else before > num_nodes
        if hinders and not vars(layer).get("_dubhe_overrides"):
            log(
                INFO,
                "dubhe: %s=%s of the wrapped strategy is overridden: all %s selected nodes %s",
                name,
                before,
                num_nodes,
                purpose,
            )
            layer._dubhe_overrides = True  # noqa: SLF001 - one line is enough
        setattr(layer, name, wanted[name])
    try:
        yield
    finally:
        for layer, name, before in overridden:
            setattr(layer, name, before)


def kept_state(strategy: Any) -> list[dict[str, Any]]:
    """Return what each layer of a strategy keeps from round to round.

    A layer with `state_dict` and `load_state_dict` says so itself. Of others it is the attributes
    in which Flower's own strategies keep their moments, momentum, clipping norm and model.

    Returns
    -------
    list of dict
        From the outside in; to be packed.
    """
    return [
        layer.state_dict()
        if _speaks_for_itself(layer)
        else {name: value for name, value in vars(layer).items() if name in _KEPT}
        for layer in layers(strategy)
    ]


def restore_state(strategy: Any, kept: list[dict[str, Any]]) -> None:
    """Give each layer of a strategy back what it kept.

    Raises
    ------
    CheckpointError
        If there are more or fewer layers, or a layer lacks what was kept.
    """
    found = layers(strategy)
    if len(kept) != len(found):
        raise CheckpointError(
            f"wrapped: the state is of {len(kept)} strategies one within the other, not "
            f"{len(found)}; wrap the same strategies as before."
        )
    pairs = list(zip(found, kept, strict=True))
    for layer, state in pairs:
        unknown = [name for name in state if name not in _KEPT or name not in vars(layer)]
        if unknown and not _speaks_for_itself(layer):
            raise CheckpointError(
                f"wrapped: {type(layer).__name__} has no {unknown[0]!r}; wrap the same strategies "
                "as before."
            )
    for layer, state in pairs:
        if _speaks_for_itself(layer):
            layer.load_state_dict(state)
        else:
            vars(layer).update(state)


def _speaks_for_itself(layer: Any) -> bool:
    return callable(getattr(layer, "state_dict", None)) and callable(
        getattr(layer, "load_state_dict", None)
    )
