"""Calls `dubhe` as a shell would."""

import sys

import pytest

from dubhe_flwr.cli import main


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Call `dubhe` with arguments and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["dubhe", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    code = stopped.value.code
    return code if isinstance(code, int) else int(code is not None)
