"""Participation rules. Importing them here registers them on both sides."""

from dubhe_flwr.protocol.rules import paper, prices

__all__ = ["paper", "prices"]
