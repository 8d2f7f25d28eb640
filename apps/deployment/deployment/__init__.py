"""A SuperLink with SuperNodes on the loopback interface, with TLS and node authentication."""

from deployment.credentials import Credentials
from deployment.federation import Federation
from deployment.processes import Processes

__all__ = ["Credentials", "Federation", "Processes"]
