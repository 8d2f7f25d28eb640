"""Neither what the server receives nor what a node prints reveals labels, in either API."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from apis import LABEL_COUNTS, SELECTION, Api, exchanges_of, in_both_apis
from disclosure import HEADER, label_secrets

from dubhe_flwr.protocol import Memory

pytestmark = in_both_apis


def key_of(joined: Any) -> tuple[bytes, bytes]:
    """Return the modulus and the prime of a node's Paillier key."""
    keys = joined.registered.keys
    size = 2 * len(keys) // 3
    return keys[:size], keys[size:]


def test_replies_and_checkpoints_hold_nothing_in_the_clear(api: Api, tmp_path: Path) -> None:
    """They hold no registry, p_l, R_A or secret key, and have no field for anything else."""
    grid = api.grid()
    seen = exchanges_of(grid)
    api.run(api.dubhe(checkpoint_dir=tmp_path), grid)
    seen = [of for of in seen if of[0].metadata.message_type.startswith("evaluate.dubhe")]
    assert all(set(one.content) == {"dubhe"} for messages in seen for one in messages)
    replies: list[Any] = [reply.content["dubhe"] for _, reply in seen]
    values = [value for reply in replies for value in reply.values()]
    received = b"|".join(v if isinstance(v, bytes) else repr(v).encode() for v in values)
    rule = SELECTION["rule"]
    secrets = label_secrets(LABEL_COUNTS, rule.codebook.reference_set, rule.candidates[0])
    keys: set[bytes] = set()
    for context in grid.contexts.values():
        joined: Any = Memory.from_fields(context.state.config_records["dubhe"]).joined
        modulus, own = key_of(joined)
        p = int.from_bytes(own, "big")
        for prime in (p, int.from_bytes(modulus, "big") // p):
            keys |= {prime.to_bytes(32, "big"), prime.to_bytes(32, "little")}
            keys |= {str(prime).encode(), f"{prime:x}".encode()}
        keys.add(joined.delivery_key)
    keys |= {b64encode(key).rstrip(b"=")[:-1] for key in keys}
    assert len(secrets | keys) > 1000
    assert [secret for secret in secrets | keys if secret in received] == []
    kept = b"|".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [key for key in keys if key in kept] == []
    assert b64encode(modulus) not in kept  # nor anything else of an epoch
    assert not any(str(node_id).encode() in kept for node_id in grid.contexts)
    assert b'"seed": 7' in kept  # shows that the search works
    assert {name for reply in replies for name in reply} - HEADER == {
        *("status", "alias", "num-classes", "public-key"),
        *("modulus", "sealed-keys"),
        *("registration", "distribution"),
        *("decisions", "unwilling"),
        "chosen",
    }
    assert not any(isinstance(value, float) for value in values)
