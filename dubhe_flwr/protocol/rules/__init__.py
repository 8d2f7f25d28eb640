"""Participation rules; those that are imported here are known to both sides."""

from dubhe_flwr.protocol.rules import paper, prices

__all__ = ["paper", "prices"]
