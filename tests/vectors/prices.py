"""Vectors of a session by prices: what a federation of the package played, with its requests."""

from collections.abc import Iterator
from typing import Any, Final

from protocol.federation import dubhe, skewed_counts
from vectors.inputs import Case, all_told
from vectors.steps import session

from dubhe_flwr.rules import Prices

_NODE: Final = 3


def prices_sessions() -> Iterator[Case]:
    """From the requests of two epochs by prices to replies; the second begins with known prices."""
    counts = skewed_counts(40)
    rule = Prices(coverage=0.1, local_skew=1.0)
    nodes = dubhe(
        counts, rule=rule, num_participants=8, simulation="plain", registration_interval=1
    )
    nodes.rounds(1, 2)
    played: list[Any] = [each for each in nodes.exchanges if each.node_id == nodes.ids[_NODE]]
    epochs = list(dict.fromkeys(each.request["epoch"] for each in played))  # their names are random
    steps = []
    for each in played:
        epoch = (1 + epochs.index(each.request["epoch"])).to_bytes(16, "big")
        step: Case = {"request": all_told(each.request | {"epoch": epoch})}
        body = {name: what for name, what in each.reply.items() if name not in each.request}
        if body.pop("public-key", None):  # it is random as well
            step |= {"reply-holds": all_told(body), "reply-sizes": {"public-key": 32}}
        else:
            step |= {"reply": all_told(body)}
        steps.append(step)
    owner = {"alias": str(_NODE), "simulated": True, "min-key-bits": 512}
    own = counts[_NODE].tolist()
    yield session("a node by prices", None, *steps, owner=owner, label_counts=own)
