"""The command line `dubhe`: one module a command, each parses and calls an experiment."""

from dubhe_lab.cli.application import app, main, new_application, run_application

__all__ = ["app", "main", "new_application", "run_application"]
