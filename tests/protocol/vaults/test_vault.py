"""Tests of what every vault refuses, and of the one for simulations in the clear."""

from dataclasses import replace

import pytest

from dubhe_flwr.errors import InvalidCiphertextError, SealError
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.wire.messages import RegisterRequest
from dubhe_flwr.protocol.wire.terms import REGISTRATION, terms_of


def test_a_state_that_does_not_open_is_refused() -> None:
    """It was sealed under another key, or is missing."""
    announced = replace(Settings(num_participants=20).announced(0), continues=bytes(16))
    vault = terms_of(announced, 4).vault
    for state in (None, bytes(48)):
        with pytest.raises(SealError):
            vault.opened_state(RegisterRequest(60, state=state), bytes(32))


def test_in_the_clear_only_numbers_of_the_field_are_added() -> None:
    """If a sum is refused, the server looks for the node that sent another vector."""
    vault = terms_of(Settings(num_participants=20, simulation="plain").announced(0), 4).vault
    good = bytes(vault.vector_bytes(REGISTRATION))
    assert vault.add_up(b"", [REGISTRATION], [good, good]) == good
    for other in (good[1:], b"\xff" * len(good), b"\x7f" * len(good)):
        with pytest.raises(InvalidCiphertextError):
            vault.add_up(b"", [REGISTRATION], [good, other])
