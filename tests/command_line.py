"""Calls a command line as a shell would."""

import sys
from collections.abc import Callable

import pytest

from dubhe_flwr.cli import main as dubhe


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str, main: Callable[[], None] = dubhe) -> int:
    """Call `dubhe` or another program with arguments and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    code = stopped.value.code
    return code if isinstance(code, int) else int(code is not None)
