"""Calls a command line as a shell would."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple
from unittest.mock import patch

import pytest

from dubhe_lab.cli import main as dubhe


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def call(*arguments: str) -> Ended:
    """Run `dubhe` with these arguments."""
    out, err = StringIO(), StringIO()
    with (
        patch.object(sys, "argv", ["program", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as stopped,
    ):
        dubhe()
    code = stopped.value.code
    return Ended(
        code if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue()
    )
