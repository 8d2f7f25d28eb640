"""Tests of pinned keys from end to end; for attacks see `adversary/test_forged_keys.py`."""

from typing import Any

from apis import NUM_NODES, Api, exchanges_of, in_both_apis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(NUM_NODES)]

pytestmark = in_both_apis


def own_key(context: Context) -> Ed25519PrivateKey:
    """Return a node's key by its partition."""
    return KEYS[int(context.node_config["partition-id"])]


PINNED: dict[str, Any] = {
    "signing_key": own_key,
    "trusted_keys": [key.public_key() for key in KEYS],
}


def test_nodes_that_trust_each_other_train(api: Api) -> None:
    """Pinned keys do not change the selected clients over two epochs, and every side signs."""
    selected, signed = [], []
    for options in (PINNED, {}):
        grid, strategy = api.grid(**options), api.dubhe(registration_interval=1)
        seen = exchanges_of(grid)
        api.run(strategy, grid, 2)
        assert not any(report.dropped for plan in strategy.plans for report in plan.stages)
        selected.append(strategy.selected)
        records = [one.content.get("dubhe", ()) for messages in seen for one in messages]
        signed.append({name for record in records for name in record if "signature" in name})
    assert selected[0] == selected[1]
    assert signed == [{"signature", "signatures", "roster.signatures", "key.signature"}, set()]
