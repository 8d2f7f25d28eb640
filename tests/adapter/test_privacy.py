"""What the server receives over a whole run tells it nobody's labels, in either API."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from apis import LABEL_COUNTS, SELECTION, Api, in_both_apis
from disclosure import label_secrets

from dubhe_flwr.protocol import Memory

pytestmark = in_both_apis

HEADER = {"version", "epoch", "stage", "sequence"}


def run(api: Api, **options: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Run a federation; return its grid, and all messages with replies."""
    grid = api.grid()
    seen: list[tuple[Any, Any]] = []
    answer = grid._answer

    def watched(message: Any) -> Any:
        reply = answer(message)
        if message.metadata.message_type.startswith("evaluate.dubhe"):
            assert set(message.content) == set(reply.content) == {"dubhe"}
            request, response = (dict(m.content["dubhe"]) for m in (message, reply))
            seen.append((request, response))
        return reply

    grid._answer = watched
    api.run(api.dubhe(**options), grid)
    return grid, seen


def test_replies_and_checkpoints_hold_nothing_in_the_clear(api: Api, tmp_path: Path) -> None:
    """Neither a registry, p_l, R_A nor a secret key; nor is there a field for anything else."""
    grid, seen = run(api, checkpoint_dir=tmp_path)
    replies = [reply for _, reply in seen]
    values = [value for reply in replies for value in reply.values()]
    received = b"|".join(v if isinstance(v, bytes) else repr(v).encode() for v in values)
    rule = SELECTION["rule"]
    secrets = label_secrets(LABEL_COUNTS, rule.codebook.reference_set, rule.candidates[0])
    keys: set[bytes] = set()
    for context in grid.contexts.values():
        joined: Any = Memory.from_fields(context.state.config_records["dubhe"]).joined
        p = int.from_bytes(joined.registered.key.prime, "big")
        for prime in (p, int.from_bytes(joined.registered.key.modulus, "big") // p):
            keys |= {prime.to_bytes(32, "big"), prime.to_bytes(32, "little")}
            keys |= {str(prime).encode(), f"{prime:x}".encode()}
        keys.add(joined.delivery_key)
    keys |= {b64encode(key).rstrip(b"=")[:-1] for key in keys}
    assert len(secrets | keys) > 1000
    assert [secret for secret in secrets | keys if secret in received] == []
    kept = b"|".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [key for key in keys if key in kept] == []
    assert b64encode(joined.registered.key.modulus) in kept  # the search finds what is there
    assert {name for reply in replies for name in reply} - HEADER == {
        *("status", "alias", "num-classes", "public-key"),
        *("modulus", "sealed-keys"),
        *("registration", "distribution"),
        *("decisions", "unwilling"),
        "chosen",
    }
    assert not any(isinstance(value, float) for value in values)
