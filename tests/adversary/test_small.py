"""A small way in: what a node's Context shows."""

import pickle
from typing import Any

import pytest
from apis import LABEL_COUNTS, Api, in_both_apis

from dubhe_flwr.protocol import ClientSession, Memory, NodePolicy


@in_both_apis
def test_a_context_is_as_secret_as_what_it_keeps(api: Api) -> None:
    """Whoever pickles it sees the key and the labels; what Dubhe makes of it shows neither."""
    grid = api.grid()
    api.run(api.dubhe(), grid, 1)
    context = next(iter(grid.contexts.values()))
    memory = Memory.from_fields(dict(context.state["dubhe"]))
    joined: Any = memory.joined
    counts: Any = LABEL_COUNTS[int(context.node_config["partition-id"])]
    assert joined.label_counts == tuple(counts.tolist())
    assert joined.registered.key.prime in pickle.dumps(context)
    session = ClientSession(NodePolicy(label_counts=lambda: counts, alias="3"), memory)
    for secret in (repr(joined.registered.key.prime), str(counts)):
        assert secret not in f"{memory!r} {session!r} {session.policy!r}"
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(memory)
