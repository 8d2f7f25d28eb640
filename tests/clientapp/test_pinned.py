"""Pinned keys from end to end; what each attack comes to is in `adversary/test_forged_keys.py`."""

from typing import Any

from apis import NUM_NODES, Api, in_both_apis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context, Message

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(NUM_NODES)]

pytestmark = in_both_apis


def own_key(context: Context) -> Ed25519PrivateKey:
    """Return the key of a node by its partition."""
    return KEYS[int(context.node_config["partition-id"])]


PINNED: dict[str, Any] = {
    "signing_key": own_key,
    "trusted_keys": [key.public_key() for key in KEYS],
}


def told(grid: Any) -> set[str]:
    """Return a set that grows by the fields of all requests and replies of a Grid."""
    answer, names = grid._answer, set[str]()

    def watched(message: Message) -> Any:
        reply = answer(message)
        for one in (message, reply):
            if one.has_content():
                names.update(*(record for record in one.content.config_records.values()))
        return reply

    grid._answer = watched
    return names


def test_nodes_that_trust_each_other_train(api: Api) -> None:
    """In two epochs the same clients are chosen as without keys, and every side signs."""
    selected, signed = [], []
    for options in (PINNED, {}):
        grid, strategy = api.grid(**options), api.dubhe(registration_interval=1)
        names = told(grid)
        api.run(strategy, grid, 2)
        assert not any(report.dropped for plan in strategy.plans for report in plan.stages)
        selected.append(strategy.selected)
        signed.append(names & {"signature", "signatures", "key.signature"})
    assert selected[0] == selected[1]
    assert signed == [{"signature", "signatures", "key.signature"}, set()]
