"""The command line `dubhe`: one module per command, which parses options and runs an experiment."""

from dubhe_lab.cli.application import app, main, new_application, run_application

__all__ = ["app", "main", "new_application", "run_application"]
