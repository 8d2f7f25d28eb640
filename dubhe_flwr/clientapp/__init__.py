"""Dubhe for Flower ClientApps: `DubheMod`, `register_dubhe` and the functions that load keys."""

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
