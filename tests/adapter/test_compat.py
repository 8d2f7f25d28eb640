"""Tests of the fallbacks for internals that Flower may have moved."""

import sys
from typing import Any

import pytest
from flwr.app import ConfigRecord
from flwr.clientapp import ClientApp

from dubhe_flwr.adapter import _compat


def test_moved_internals_have_fallbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, a record and an app work without Flower's undocumented names."""
    monkeypatch.setitem(sys.modules, "flwr.supercore.task_identity", None)
    assert _compat.new_run(17).run_id == 17

    class Record(ConfigRecord):
        """Keeps its values elsewhere."""

        def __init__(self, values: dict[str, Any] | None = None) -> None:
            super().__init__(values)
            if values is None:
                vars(self)["_data"] = None

    monkeypatch.setattr(_compat, "ConfigRecord", Record)
    assert dict(_compat.config_record({"a": b"x"})) == {"a": b"x"}
    app = ClientApp()
    del vars(app)["_mods"]
    with _compat.without_mods(app):
        pass
    app.query()(lambda message, _context: message)
