"""Small ways in: what a node's Context shows, and two nodes with one name."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from apis import LABEL_COUNTS, Api, in_both_apis
from protocol.federation import Federation, epoch_of
from protocol.server import federation, report_of

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


def test_two_nodes_of_one_name() -> None:
    """A node takes another one's alias, and would pass for it in results: it is left out."""
    nodes: Federation[Any] = federation()
    twin = nodes.policies[nodes.ids[3]].alias
    nodes.policies[nodes.ids[8]] = replace(nodes.policies[nodes.ids[8]], alias=twin)
    plan = nodes.play(1)
    assert report_of(plan, "join").dropped == {"alias of another node": 1}
    assert plan.num_registered == 11
    assert set(epoch_of(nodes).aliases.values()) == {str(row) for row in range(12)} - {"8"}
