"""Dubhe for Flower strategies with `configure_train`, as used in `@app.main()`."""

from dubhe_flwr.serverapp.strategy import Dubhe, Selection

__all__ = ["Dubhe", "Selection"]
