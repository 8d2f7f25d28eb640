"""A SuperLink with SuperNodes on loopback, with TLS, node authentication and reviewed apps."""

from deployment.credentials import Credentials
from deployment.federation import Federation
from deployment.processes import Processes
from deployment.shelf import Shelf

__all__ = ["Credentials", "Federation", "Processes", "Shelf"]
