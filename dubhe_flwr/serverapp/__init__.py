"""Dubhe for Flower strategies with `configure_train`, as used in `@app.main()`."""

from dubhe_flwr.serverapp.dubhe import Dubhe
from dubhe_flwr.serverapp.selection import Selection

__all__ = ["Dubhe", "Selection"]
