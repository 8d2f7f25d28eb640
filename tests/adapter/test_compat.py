"""Tests of the fallbacks for internals that Flower may have moved."""

import sys

import pytest
from flwr.clientapp import ClientApp

from dubhe_flwr.adapter import _compat


def test_moved_internals_have_fallbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run and an app work without Flower's undocumented names."""
    monkeypatch.setitem(sys.modules, "flwr.supercore.task_identity", None)
    assert _compat.new_run(17).run_id == 17
    app = ClientApp()
    del vars(app)["_mods"]
    with _compat.without_mods(app):
        pass
    app.query()(lambda message, _context: message)
