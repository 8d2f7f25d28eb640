"""The command line `dubhe`: one module a command, each parses and calls an experiment."""

from dubhe_flwr.cli.application import app, main, run_application

__all__ = ["app", "main", "run_application"]
