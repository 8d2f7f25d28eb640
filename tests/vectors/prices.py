"""Vectors of sessions with prices, recorded from federations that the package ran."""

from collections.abc import Iterator
from typing import Any, Final

from protocol.federation import dubhe, skewed_counts
from vectors.inputs import Case, all_typed

from dubhe_flwr.rules import Prices

_NODE: Final = 3


def prices_sessions() -> Iterator[Case]:
    """Map the requests of epochs with prices to replies."""
    usual = Prices(coverage=0.1, local_skew=1.0)
    yield _recorded("a node by prices", 40, usual)
    yield _recorded("a node by prices that counts by its samples", 40, usual, equal_weights=False)
    yield _recorded("a node by prices without noise", 40, Prices(noise=0.0))
    name = "a node whose labels enter no further sum"
    yield _recorded(name, 40, Prices(noise=1.0), num_epochs=9, equal_weights=False)
    yield _recorded("too few nodes for prices", 15, usual, num_participants=3)


def _recorded(
    name: str, num_clients: int, rule: Prices, num_epochs: int = 2, **settings: Any
) -> Case:
    """Return one node's part in some unencrypted epochs; it has more samples than the others."""
    counts = skewed_counts(num_clients)
    counts[_NODE] *= 3
    settings = {"num_participants": 8, "registration_interval": 1, "tries": None} | settings
    nodes = dubhe(counts, rule=rule, simulation="plain", **settings)
    nodes.rounds(1, num_epochs)
    assert nodes.errors == []
    played: list[Any] = [each for each in nodes.exchanges if each.node_id == nodes.ids[_NODE]]
    epochs = list(dict.fromkeys(each.request["epoch"] for each in played))
    # The vectors have other names, which are not random.
    names = {epoch: place.to_bytes(16, "big") for place, epoch in enumerate(epochs, 1)}
    owner = {"alias": str(_NODE), "simulated": True, "min-key-bits": 512}
    own, steps = counts[_NODE].tolist(), [_step(each, names) for each in played]
    return {"name": name, "owner": owner, "label-counts": own, "steps": steps}


def _step(played: Any, names: dict[bytes, bytes]) -> Case:
    """Return a request with its reply."""
    named = {
        key: names.get(what, what) if isinstance(what, bytes) else what
        for key, what in played.request.items()
    }
    request = all_typed(named)
    body = {name: what for name, what in played.reply.items() if name not in played.request}
    if body.pop("public-key", None):  # it is random, too
        sizes = {"public-key": 32}
        return {"request": request, "reply-holds": all_typed(body), "reply-sizes": sizes}
    return {"request": request, "reply": all_typed(body)}
