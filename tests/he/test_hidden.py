"""Tests of the keys: nothing that is printed, copied or stored shows a secret."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dubhe_flwr.he.sealing import RecipientKey
from dubhe_flwr.he.secret_key import generate_secret_key
from dubhe_flwr.he.signing import PinnedKeys

_SIGNING = Ed25519PrivateKey.generate()


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps, vars])
@pytest.mark.parametrize(
    "key",
    [
        generate_secret_key(512),
        RecipientKey.generate(),
        PinnedKeys(_SIGNING, [_SIGNING.public_key()]),
    ],
)
def test_a_key_is_never_shown_or_copied_out(key: Any, copied: Callable[[Any], object]) -> None:
    """A key's repr is its class name, and pickle, copy, JSON and vars cannot read it."""
    assert repr(key) == str(key) == f"{type(key).__name__}(<hidden>)"
    with pytest.raises(TypeError):
        copied(key)
