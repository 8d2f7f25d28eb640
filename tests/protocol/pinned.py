"""Federations whose nodes know each other's keys, for the tests of who trusts whom."""

from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from protocol.federation import Federation
from protocol.node import NUM_CLIENTS, federation

from dubhe_flwr.he import PinnedKeys
from dubhe_flwr.protocol import CoordinatorState


def signing_key(number: int) -> Ed25519PrivateKey:
    """Return the same key for the same number."""
    return Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


KEYS = [signing_key(number) for number in range(NUM_CLIENTS)]
TRUSTED = [key.public_key() for key in KEYS]


def pinned_federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return nine nodes with pinned keys, and a server."""
    nodes = federation(**overrides)
    for node_id, key in zip(nodes.ids, KEYS, strict=True):
        pin(nodes, node_id, PinnedKeys(key, TRUSTED))
    return nodes


def pin(nodes: Federation[Any], node_id: int, keys: PinnedKeys | None) -> None:
    """Give a node other keys."""
    nodes.policies[node_id] = replace(nodes.policies[node_id], pinned=keys)
