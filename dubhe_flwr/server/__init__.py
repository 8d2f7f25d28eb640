"""Dubhe for Flower strategies with `configure_fit`, as used in `ServerApp(server_fn=...)`."""

from dubhe_flwr.server.strategy import Dubhe, Selection

__all__ = ["Dubhe", "Selection"]
