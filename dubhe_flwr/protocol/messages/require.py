"""How a message refuses content that makes no sense."""

from typing import Final

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.he import SIGNATURE_BYTES

__all__ = ["MAX_DRAWS", "require", "require_signature"]

MAX_DRAWS: Final = 2**20
"""Most draws in a message; no more memory is taken before a budget is checked."""


def require(condition: bool, sentence: str) -> None:
    """Refuse a message whose content makes no sense."""
    if not condition:
        raise MalformedMessageError(sentence)


def require_signature(signature: bytes) -> None:
    """Refuse what cannot be a signature with its signer."""
    require(len(signature) == SIGNATURE_BYTES, f"A signature has {SIGNATURE_BYTES} bytes.")
