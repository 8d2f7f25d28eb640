"""Tests of the line that adds Dubhe to an app of the Message API; more are in `test_mod`."""

import pytest
from flwr.serverapp import ServerApp

from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.errors import SettingsError


def test_only_a_client_app_answers() -> None:
    """Another kind of app, or swapped arguments, are named at once."""
    with pytest.raises(SettingsError, match="ServerApp is not a ClientApp; give the app"):
        register_dubhe(ServerApp(), lambda _context: [1, 2])  # type: ignore[arg-type]
