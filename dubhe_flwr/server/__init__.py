"""Dubhe for Flower strategies with `configure_fit`, as used in `ServerApp(server_fn=...)`."""

from dubhe_flwr.server.dubhe import Dubhe
from dubhe_flwr.server.selection import Selection

__all__ = ["Dubhe", "Selection"]
