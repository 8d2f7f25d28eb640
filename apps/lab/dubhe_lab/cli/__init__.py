"""The command line `dubhe`: one module per command, which parses options and runs an experiment."""

from dubhe_lab.cli.application import app, main

__all__ = ["app", "main"]
