"""Tests of the line that adds Dubhe to an app of the Message API; more are in `test_mod`."""

from inspect import signature
from typing import assert_type

import pytest
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.errors import SettingsError


def test_only_a_client_app_answers() -> None:
    """Another kind of app, or swapped arguments, are named at once."""
    with pytest.raises(SettingsError, match="ServerApp is not a ClientApp; give the app"):
        register_dubhe(ServerApp(), lambda _context: [1, 2])  # type: ignore[arg-type]


def test_its_arguments_are_those_of_a_node() -> None:
    """Type checkers know them, and `label_counts` may be named or not."""
    register_dubhe(ClientApp(), lambda _context: [1, 2])
    assert_type(register_dubhe(ClientApp(), label_counts=lambda _context: [1, 2]), None)
    assert list(signature(register_dubhe).parameters)[:3] == ["app", "label_counts", "willing"]
    with pytest.raises(SettingsError, match="register_dubhe takes no wiling; did you mean willing"):
        register_dubhe(ClientApp(), lambda _context: [1, 2], wiling=None)  # type: ignore[call-arg]
