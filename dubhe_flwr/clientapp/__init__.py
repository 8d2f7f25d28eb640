"""The client side of Dubhe for Flower ClientApps."""

from dubhe_flwr.clientapp.keys import load_signing_key, load_trusted_keys
from dubhe_flwr.clientapp.node import DubheMod, LabelCounts, Willing, register_dubhe

__all__ = [
    "DubheMod",
    "LabelCounts",
    "Willing",
    "load_signing_key",
    "load_trusted_keys",
    "register_dubhe",
]
